//! Follows the demo's objects and tells each change once, until the Stack is where it should be.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use serde_json::Value;

use super::{
    NAMESPACE,
    changes::{condition, lines},
    items,
    kubectl::Kubectl,
};
use crate::progress::seconds;

pub(crate) struct Follower {
    began: Instant,
    told: BTreeMap<String, String>,
}

impl Follower {
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), told: BTreeMap::new() }
    }

    /// Begins to count anew and does not tell again what was told.
    pub(crate) fn knowing(earlier: Self) -> Self {
        Self { began: Instant::now(), told: earlier.told }
    }

    /// Follows until the Stack is ready by another update than the one named; returns that update's name. The Stack
    /// must then have these outputs.
    pub(crate) fn until_updated(
        &mut self,
        kubectl: &Kubectl,
        not: &str,
        outputs: &Value,
        limit: Duration,
    ) -> Result<String> {
        loop {
            let found =
                items(&kubectl.read(&["get", "stack,workspace,update,event", "-n", NAMESPACE, "-o", "json"])?)?;
            self.tell(&found);
            let stack = found.iter().find(|i| i["kind"] == "Stack");
            if let Some(name) = stack.and_then(|stack| finished(stack, not)) {
                let seen = &stack.unwrap_or(&Value::Null)["status"]["outputs"];
                if seen != outputs {
                    bail!("the Stack is ready with the outputs {seen}, not with {outputs}");
                }
                println!("the Stack is ready after {}", seconds(self.began.elapsed()));
                return Ok(name);
            }
            if self.began.elapsed() > limit {
                bail!("the Stack was not ready within {}", seconds(limit));
            }
            // One kubectl costs a tenth of a second of a core that the update needs as well.
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    fn tell(&mut self, found: &[Value]) {
        for line in lines(found) {
            if self.told.get(&line.key) != Some(&line.text) {
                println!("{:>7}  {:<34} {}", seconds(self.began.elapsed()), line.subject, line.text);
                self.told.insert(line.key, line.text);
            }
        }
    }
}

/// The name of the Stack's last update if the Stack is ready by it and it is not the one given.
fn finished(stack: &Value, not: &str) -> Option<String> {
    let ready = condition(stack, "Ready").is_some_and(|c| c["status"] == "True");
    let current = stack["status"]["observedGeneration"] == stack["metadata"]["generation"];
    let last = &stack["status"]["lastUpdate"];
    let name = last["name"].as_str().filter(|name| *name != not && last["state"] == "succeeded")?;
    (ready && current).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stack_is_finished_by_a_new_update_of_its_present_generation_only() {
        let stack = |generation: u8, ready: &str, name: &str, state: &str| {
            json!({"metadata": {"generation": 2}, "status": {
                "observedGeneration": generation,
                "conditions": [{"type": "Ready", "status": ready}],
                "lastUpdate": {"name": name, "state": state},
            }})
        };
        assert_eq!(finished(&stack(2, "True", "b", "succeeded"), "a"), Some("b".to_owned()));
        for (reason, stack) in [
            ("the update is the earlier one", stack(2, "True", "a", "succeeded")),
            ("the change was not seen yet", stack(1, "True", "b", "succeeded")),
            ("it is not ready", stack(2, "False", "b", "succeeded")),
            ("the update failed", stack(2, "True", "b", "failed")),
            ("there is no status", json!({"metadata": {"generation": 2}})),
        ] {
            assert_eq!(finished(&stack, "a"), None, "{reason}");
        }
    }
}
