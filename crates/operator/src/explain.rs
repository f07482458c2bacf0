//! `manager explain`: the same decision as the operator's, from everything as it is now, told instead of done.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use jiff::Timestamp;
use pko_core::{
    ask::{Answer, GitTrouble, Question, RunAnswer, RunState, SourceSeen},
    driver::{self, Shell, Stopped},
    effect::Effect,
    facts::Facts,
    seen::{Key, Kind, Object, PodSeen},
    settings::Settings,
    step::Then,
};

use crate::{
    artifacts::Packs,
    cluster::{Cause, Failure},
    flags::{ExplainKind, Flags, variable},
    operator,
    shell::Reads,
    sources::Sources,
};

/// Reads everything as it is, and refuses to write.
struct ReadOnly {
    reads: Reads,
    settings: Settings,
}

impl Shell for ReadOnly {
    type Error = Failure;

    async fn observe(&self, key: &Key) -> Result<Facts, Failure> {
        let object = self.reads.object(key.kind, &key.namespace, &key.name).await?;
        let settings = Settings { known_hosts: self.reads.sources.known_hosts(), ..self.settings.clone() };
        Ok(Facts::new(key.clone(), Timestamp::now(), settings, object))
    }

    async fn answer(&self, key: &Key, question: &Question) -> Result<Answer, Failure> {
        self.reads.answer(key, question).await
    }

    async fn perform(&self, key: &Key, effect: &Effect) -> Result<Option<String>, Failure> {
        Err(Failure::new(Cause::Other, effect.name(), key, "explaining writes nothing"))
    }
}

/// What the operator would do now, in words.
pub async fn explain(flags: &Flags, kind: ExplainKind, object: &str) -> Result<String> {
    let key = key(kind, object)?;
    let flags = flags.clone().beside(&std::fs::read("/proc/1/cmdline").unwrap_or_default());
    let cluster = operator::connect(&flags).await?;
    let agents = Arc::new(operator::agents(&cluster));
    let sources = Arc::new(Sources::read_only(&cluster, variable));
    let reads = Reads { cluster, agents, packs: Packs::default(), sources };
    let shell = ReadOnly { reads, settings: operator::settings(&flags) };
    let mut facts = shell.observe(&key).await?;
    if facts.object.is_none() {
        bail!("there is no {key}");
    }
    match driver::decision(&shell, &key, &mut facts).await {
        Ok((effects, then)) => Ok(told(&facts, &effects, then)),
        Err(Stopped::Shell(failure)) => Err(anyhow!(failure)).context(asked(&facts).join("\n")),
        Err(Stopped::Endless) => bail!("the decision about {key} does not come to an end; this is a bug"),
    }
}

fn key(kind: ExplainKind, object: &str) -> Result<Key> {
    let kind = match kind {
        ExplainKind::Stack => Kind::Stack,
        ExplainKind::Workspace => Kind::Workspace,
        ExplainKind::Update => Kind::Update,
        ExplainKind::Program => Kind::Program,
    };
    match object.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(Key { kind, namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => bail!("{object} is not of the form NAMESPACE/NAME"),
    }
}

/// Names and summaries only: objects and answers may hold what is not to be shown.
fn told(facts: &Facts, effects: &[Effect], then: Then) -> String {
    let mut lines = vec![format!("{}: {}", facts.key, facts.object.as_ref().map_or("gone".to_owned(), summary))];
    let Settings { agent_image, artifact_address, .. } = &facts.settings;
    lines.push(format!("For an operator with agents from {agent_image} and artifacts at {artifact_address};"));
    lines.push("in its pod, this command finds both by itself.".to_owned());
    lines.push(String::new());
    lines.extend(asked(facts));
    lines.push(String::new());
    if effects.is_empty() {
        lines.push("Nothing is to be done now.".to_owned());
    } else {
        lines.push("This would be done, in order:".to_owned());
        lines.extend(effects.iter().map(|effect| format!("  {}{}", effect.name(), detail(effect))));
    }
    lines.push(match then {
        Then::AwaitChange => "It is looked at again when something changes.".to_owned(),
        Then::Requeue(after) => {
            format!("It is looked at again after {}, or when something changes.", pko_api::GoDuration::from(after))
        }
    });
    lines.join("\n")
}

fn asked(facts: &Facts) -> Vec<String> {
    if facts.answers.is_empty() {
        return vec!["Nothing else had to be known.".to_owned()];
    }
    let mut lines = vec!["What was asked, and heard:".to_owned()];
    lines.extend(facts.answers.iter().map(|(question, answer)| format!("  {}: {}", wording(question), heard(answer))));
    lines
}

fn wording(question: &Question) -> String {
    match question {
        Question::Cached(kind, name) | Question::Live(kind, name) => format!("{} {name}", kind.as_str()),
        Question::UpdatesIn { workspace } => format!("Updates in Workspace {workspace}"),
        Question::Reference(kind, name) => format!("{} {name}", kind.as_str()),
        Question::Admission { stateful_set } => format!("whether the cluster takes a pod of {stateful_set}"),
        Question::Revision(listing) => format!("the commit of {}", listing.reference),
        Question::Source(source) => format!("{} {}", source.kind, source.name),
        Question::Requirements => "what the prerequisites require".to_owned(),
        Question::Dependents => "Stacks that require it".to_owned(),
        Question::Namesakes { .. } => "other Stacks of the same Pulumi stack".to_owned(),
        Question::NamespaceTerminating => "whether the namespace is going away".to_owned(),
        Question::UpdatesOf { stack } => format!("Updates of Stack {stack}"),
        Question::RunsIn { workspace } => format!("unfinished runs in Workspace {workspace}"),
        Question::Outputs { secret } => format!("outputs in Secret {secret}"),
        Question::Artifact => "the packed Program".to_owned(),
        Question::Run { pod, run_id } => format!("run {run_id} in pod {}", pod.name),
        Question::LatestRun { pod, .. } => format!("the latest init run in pod {}", pod.name),
    }
}

fn heard(answer: &Answer) -> String {
    match answer {
        Answer::Object(None) | Answer::Reference(None) => "there is none".to_owned(),
        Answer::Object(Some(object)) => summary(object),
        Answer::Updates(updates) => updates.len().to_string(),
        Answer::Outputs(None) => "there is no such Secret".to_owned(),
        Answer::Outputs(Some(outputs)) => format!("{} outputs", outputs.len()),
        Answer::Artifact(Ok(packed)) => format!("{} bytes, {}", packed.size, packed.digest),
        Answer::Artifact(Err(why)) => format!("it cannot be packed: {why}"),
        Answer::Reference(Some(found)) => match found.changed {
            Some(changed) => format!("{} keys, last written {changed}", found.keys.len()),
            None => format!("{} keys", found.keys.len()),
        },
        Answer::Revision(Ok(commit)) => commit.clone(),
        Answer::Revision(Err(
            GitTrouble::Address(why)
            | GitTrouble::Credentials(why)
            | GitTrouble::NoRevision(why)
            | GitTrouble::Unavailable(why),
        )) => format!("it cannot be told: {why}"),
        Answer::Source(SourceSeen::Artifact { revision, .. }) => format!("an artifact of {revision}"),
        Answer::Source(SourceSeen::Empty { why }) => format!("no artifact {why}"),
        Answer::Source(SourceSeen::Missing(why) | SourceSeen::Unreadable(why)) => why.clone(),
        Answer::Requirements(all) => format!("{} Stacks", all.len()),
        Answer::Stacks(all) => {
            let names: Vec<_> = all.iter().filter_map(|stack| stack.metadata.name.as_deref()).collect();
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        }
        Answer::Terminating(going) => if *going { "it is" } else { "it is not" }.to_owned(),
        Answer::Admission(None) => "nothing speaks against it".to_owned(),
        Answer::Admission(Some(why)) => format!("no: {why}"),
        Answer::Run(RunAnswer::Silent { why }) => format!("no answer: {why}"),
        Answer::Run(RunAnswer::Refused { code, message }) => format!("refused, {code}: {message}"),
        Answer::Run(RunAnswer::Unknown) => "the agent knows of none".to_owned(),
        Answer::Run(RunAnswer::Known(run)) => match &run.state {
            RunState::Running(phase) => format!("{} is running, {phase:?}", run.run_id),
            RunState::Succeeded => format!("{} succeeded", run.run_id),
            RunState::Failed(failure) => format!("{} failed, {}", run.run_id, failure.reason),
        },
    }
}

fn summary(object: &Object) -> String {
    let (metadata, conditions) = match object {
        Object::Stack(stack) => (&stack.metadata, stack.status.as_ref().map(|status| &status.conditions)),
        Object::Workspace(of) => (&of.metadata, of.status.as_ref().map(|status| &status.conditions)),
        Object::Update(update) => (&update.metadata, update.status.as_ref().map(|status| &status.conditions)),
        Object::Program(program) => (&program.metadata, None),
        Object::Unreadable(bad) => return format!("cannot be read, {}", bad.why),
        Object::StatefulSet(set) => {
            let going = if set.deleting { ", being deleted" } else { "" };
            return format!("revision {}{going}", set.revision_hash.as_deref().unwrap_or("unknown"));
        }
        Object::Pod(pod) => return pod_summary(pod),
    };
    let mut words = vec![format!("generation {}", metadata.generation.unwrap_or_default())];
    if metadata.deletion_timestamp.is_some() {
        words.push("being deleted".to_owned());
    }
    let held = conditions.into_iter().flatten().filter(|condition| condition.status == "True");
    words.extend(held.map(|condition| format!("{} ({})", condition.type_, condition.reason)));
    words.join(", ")
}

fn pod_summary(pod: &PodSeen) -> String {
    let mut words = vec![if pod.running_since.is_some() { "running" } else { "not running" }.to_owned()];
    if pod.deleting {
        words.push("being deleted".to_owned());
    }
    words.push(if pod.initialized { "made ready" } else { "not made ready yet" }.to_owned());
    words.extend(pod.trouble.clone());
    words.join(", ")
}

/// What an effect is about.
fn detail(effect: &Effect) -> String {
    match effect {
        Effect::CreateUpdate(update) => {
            let name = update.metadata.name.as_deref().unwrap_or_default();
            format!(": {name}, {}", update.spec.update_type.as_deref().unwrap_or_default())
        }
        Effect::HoldUpdate { on }
        | Effect::ReleaseUpdate { on }
        | Effect::DeleteUpdate { on }
        | Effect::DeleteWorkspace { on } => format!(": {}", on.name),
        Effect::StartInit { pod, run_id, .. }
        | Effect::StartUpdate { pod, run_id, .. }
        | Effect::CancelRun { pod, run_id } => {
            format!(": {run_id} in pod {}", pod.name)
        }
        Effect::DeletePod { pod } | Effect::MarkInitialized { pod, .. } => format!(": {}", pod.name),
        Effect::Publish { event, .. } => format!(": {}", event.reason),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_with_their_namespace() {
        assert_eq!(key(ExplainKind::Update, "team/web-1").unwrap().to_string(), "Update team/web-1");
        for wrong in ["web", "/web", "team/", "a/b/c"] {
            assert!(key(ExplainKind::Stack, wrong).is_err(), "{wrong}");
        }
    }
}
