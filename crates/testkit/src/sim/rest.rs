//! The parts of a history in which nothing goes wrong and nobody interferes: everything comes to rest, and stays.

use jiff::SignedDuration;
use pko_core::seen::Key;

use super::{caches::key, history::History, invariants, things::KINDS, truth};

/// How long the world has to come to rest once nothing goes wrong any more.
const PATIENCE: SignedDuration = SignedDuration::from_hours(2);
/// More steps than that in this time are a loop.
const MOST_STEPS: usize = 20_000;

impl History {
    /// Faults and users stop. Everything must come to rest, truthfully and in time.
    pub(super) fn rest(&mut self) {
        if self.world.borrow().violation.is_some() {
            return;
        }
        let haste = std::mem::replace(&mut self.temper.haste, 100);
        self.calm_down();
        self.come_to_rest();
        self.temper.haste = haste;
    }

    fn come_to_rest(&mut self) {
        let deadline = self.world.borrow().now + PATIENCE;
        for _ in 0..MOST_STEPS {
            if self.world.borrow().violation.is_some() {
                return;
            }
            if self.next() {
                self.steps += 1;
                invariants::check(&mut self.world.borrow_mut());
                continue;
            }
            let mut world = self.world.borrow_mut();
            let Some(restless) = truth::unsettled(&world) else {
                if let Some(orphaned) = invariants::orphaned(&world) {
                    world.violated(orphaned);
                }
                return;
            };
            match world.next_due() {
                None => world.violated(format!("nothing more will happen, and {restless}")),
                Some(next) if next > deadline => world.violated(format!("after two hours, {restless}")),
                Some(next) => {
                    world.trace(|| format!("waits: {restless}"));
                    world.now = next;
                    world.ring();
                }
            }
        }
        self.world.borrow_mut().violated("the world does not come to rest".to_owned());
    }

    fn calm_down(&mut self) {
        let mut world = self.world.borrow_mut();
        world.faults = false;
        world.trace(|| "faults and users stop".to_owned());
        if world.chance.percent(70) {
            world.cloud.moods.clear();
        }
        if world.operators[1].alive {
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
    fn next(&mut self) -> bool {
        self.fly() || self.watch() || self.start_reconcile() || self.by_itself()
    }

    /// Looking at everything once more writes nothing, and neither does an operator that was just started. What was
    /// due at some time while a slow reconcile was under way is done in a first round.
    pub(super) fn stay(&mut self) {
        if self.looks_again_and_writes() {
            self.rest();
            if self.looks_again_and_writes() {
                self.world.borrow_mut().violated("a world at rest was written to".to_owned());
            }
        }
    }

    fn looks_again_and_writes(&mut self) -> bool {
        if self.world.borrow().violation.is_some() {
            return false;
        }
        let before = {
            let mut world = self.world.borrow_mut();
            world.trace(|| "everything is looked at once more".to_owned());
            if world.chance.one_in(2) {
                world.start_operator(0);
            }
            for kind in &KINDS[..4] {
                let keys: Vec<Key> = world.api.all(*kind).map(|thing| key(*kind, thing.name())).collect();
                world.operators[0].queue.extend(keys);
            }
            world.writes
        };
        while self.fly() || self.start_reconcile() {
            self.steps += 1;
        }
        self.world.borrow().writes != before
    }
}
