//! Several Stack objects may be about one Pulumi stack, such as one that previews and one that updates. Their updates
//! take turns. What runs elsewhere, the backend's own locks keep apart.

use std::time::Duration;

use pko_api::{Stack, reasons::stack as reason};

use super::{draft::Draft, source};
use crate::{facts::Facts, step::Decision};

/// The end of another's update wakes the Stack; this is for a watch that missed it.
const LOOK_AGAIN: Duration = Duration::from_secs(20);

/// Goes on only if no other Stack of the same Pulumi stack is updating it. Previews wait for nobody.
pub(super) fn idle(facts: &Facts, draft: &mut Draft) -> Decision<()> {
    if draft.status.current_update.is_some() || previews(draft.stack) {
        return Ok(());
    }
    let stack = draft.stack;
    let others = facts.namesakes(&deploys(stack))?;
    let mut busy = others.iter().find(|other| updates(other));
    for other in others {
        // Nobody begins because of an old view of the others.
        if busy.is_none() {
            busy = facts.live_stack(name(other))?.filter(|live| updates(live));
        }
    }
    let Some(busy) = busy else { return Ok(()) };
    let update = busy.status.as_ref().and_then(|status| status.current_update.as_ref());
    let text = format!(
        "waiting for Stack {}, which is about the same Pulumi stack {}: its Update {} is under way",
        name(busy),
        stack.spec.stack,
        update.map(|update| update.name.as_str()).unwrap_or_default()
    );
    Err(draft.reconciling(reason::STACK_PROCESSING, text, Vec::new(), LOOK_AGAIN))
}

/// What Stacks of one namespace that are about the same Pulumi stack have in common. A name that leaves the project open
/// is told apart by the program, since that names its project.
pub fn deploys(stack: &Stack) -> String {
    let spec = &stack.spec;
    let backend = spec.backend.as_deref().unwrap_or_default().trim_end_matches('/');
    let qualified = spec.stack.split('/').count() == 3;
    let program = if qualified {
        Vec::new()
    } else if let Some(program) = &spec.program_ref {
        vec![program.name.as_str()]
    } else if let Some(source) = &spec.flux_source {
        let reference = &source.source_ref;
        vec![reference.kind.as_str(), &reference.name, source.dir.as_deref().unwrap_or_default().trim_matches('/')]
    } else {
        source::identity(stack).map(|(url, dir)| vec![url, dir]).unwrap_or_default()
    };
    [&[backend, spec.stack.as_str()], &program[..]].concat().join(" ")
}

/// Whether a Stack has an update planned or running that changes something.
fn updates(stack: &Stack) -> bool {
    let current = stack.status.as_ref().and_then(|status| status.current_update.as_ref());
    // One of another generation may be of another kind.
    let of_this = |generation: i64| stack.metadata.generation.unwrap_or_default() == generation;
    current.is_some_and(|current| !(previews(stack) && of_this(current.generation)))
}

fn previews(stack: &Stack) -> bool {
    stack.spec.preview && stack.metadata.deletion_timestamp.is_none()
}

fn name(stack: &Stack) -> &str {
    stack.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn stack(spec: Value) -> Stack {
        let mut spec = spec;
        if spec["stack"].is_null() {
            spec["stack"] = json!("dev");
        }
        serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap()
    }

    #[rstest]
    #[case(json!({"stack": "org/web/dev"}), json!({"stack": "org/web/dev", "preview": true}), true)]
    #[case(json!({"stack": "org/web/dev"}), json!({"stack": "org/web/dev", "backend": "s3://state"}), false)]
    #[case(json!({"backend": "s3://state"}), json!({"backend": "s3://state/"}), true)]
    #[case(json!({"programRef": {"name": "p"}}), json!({"programRef": {"name": "p"}}), true)]
    #[case(json!({"programRef": {"name": "p"}}), json!({"programRef": {"name": "q"}}), false)]
    #[case(json!({"projectRepo": "u", "branch": "a"}), json!({"projectRepo": "u", "branch": "b"}), true)]
    #[case(json!({"projectRepo": "u", "repoDir": "x/"}), json!({"projectRepo": "u", "repoDir": "x"}), true)]
    #[case(json!({"projectRepo": "u", "repoDir": "x"}), json!({"projectRepo": "u", "repoDir": "y"}), false)]
    fn stacks_are_the_same_by_backend_name_and_project(
        #[case] one: Value,
        #[case] other: Value,
        #[case] expected: bool,
    ) {
        let (one, other) = (stack(one), stack(other));
        assert_eq!(deploys(&one) == deploys(&other), expected);
    }
}
