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
    caches::key,
    counts::{EFFECTS, Group},
    invariants,
    kubelet::{self, Harm},
    mutants, settle,
    shell::{Progress, SimShell},
    things::KINDS,
    users,
    world::World,
};

/// How long the world has to come to rest once nothing goes wrong any more.
const PATIENCE: SignedDuration = SignedDuration::from_hours(2);
/// More steps than that in this time are a loop.
const MOST_STEPS: usize = 20_000;
/// The longest wait between attempts after errors.
const LONGEST_BACKOFF: i64 = 60_000;

type Reconcile = Pin<Box<dyn Future<Output = Result<Then, Stopped<Refused>>>>>;

/// When the process crashes in the middle of a reconcile.
#[derive(Clone, Copy)]
enum Crash {
    /// After so many effects.
    Effects(usize),
    /// After this effect.
    Named(&'static str),
}

/// A reconcile that is under way.
struct Flight {
    operator: usize,
    key: Key,
    future: Reconcile,
    progress: Rc<Progress>,
    crash: Option<Crash>,
}

/// How much goes wrong in a history, and how busy its users are; of a hundred steps each. Without quiet histories, few
/// updates would come to their end before the next thing happens to them.
#[derive(Clone, Copy)]
struct Temper {
    faults: usize,
    users: usize,
    crashes: usize,
}

/// A history in the making.
pub(super) struct History {
    world: Rc<RefCell<World>>,
    flights: Vec<Flight>,
    steps: usize,
    temper: Temper,
}

impl History {
    pub(super) fn new(seed: u64, mutant: Option<Mutant>, traced: bool) -> Self {
        let mut world = World::new(seed, mutant, traced);
        let temper = Temper {
            faults: *world.chance.pick(&[0, 1, 1, 2, 4]),
            users: *world.chance.pick(&[1, 1, 2, 4]),
            crashes: *world.chance.pick(&[0, 10, 30, 60]),
        };
        Self { world: Rc::new(RefCell::new(world)), flights: Vec::new(), steps: 0, temper }
    }

    /// From the first Stack to the end.
    pub(super) fn run(mut self) -> Outcome {
        let faulty = {
            let mut world = self.world.borrow_mut();
            world.start_operator(0);
            users::begin(&mut world);
            usize::try_from(world.chance.between(80, 320)).unwrap_or_default()
        };
        while self.steps < faulty && self.world.borrow().violation.is_none() {
            self.step();
            self.after_step();
        }
        if self.world.borrow().violation.is_none()
            && let Err(wrong) = self.settle()
        {
            self.world.borrow_mut().violated(wrong);
        }
        let world = self.world.borrow();
        Outcome {
            steps: self.steps,
            counts: world.counts.clone(),
            violation: world.violation.clone(),
            trace: world.traced(),
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
            || self.pass_time()
            || users::something(&mut self.world.borrow_mut());
    }

    fn by_itself(&mut self) -> bool {
        self.world.borrow_mut().by_itself()
    }

    /// An operator takes an object from its queue.
    fn start_reconcile(&mut self) -> bool {
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
        let crash = (world.faults && world.chance.percent(self.temper.crashes)).then(|| {
            // By number, every place in a long row of effects is reached; by name, every rare effect is.
            if world.chance.percent(20) {
                Crash::Effects(1 + world.chance.below(5))
            } else {
                Crash::Named(EFFECTS[world.chance.below(EFFECTS.len())])
            }
        });
        let at_once = world.chance.percent(50);
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
    fn fly(&mut self) -> bool {
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
        let crashes = match flight.crash {
            Some(Crash::Effects(effects)) => flight.progress.effects.get() == effects,
            Some(Crash::Named(name)) => flight.progress.last.get() == Some(name),
            None => false,
        };
        if crashes {
            let operator = flight.operator;
            let after = flight.progress.last.get();
            self.crash(operator, after);
            return true;
        }
        let Poll::Ready(result) = polled else { return false };
        let flight = self.flights.swap_remove(index);
        self.landed(&flight, result);
        true
    }

    fn landed(&self, flight: &Flight, result: Result<Then, Stopped<Refused>>) {
        let mut world = self.world.borrow_mut();
        let mutant = world.mutant;
        let now = world.now;
        world.trace(|| format!("operator {} is done with {}: {result:?}", flight.operator, flight.key));
        let operator = &mut world.operators[flight.operator];
        operator.busy.remove(&flight.key);
        match result {
            Ok(then) => {
                operator.failures.remove(&flight.key);
                if let Then::Requeue(wait) = mutants::then(mutant, &flight.key, then) {
                    operator.timers.insert(flight.key.clone(), now + signed(wait));
                }
            }
            Err(Stopped::Endless) => world.violated(format!("{} was asked about without end", flight.key)),
            Err(Stopped::Shell(_)) => {
                let failures = operator.failures.entry(flight.key.clone()).or_default();
                let wait = 500_i64.saturating_mul(1 << (*failures).min(10)).min(LONGEST_BACKOFF);
                *failures += 1;
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
    fn watch(&self) -> bool {
        let mut world = self.world.borrow_mut();
        let mut behind = Vec::new();
        for (number, operator) in world.operators.iter().enumerate().filter(|(_, operator)| operator.alive) {
            behind.extend(operator.caches.behind(&world.api).into_iter().map(|kind| (number, kind)));
        }
        if behind.is_empty() {
            return false;
        }
        let (number, kind) = *world.chance.pick(&behind);
        let events = world.chance.between(1, 4);
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
        let alive = self.alive();
        let drawn = self.world.borrow_mut().chance.below(12);
        let mut world = self.world.borrow_mut();
        match drawn {
            0 | 1 => {
                let Some(down) = world.operators.iter().position(|operator| !operator.alive) else { return false };
                if alive == 1 {
                    world.fault("a second leader");
                }
                world.start_operator(down);
                true
            }
            2..5 => {
                let Some(up) = world.operators.iter().rposition(|operator| operator.alive) else { return false };
                if alive == 2 || world.chance.one_in(2) {
                    world.fault("a leader ends");
                    drop(world);
                    let after =
                        self.flights.iter().find(|flight| flight.operator == up).and_then(|it| it.progress.last.get());
                    self.crash(up, after);
                    return true;
                }
                false
            }
            5..8 => {
                let until = world.now + SignedDuration::from_secs(world.chance.between(1, 60));
                let pods: Vec<String> = world.agents.0.keys().cloned().collect();
                if pods.is_empty() {
                    return false;
                }
                let pod = world.chance.pick(&pods).clone();
                let refuses = world.chance.one_in(3);
                world.fault(if refuses { "agent refuses" } else { "agent silent" });
                if let Some(agent) = world.agents.0.get_mut(&pod) {
                    *(if refuses { &mut agent.refuses_until } else { &mut agent.silent_until }) = Some(until);
                }
                world.trace(|| format!("fault: the agent in {pod} says nothing until {until}"));
                true
            }
            _ => {
                let pods = kubelet::pods(&world);
                if pods.is_empty() {
                    return false;
                }
                let pod = world.chance.pick(&pods).clone();
                let running = world.api.get(Kind::Pod, &pod).is_some_and(|it| world.agents.is_operating(it.uid()));
                let what = if running && world.chance.percent(50) {
                    Harm::ContainerRestarts
                } else {
                    *world.chance.pick(&Harm::ALL)
                };
                let Some(told) = kubelet::harm(&mut world, &pod, what) else { return false };
                world.fault(what.name());
                world.trace(|| told);
                true
            }
        }
    }

    /// Faults and users stop. Everything must come to rest, truthfully, and then stay as it is.
    fn settle(&mut self) -> Result<(), String> {
        self.world.borrow_mut().counts.hit(Group::End, "histories");
        self.calm_down();
        let deadline = self.world.borrow().now + PATIENCE;
        let mut steps = 0;
        loop {
            if self.world.borrow().violation.is_some() {
                return Ok(());
            }
            if self.calm_step() {
                self.steps += 1;
                steps += 1;
                invariants::check(&mut self.world.borrow_mut());
                if steps > MOST_STEPS {
                    return Err("the world does not come to rest".to_owned());
                }
                continue;
            }
            let mut world = self.world.borrow_mut();
            let Some(restless) = settle::unsettled(&world) else {
                drop(world);
                return self.steady();
            };
            match world.next_due() {
                None => return Err(format!("nothing more will happen, and {restless}")),
                Some(next) if next > deadline => return Err(format!("after two hours, {restless}")),
                Some(next) => {
                    world.trace(|| format!("waits: {restless}"));
                    world.now = next;
                    world.ring();
                }
            }
        }
    }

    fn calm_down(&mut self) {
        let mut world = self.world.borrow_mut();
        world.faults = false;
        world.trace(|| "faults and users stop".to_owned());
        if world.chance.percent(70) {
            world.cloud.moods.clear();
        }
        let now = world.now;
        for agent in world.agents.0.values_mut() {
            agent.silent_until = agent.silent_until.filter(|until| *until > now);
        }
        let second = world.operators[1].alive;
        if second {
            world.stop_operator(1);
        }
        if !world.operators[0].alive {
            world.start_operator(0);
        }
        drop(world);
        self.flights.retain(|flight| flight.operator == 0);
        for flight in &mut self.flights {
            flight.crash = None;
        }
    }

    /// Whatever can happen at this moment, without delay.
    fn calm_step(&mut self) -> bool {
        self.fly() || self.watch() || self.start_reconcile() || self.by_itself()
    }

    /// Looking at everything once more writes nothing.
    fn steady(&mut self) -> Result<(), String> {
        let before = {
            let mut world = self.world.borrow_mut();
            world.trace(|| "everything is looked at once more".to_owned());
            for kind in &KINDS[..4] {
                let keys: Vec<Key> = world.api.all(*kind).map(|thing| key(*kind, thing.name())).collect();
                world.operators[0].queue.extend(keys);
            }
            world.writes
        };
        while self.fly() || self.start_reconcile() {
            self.steps += 1;
        }
        let world = self.world.borrow();
        if world.writes == before { Ok(()) } else { Err("a world at rest was written to".to_owned()) }
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}
