//! Objects and facts for tests of decisions.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use pko_api::{
    Program, Stack, Update, Workspace, finalizers,
    program::Artifact,
    stack::{CurrentUpdate, LastUpdate, ProgramReference, StackSpec, StackStatus, update_state},
    update::{UpdateSpec, update_type},
};
use pko_core::{
    ask::{Answer, Question, SourceSeen},
    decide,
    effect::{Effect, Status},
    facts::Facts,
    outcome::faults,
    seen::{Key, Kind, Object, PodSeen, StatefulSetSeen},
    settings::Settings,
    step::{Step, Then},
};

pub(crate) const NAMESPACE: &str = "team";
pub(crate) const NAME: &str = "app";

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

pub(crate) fn settings() -> Settings {
    Settings {
        agent_image: "operator:test".to_owned(),
        agent_image_pull_policy: "IfNotPresent".to_owned(),
        flux_max_untar_size_bytes: None,
        artifact_address: "operator.test:80".to_owned(),
        known_hosts: None,
    }
}

pub(crate) fn metadata(name: &str, uid: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        uid: Some(uid.to_owned()),
        resource_version: Some("7".to_owned()),
        generation: Some(1),
        ..ObjectMeta::default()
    }
}

/// A Stack of a Program, with our finalizer.
pub(crate) fn stack() -> Stack {
    let spec = StackSpec {
        stack: "dev".to_owned(),
        program_ref: Some(ProgramReference { name: "program".to_owned() }),
        destroy_on_finalize: true,
        ..StackSpec::default()
    };
    let mut stack = Stack::new(NAME, spec);
    stack.metadata = metadata(NAME, "stack-uid");
    stack.metadata.finalizers = Some(vec![finalizers::STACK.to_owned()]);
    stack
}

pub(crate) fn deleted(mut stack: Stack) -> Stack {
    stack.metadata.deletion_timestamp = Some(Time(at(0)));
    stack.metadata.generation = stack.metadata.generation.map(|generation| generation + 1);
    stack
}

pub(crate) fn last_update(state: &str) -> LastUpdate {
    LastUpdate {
        generation: 1,
        name: "app-1".to_owned(),
        update_type: update_type::UP.to_owned(),
        state: state.to_owned(),
        last_attempted_commit: "1".to_owned(),
        last_successful_commit: if state == update_state::SUCCEEDED { "1".to_owned() } else { String::new() },
        last_resync_time: Some(Time(at(0))),
        ..LastUpdate::default()
    }
}

pub(crate) fn with_last(mut stack: Stack, last: LastUpdate) -> Stack {
    stack.status.get_or_insert_default().last_update = Some(last);
    stack
}

pub(crate) fn with_current(mut stack: Stack) -> Stack {
    stack.status.get_or_insert_default().current_update = Some(CurrentUpdate {
        generation: 1,
        name: "app-2".to_owned(),
        commit: "1".to_owned(),
        ..CurrentUpdate::default()
    });
    stack
}

pub(crate) fn program() -> Program {
    let mut program = Program::new("program", pko_api::program::ProgramSpec::default());
    program.metadata = metadata("program", "program-uid");
    program.status.get_or_insert_default().artifact = Some(Artifact {
        url: "http://operator.test:80/programs/team/program/1".to_owned(),
        revision: "1".to_owned(),
        digest: Some("sha256:00".to_owned()),
        ..Artifact::default()
    });
    program
}

/// The Update that [`with_current`] speaks of.
pub(crate) fn update() -> Update {
    let spec = UpdateSpec {
        workspace_name: Some(NAME.to_owned()),
        stack_name: Some("dev".to_owned()),
        update_type: Some(update_type::UP.to_owned()),
        ..UpdateSpec::default()
    };
    let mut update = Update::new("app-2", spec);
    update.metadata = metadata("app-2", "update-uid");
    update.metadata.finalizers = Some(vec![finalizers::STACK.to_owned()]);
    let owner = |kind: &str, name: &str, uid: &str, controller: Option<bool>| OwnerReference {
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller,
        ..OwnerReference::default()
    };
    update.metadata.owner_references =
        Some(vec![owner("Workspace", NAME, "workspace-uid", Some(true)), owner("Stack", NAME, "stack-uid", None)]);
    update
}

pub(crate) fn pod() -> PodSeen {
    PodSeen {
        name: "app-workspace-0".to_owned(),
        uid: "pod-uid".to_owned(),
        owner_uid: Some("set-uid".to_owned()),
        revision_hash: None,
        initialized: true,
        ip: Some("10.0.0.1".to_owned()),
        running_since: Some(at(-100)),
        ..PodSeen::default()
    }
}

pub(crate) fn stateful_set() -> StatefulSetSeen {
    StatefulSetSeen {
        uid: "set-uid".to_owned(),
        owner_uid: Some("workspace-uid".to_owned()),
        replicas: 1,
        ..StatefulSetSeen::default()
    }
}

/// A world of which a decision may ask. What it is not told of does not exist.
pub(crate) struct World {
    facts: Facts,
    known: Vec<(Question, Answer)>,
    pub(crate) asked: Vec<Question>,
    anew: bool,
}

impl World {
    pub(crate) fn of_stack(stack: Stack) -> Self {
        Self::new(Kind::Stack, NAME, Object::Stack(Box::new(stack.clone()))).live(Object::Stack(Box::new(stack)), NAME)
    }

    pub(crate) fn new(kind: Kind, name: &str, object: Object) -> Self {
        let key = Key { kind, namespace: NAMESPACE.to_owned(), name: name.to_owned() };
        Self {
            facts: Facts::new(key, at(0), settings(), Some(object)),
            known: Vec::new(),
            asked: Vec::new(),
            anew: false,
        }
    }

    /// The server or an agent has refused something before.
    pub(crate) fn refused(mut self, words: &str) -> Self {
        self.facts.refused = Some(words.to_owned());
        self
    }

    /// The object is gone; this is what it was.
    pub(crate) fn gone(mut self) -> Self {
        self.facts.gone = self.facts.object.take();
        self
    }

    pub(crate) fn now(mut self, second: i64) -> Self {
        self.facts.now = at(second);
        self
    }

    /// Adds an object, both as it is and as the watch shows it.
    pub(crate) fn with(self, object: Object, name: &str) -> Self {
        let question = Question::Cached(kind(&object), name.to_owned());
        self.answer(question, Answer::Object(Some(object.clone()))).live(object, name)
    }

    /// Adds an object that the watch does not show yet.
    pub(crate) fn live(self, object: Object, name: &str) -> Self {
        self.answer(Question::Live(kind(&object), name.to_owned()), Answer::Object(Some(object)))
    }

    pub(crate) fn answer(mut self, question: Question, answer: Answer) -> Self {
        self.known.retain(|(known, _)| *known != question);
        self.known.push((question, answer));
        self
    }

    /// The same world with the object changed.
    pub(crate) fn again(mut self, object: Object) -> Self {
        self.known.append(&mut self.facts.answers);
        self.facts.object = Some(object);
        self.asked.clear();
        self.anew = false;
        self
    }

    /// Whether something was asked that was not asked before.
    pub(crate) fn asked_anew(&self) -> bool {
        self.anew
    }

    /// Lets the decision ask until it acts.
    pub(crate) fn act(&mut self) -> (Vec<Effect>, Then) {
        self.act_with(nothing)
    }

    /// Lets the decision ask until it acts; what is not known is made up.
    pub(crate) fn act_with(&mut self, mut answer: impl FnMut(&Question) -> Answer) -> (Vec<Effect>, Then) {
        for _ in 0..50 {
            match decide(&self.facts) {
                Step::Do { effects, then } => {
                    for effect in &effects {
                        if let Effect::Status { status: Status::Stack(status), .. } = effect {
                            assert_eq!(faults(&status.conditions), Vec::<String>::new());
                        }
                    }
                    return (effects, then);
                }
                Step::Ask(question) => {
                    let known = self.known.iter().find(|(known, _)| *known == question);
                    self.anew |= known.is_none();
                    let answer = known.map_or_else(|| answer(&question), |(_, answer)| answer.clone());
                    self.asked.push(question.clone());
                    self.facts.learn(question, answer);
                }
            }
        }
        panic!("the decision keeps asking: {:?}", self.asked);
    }
}

fn kind(object: &Object) -> Kind {
    match object {
        Object::Stack(_) | Object::Unreadable(_) => Kind::Stack,
        Object::Program(_) => Kind::Program,
        Object::Workspace(_) => Kind::Workspace,
        Object::Update(_) => Kind::Update,
        Object::StatefulSet(_) => Kind::StatefulSet,
        Object::Pod(_) => Kind::Pod,
    }
}

fn nothing(question: &Question) -> Answer {
    match question {
        Question::Cached(..) | Question::Live(..) => Answer::Object(None),
        Question::UpdatesOf { .. } | Question::UpdatesIn { .. } | Question::RunsIn { .. } => {
            Answer::Updates(Vec::new())
        }
        Question::Reference(..) => Answer::Reference(None),
        Question::Revision(listing) => Answer::Revision(Ok(format!("{}-1", listing.reference))),
        Question::Source(_) => Answer::Source(SourceSeen::Missing("not found".to_owned())),
        Question::Requirements => Answer::Requirements(BTreeMap::new()),
        Question::Dependents | Question::Namesakes { .. } => Answer::Stacks(Vec::new()),
        Question::NamespaceTerminating => Answer::Terminating(false),
        Question::Admission { .. } => Answer::Admission(None),
        Question::Outputs { .. } => Answer::Outputs(None),
        Question::Artifact => Answer::Artifact(Err("nothing to pack".to_owned())),
        Question::Run { .. } | Question::LatestRun { .. } => Answer::Run(pko_core::ask::RunAnswer::Unknown),
    }
}

pub(crate) fn names(effects: &[Effect]) -> Vec<&'static str> {
    effects.iter().map(Effect::name).collect()
}

pub(crate) fn stack_status(effects: &[Effect]) -> &StackStatus {
    effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Status { status: Status::Stack(status), .. } => Some(status.as_ref()),
            _ => None,
        })
        .expect("a status is written")
}

pub(crate) fn workspace_object(workspace: Workspace) -> Object {
    Object::Workspace(Box::new(workspace))
}
