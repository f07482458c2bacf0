//! One history: a seeded schedule over everything that can happen next, then an end without faults.

use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use jiff::SignedDuration;
use pko_core::{
    driver::{self, Stopped},
    seen::{Key, Kind},
    step::Then,
};

use super::{
    Mutant, Outcome,
    api::Refused,
    counts::{EFFECTS, Group},
    faults, invariants, mutants,
    shell::{Progress, SimShell},
    things::KINDS,
    users,
    world::World,
};

/// Effects that few reconciles come to, and after which a crash is tried more often.
const RARE: [&str; 19] = [
    "cancel run",
    "cancel run",
    "create update",
    "delete pod",
    "delete pod",
    "delete pod",
    "delete update",
    RECLAIM,
    RECLAIM,
    RECLAIM,
    "hold update",
    "mark pod initialized",
    "release stack",
    "release update",
    "start update run",
    "store outputs",
    "write update status",
    "request update",
    "request update",
];
/// The rarest of them: seldom does a Stack that wants it come so far.
const RECLAIM: &str = "delete workspace";
/// The longest wait between attempts after errors.
const LONGEST_BACKOFF: i64 = 60_000;

type Reconcile = Pin<Box<dyn Future<Output = Result<Then, Stopped<Refused>>>>>;

/// When the process crashes in the middle of a reconcile.
#[derive(Clone, Copy)]
pub(super) enum Crash {
    /// After so many effects.
    Effects(usize),
    /// After this effect.
    Named(&'static str),
}

/// A reconcile that is under way.
pub(super) struct Flight {
    pub(super) operator: usize,
    key: Key,
    future: Reconcile,
    progress: Rc<Progress>,
    pub(super) crash: Option<Crash>,
}

/// How much goes wrong in a history, and how busy its users are; of a hundred steps each. Without quiet histories, few
/// updates would come to their end before the next thing happens to them.
#[derive(Clone, Copy)]
pub(super) struct Temper {
    faults: usize,
    users: usize,
    /// Where processes crash in this history, and in how many of a hundred reconciles that come there.
    crash: Crash,
    crashes: usize,
    /// How many more of them there are: nothing would ever get past a place where every process crashes.
    crashes_left: usize,
    /// In how many of a hundred times what has begun goes on to its end at once. In haste a history gets far; without,
    /// more of it is interleaved.
    pub(super) haste: usize,
    /// A kind whose watch is far behind.
    slow: Option<Kind>,
    /// Operators are faster than everybody else: they are through before the next thing happens by itself.
    swift: bool,
}

/// A history in the making.
pub(super) struct History {
    pub(super) world: Rc<RefCell<World>>,
    pub(super) flights: Vec<Flight>,
    pub(super) steps: usize,
    pub(super) temper: Temper,
}

impl History {
    pub(super) fn new(seed: u64, mutant: Option<Mutant>, traced: bool) -> Self {
        let mut world = World::new(seed, mutant, traced);
        let temper = Temper {
            faults: *world.chance.pick(&[0, 1, 1, 3]),
            users: *world.chance.pick(&[0, 1, 2, 4]),
            crash: match world.chance.below(10) {
                0 | 1 => Crash::Effects(1 + world.chance.below(5)),
                2..7 => Crash::Named(RARE[world.chance.below(RARE.len())]),
                _ => Crash::Named(EFFECTS[world.chance.below(EFFECTS.len())]),
            },
            crashes: *world.chance.pick(&[0, 60, 100]),
            crashes_left: 3,
            haste: *world.chance.pick(&[30, 70, 95, 95]),
            swift: world.chance.percent(30),
            slow: world.chance.one_in(2).then(|| *world.chance.pick(&KINDS)),
        };
        if let Crash::Named(effect) = temper.crash {
            world.crash_after = effect;
        }
        Self { world: Rc::new(RefCell::new(world)), flights: Vec::new(), steps: 0, temper }
    }

    /// From the first Stack to the end.
    pub(super) fn run(mut self) -> Outcome {
        self.world.borrow_mut().start_operator(0);
        users::begin(&mut self.world.borrow_mut());
        // Some histories begin where there is something to lose.
        if self.world.borrow_mut().chance.percent(30) {
            self.rest();
        }
        self.unrest();
        self.rest();
        self.stay();
        let world = self.world.borrow();
        Outcome {
            steps: self.steps,
            counts: world.counts.clone(),
            violation: world.violation.clone(),
            trace: world.traced(),
        }
    }

    /// Anything may happen.
    fn unrest(&mut self) {
        let steps = {
            let mut world = self.world.borrow_mut();
            world.faults = true;
            // Most are short; in the long ones, updates come to their end in the midst of it all.
            if world.chance.one_in(4) { world.chance.between(200, 500) } else { world.chance.between(60, 180) }
        };
        for _ in 0..steps {
            if self.world.borrow().violation.is_some() {
                return;
            }
            self.step();
            self.after_step();
        }
    }

    fn after_step(&mut self) {
        self.steps += 1;
        let mut world = self.world.borrow_mut();
        invariants::check(&mut world);
        let passed = world.chance.between(1, 30);
        world.now = world.in_ms(passed);
        world.ring();
    }

    /// One thing happens, of all that can.
    fn step(&mut self) {
        if self.alive() == 0 && self.world.borrow_mut().chance.percent(20) {
            self.world.borrow_mut().start_operator(0);
        }
        let Temper { faults, users, .. } = self.temper;
        let drawn = self.world.borrow_mut().chance.below(92 + faults + users);
        let happened = match drawn {
            0..30 => self.fly(),
            30..48 => self.start_reconcile(),
            48..66 => self.watch(),
            66..84 => self.by_itself(),
            84..92 => self.pass_time(),
            _ if drawn < 92 + users => users::something(&mut self.world.borrow_mut()),
            _ => self.fault(),
        };
        // What was drawn cannot be: then whatever can.
        let _ = happened
            || self.start_reconcile()
            || self.fly()
            || self.watch()
            || self.by_itself()
            || self.users_grow_bored()
            || self.pass_time()
            || users::something(&mut self.world.borrow_mut());
    }

    pub(super) fn by_itself(&self) -> bool {
        let mut world = self.world.borrow_mut();
        if !world.by_itself() {
            return false;
        }
        while !self.temper.swift && world.chance.percent(self.temper.haste) && world.by_itself() {}
        true
    }

    /// When nothing happens at this moment, users find something to do.
    fn users_grow_bored(&self) -> bool {
        let mut world = self.world.borrow_mut();
        world.chance.one_in(2) && users::something_useful(&mut world)
    }

    /// An operator takes an object from its queue.
    pub(super) fn start_reconcile(&mut self) -> bool {
        let mut world = self.world.borrow_mut();
        let mut waiting: Vec<(usize, Key)> = Vec::new();
        for (number, operator) in world.operators.iter().enumerate() {
            waiting.extend(operator.queue.difference(&operator.busy).map(|key| (number, key.clone())));
        }
        if waiting.is_empty() {
            return false;
        }
        let (number, key) = world.chance.pick(&waiting).clone();
        let operator = &mut world.operators[number];
        operator.queue.remove(&key);
        operator.timers.remove(&key);
        operator.busy.insert(key.clone());
        let crashes = world.faults && self.temper.crashes_left > 0 && world.chance.percent(self.temper.crashes);
        let crash = crashes.then_some(self.temper.crash);
        let at_once = world.chance.percent(self.temper.haste);
        world.trace(|| format!("operator {number} reconciles {key}"));
        drop(world);
        let progress = Rc::new(Progress::default());
        let shell = SimShell { world: Rc::clone(&self.world), operator: number, progress: Rc::clone(&progress) };
        let on = key.clone();
        let future: Reconcile = Box::pin(async move { driver::reconcile(&shell, &on).await });
        self.flights.push(Flight { operator: number, key, future, progress, crash });
        let index = self.flights.len() - 1;
        if at_once {
            while !self.poll(index) {}
        } else {
            self.poll(index);
        }
        true
    }

    /// A reconcile that is under way goes on to its next pause.
    pub(super) fn fly(&mut self) -> bool {
        if self.flights.is_empty() {
            return false;
        }
        let index = self.world.borrow_mut().chance.below(self.flights.len());
        self.poll(index);
        true
    }

    /// Whether that reconcile is over.
    fn poll(&mut self, index: usize) -> bool {
        let flight = &mut self.flights[index];
        let polled = flight.future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        invariants::check(&mut self.world.borrow_mut());
        let crashes = match flight.crash {
            Some(Crash::Effects(effects)) => flight.progress.effects.get() == effects,
            Some(Crash::Named(name)) => flight.progress.last.get() == Some(name),
            None => false,
        };
        if crashes {
            self.temper.crashes_left = self.temper.crashes_left.saturating_sub(1);
            let operator = flight.operator;
            let after = flight.progress.last.get();
            self.crash(operator, after);
            return true;
        }
        let Poll::Ready(result) = polled else { return false };
        let flight = self.flights.swap_remove(index);
        self.landed(&flight, &result);
        true
    }

    fn landed(&self, flight: &Flight, result: &Result<Then, Stopped<Refused>>) {
        let mut world = self.world.borrow_mut();
        let mutant = world.mutant;
        let now = world.now;
        world.trace(|| format!("operator {} is done with {}: {result:?}", flight.operator, flight.key));
        let operator = &mut world.operators[flight.operator];
        operator.busy.remove(&flight.key);
        match result {
            Ok(then) => {
                operator.failures.remove(&flight.key);
                let caches = &world.operators[flight.operator].caches;
                let forgotten = invariants::forgotten(&world.api, caches, &flight.key, *then);
                let operator = &mut world.operators[flight.operator];
                if let Then::Requeue(wait) = mutants::then(mutant, &flight.key, *then) {
                    operator.timers.insert(flight.key.clone(), now + signed(wait));
                }
                if let Some(forgotten) = forgotten {
                    world.violated(forgotten);
                }
            }
            Err(Stopped::Endless) => world.violated(format!("{} was asked about without end", flight.key)),
            Err(Stopped::Shell(refused)) => {
                let failures = operator.failures.entry(flight.key.clone()).or_default();
                *failures += 1;
                let wait = match refused {
                    Refused::Conflict(_) => i64::from(*failures * 50).min(200),
                    _ => (5_i64 << (*failures).min(20)).min(LONGEST_BACKOFF),
                };
                operator.timers.insert(flight.key.clone(), now + SignedDuration::from_millis(wait));
            }
        }
    }

    fn crash(&mut self, operator: usize, after: Option<&'static str>) {
        let mut world = self.world.borrow_mut();
        world.counts.hit(Group::CrashAfter, after.unwrap_or("nothing"));
        world.stop_operator(operator);
        drop(world);
        self.flights.retain(|flight| flight.operator != operator);
    }

    /// News of some kind reaches some operator.
    pub(super) fn watch(&self) -> bool {
        let mut world = self.world.borrow_mut();
        let mut behind = Vec::new();
        for (number, operator) in world.operators.iter().enumerate().filter(|(_, operator)| operator.alive) {
            behind.extend(operator.caches.behind(&world.api).into_iter().map(|kind| (number, kind)));
        }
        if world.faults && world.chance.percent(95) {
            behind.retain(|(_, kind)| Some(*kind) != self.temper.slow);
        }
        if behind.is_empty() {
            return false;
        }
        let (number, kind) = *world.chance.pick(&behind);
        let events = if world.chance.percent(self.temper.haste) { 100 } else { world.chance.between(1, 3) };
        world.trace(|| format!("operator {number} sees {events} more of {}", kind.as_str()));
        for _ in 0..events {
            world.see(number, kind);
        }
        true
    }

    fn pass_time(&self) -> bool {
        let mut world = self.world.borrow_mut();
        let Some(next) = world.next_due() else {
            world.now = world.in_ms(1_000);
            return false;
        };
        world.now = next;
        world.ring();
        true
    }

    fn alive(&self) -> usize {
        self.world.borrow().operators.iter().filter(|operator| operator.alive).count()
    }

    fn fault(&mut self) -> bool {
        let drawn = self.world.borrow_mut().chance.below(12);
        if (2..5).contains(&drawn) {
            return self.leader_ends();
        }
        let mut world = self.world.borrow_mut();
        match drawn {
            0 | 1 => faults::second_leader(&mut world),
            5..8 => faults::agent_silent(&mut world),
            _ => faults::pod_harmed(&mut world),
        }
    }

    fn leader_ends(&mut self) -> bool {
        let mut world = self.world.borrow_mut();
        let Some(up) = world.operators.iter().rposition(|operator| operator.alive) else { return false };
        if !world.operators.iter().all(|operator| operator.alive) && world.chance.one_in(2) {
            return false;
        }
        world.fault(faults::LEADER_ENDS);
        drop(world);
        let flight = self.flights.iter().find(|flight| flight.operator == up);
        let after = flight.and_then(|flight| flight.progress.last.get());
        self.crash(up, after);
        true
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}
