//! What a decision is made from. The clock is a fact like any other; names are generated from it.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use pko_api::{Program, Stack, Unreadable, Update, Workspace};
use serde_json::Value;

use crate::{
    ask::{Answer, GitTrouble, Listing, Packed, Question, RunAnswer, SourceRef, SourceSeen},
    references::{ReferenceKind, ReferenceSeen},
    seen::{Key, Kind, Object, PodRef, PodSeen, StatefulSetSeen},
    settings::Settings,
    step::{Decision, Step},
    workspace::build::Memo,
};

/// How soon something that cannot be read is looked at again, unless it is seen to change.
const UNREADABLE: Duration = Duration::from_mins(1);

/// Everything known in one reconcile: the object itself, the time, and what was asked so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    pub key: Key,
    pub now: Timestamp,
    pub settings: Settings,
    /// The object as the watch last showed it; nothing if it is gone.
    pub object: Option<Object>,
    /// What it was when it was last seen, if it is gone.
    pub gone: Option<Object>,
    /// What the server or an agent would not do for this object when it was last decided about, in their words.
    pub refused: Option<String>,
    pub answers: Vec<(Question, Answer)>,
    /// What a Workspace's pod is to look like, once that was worked out.
    pub planned: Memo,
}

impl Facts {
    /// What is known before anything was asked.
    pub fn new(key: Key, now: Timestamp, settings: Settings, object: Option<Object>) -> Self {
        Self { key, now, settings, object, gone: None, refused: None, answers: Vec::new(), planned: Memo::default() }
    }

    /// Takes an answer in.
    pub fn learn(&mut self, question: Question, answer: Answer) {
        self.answers.push((question, answer));
    }

    fn answer(&self, question: Question) -> Decision<&Answer> {
        match self.answers.iter().find(|(asked, _)| *asked == question) {
            Some((_, answer)) => Ok(answer),
            None => Err(Step::Ask(question)),
        }
    }

    /// What cannot be read is there all the same: nothing is decided that depends on it.
    fn object(&self, question: Question) -> Decision<Option<&Object>> {
        match self.answer(question)? {
            Answer::Object(Some(Object::Unreadable(_))) => Err(Step::look_again(UNREADABLE)),
            Answer::Object(found) => Ok(found.as_ref()),
            _ => Ok(None),
        }
    }

    fn updates(&self, question: Question) -> Decision<&[Update]> {
        Ok(match self.answer(question)? {
            Answer::Updates(found) => found,
            _ => &[],
        })
    }

    fn run_answer(&self, question: Question) -> Decision<&RunAnswer> {
        const MUDDLED: &RunAnswer = &RunAnswer::Unknown;
        Ok(match self.answer(question)? {
            Answer::Run(answer) => answer,
            _ => MUDDLED,
        })
    }

    /// A Stack as last seen.
    pub fn cached_stack(&self, name: &str) -> Decision<Option<&Stack>> {
        Ok(self.object(Question::Cached(Kind::Stack, name.to_owned()))?.and_then(Object::stack))
    }

    /// A Stack as it is.
    pub fn live_stack(&self, name: &str) -> Decision<Option<&Stack>> {
        Ok(self.object(Question::Live(Kind::Stack, name.to_owned()))?.and_then(Object::stack))
    }

    /// A Program as last seen.
    pub fn cached_program(&self, name: &str) -> Decision<Option<&Program>> {
        Ok(self.object(Question::Cached(Kind::Program, name.to_owned()))?.and_then(Object::program))
    }

    /// A Workspace as last seen.
    pub fn cached_workspace(&self, name: &str) -> Decision<Option<&Workspace>> {
        Ok(self.object(Question::Cached(Kind::Workspace, name.to_owned()))?.and_then(Object::workspace))
    }

    /// A Workspace as it is.
    pub fn live_workspace(&self, name: &str) -> Decision<Option<&Workspace>> {
        Ok(self.object(Question::Live(Kind::Workspace, name.to_owned()))?.and_then(Object::workspace))
    }

    /// An Update as last seen.
    pub fn cached_update(&self, name: &str) -> Decision<Option<&Update>> {
        Ok(self.object(Question::Cached(Kind::Update, name.to_owned()))?.and_then(Object::update))
    }

    /// An Update as it is.
    pub fn live_update(&self, name: &str) -> Decision<Option<&Update>> {
        Ok(self.object(Question::Live(Kind::Update, name.to_owned()))?.and_then(Object::update))
    }

    /// A StatefulSet as last seen.
    pub fn cached_stateful_set(&self, name: &str) -> Decision<Option<&StatefulSetSeen>> {
        Ok(self.object(Question::Cached(Kind::StatefulSet, name.to_owned()))?.and_then(Object::stateful_set))
    }

    /// A StatefulSet as it is.
    pub fn live_stateful_set(&self, name: &str) -> Decision<Option<&StatefulSetSeen>> {
        Ok(self.object(Question::Live(Kind::StatefulSet, name.to_owned()))?.and_then(Object::stateful_set))
    }

    /// A pod as last seen.
    pub fn cached_pod(&self, name: &str) -> Decision<Option<&PodSeen>> {
        Ok(self.object(Question::Cached(Kind::Pod, name.to_owned()))?.and_then(Object::pod))
    }

    /// A pod as it is.
    pub fn live_pod(&self, name: &str) -> Decision<Option<&PodSeen>> {
        Ok(self.object(Question::Live(Kind::Pod, name.to_owned()))?.and_then(Object::pod))
    }

    /// The Updates of a Stack as last seen.
    pub fn updates_of(&self, stack: &str) -> Decision<&[Update]> {
        self.updates(Question::UpdatesOf { stack: stack.to_owned() })
    }

    /// The Updates that a Workspace's pod is working on, as they are.
    pub fn runs_in(&self, workspace: &str) -> Decision<&[Update]> {
        self.updates(Question::RunsIn { workspace: workspace.to_owned() })
    }

    /// The Updates of a Workspace that have not ended, as last seen.
    pub fn updates_in(&self, workspace: &str) -> Decision<&[Update]> {
        self.updates(Question::UpdatesIn { workspace: workspace.to_owned() })
    }

    /// A Secret or a ConfigMap as it is.
    pub fn reference(&self, kind: ReferenceKind, name: &str) -> Decision<Option<&ReferenceSeen>> {
        Ok(match self.answer(Question::Reference(kind, name.to_owned()))? {
            Answer::Reference(found) => found.as_ref(),
            _ => None,
        })
    }

    /// Why the server would not take a pod of that StatefulSet.
    pub fn refusal_of_pod(&self, stateful_set: &str) -> Decision<Option<&str>> {
        Ok(match self.answer(Question::Admission { stateful_set: stateful_set.to_owned() })? {
            Answer::Admission(refusal) => refusal.as_deref(),
            _ => None,
        })
    }

    /// The commit that a branch, a tag or a ref is at.
    pub fn revision(&self, listing: Listing) -> Decision<Result<&str, &GitTrouble>> {
        const MUDDLED: &GitTrouble = &GitTrouble::Unavailable(String::new());
        Ok(match self.answer(Question::Revision(Box::new(listing)))? {
            Answer::Revision(found) => found.as_deref(),
            _ => Err(MUDDLED),
        })
    }

    /// What a Flux source has to offer.
    pub fn source(&self, source: SourceRef) -> Decision<&SourceSeen> {
        const MUDDLED: &SourceSeen = &SourceSeen::Empty { why: String::new() };
        Ok(match self.answer(Question::Source(source))? {
            Answer::Source(seen) => seen,
            _ => MUDDLED,
        })
    }

    /// What each Stack requires that the Stack itself requires, directly or not.
    pub fn requirements(&self) -> Decision<&BTreeMap<String, Vec<String>>> {
        const NONE: &BTreeMap<String, Vec<String>> = &BTreeMap::new();
        Ok(match self.answer(Question::Requirements)? {
            Answer::Requirements(requirements) => requirements,
            _ => NONE,
        })
    }

    /// The Stacks that require the Stack itself.
    pub fn dependents(&self) -> Decision<&[Stack]> {
        self.stacks(Question::Dependents)
    }

    /// The other Stacks that are about the same Pulumi stack.
    pub fn namesakes(&self, deploys: &str) -> Decision<&[Stack]> {
        self.stacks(Question::Namesakes { deploys: deploys.to_owned() })
    }

    fn stacks(&self, question: Question) -> Decision<&[Stack]> {
        Ok(match self.answer(question)? {
            Answer::Stacks(stacks) => stacks,
            _ => &[],
        })
    }

    /// Whether the namespace is going away.
    pub fn namespace_terminating(&self) -> Decision<bool> {
        Ok(matches!(self.answer(Question::NamespaceTerminating)?, Answer::Terminating(true)))
    }

    /// The masked outputs in a Secret.
    pub fn outputs(&self, secret: &str) -> Decision<Option<&BTreeMap<String, Value>>> {
        Ok(match self.answer(Question::Outputs { secret: secret.to_owned() })? {
            Answer::Outputs(outputs) => outputs.as_ref(),
            _ => None,
        })
    }

    /// The packed form of the Program itself.
    pub fn artifact(&self) -> Decision<Result<&Packed, &str>> {
        Ok(match self.answer(Question::Artifact)? {
            Answer::Artifact(packed) => packed.as_ref().map_err(String::as_str),
            _ => Err("it was not packed"),
        })
    }

    /// A run as its agent knows it.
    pub fn run(&self, pod: &PodRef, run_id: &str) -> Decision<&RunAnswer> {
        self.run_answer(Question::Run { pod: pod.clone(), run_id: run_id.to_owned() })
    }

    /// The latest of the runs whose identifiers begin so.
    pub fn latest_run(&self, pod: &PodRef, prefix: &str) -> Decision<&RunAnswer> {
        self.run_answer(Question::LatestRun { pod: pod.clone(), prefix: prefix.to_owned() })
    }
}

impl Object {
    pub const fn stack(&self) -> Option<&Stack> {
        if let Self::Stack(stack) = self { Some(stack) } else { None }
    }

    pub const fn program(&self) -> Option<&Program> {
        if let Self::Program(program) = self { Some(program) } else { None }
    }

    pub const fn workspace(&self) -> Option<&Workspace> {
        if let Self::Workspace(workspace) = self { Some(workspace) } else { None }
    }

    pub const fn update(&self) -> Option<&Update> {
        if let Self::Update(update) = self { Some(update) } else { None }
    }

    pub const fn stateful_set(&self) -> Option<&StatefulSetSeen> {
        if let Self::StatefulSet(set) = self { Some(set) } else { None }
    }

    pub const fn pod(&self) -> Option<&PodSeen> {
        if let Self::Pod(pod) = self { Some(pod) } else { None }
    }

    pub const fn unreadable(&self) -> Option<&Unreadable> {
        if let Self::Unreadable(bad) = self { Some(bad) } else { None }
    }
}
