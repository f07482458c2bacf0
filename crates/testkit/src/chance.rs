//! Chance from a seed: the same seed, the same history. Its own few lines, so that no release of a crate changes what a
//! seed means.

use std::time::Duration;

/// A generator of the kind SplitMix64.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..end`, and 0 if there is none.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % end).unwrap_or_default()
    }

    /// One of `from..=to`.
    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        let width = usize::try_from(to - from + 1).unwrap_or(1);
        from + i64::try_from(self.below(width)).unwrap_or_default()
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// True in so many of a hundred times.
    pub fn percent(&mut self, of_hundred: usize) -> bool {
        self.below(100) < of_hundred
    }

    /// A moment within that time, to the millisecond.
    pub fn within(&mut self, most: Duration) -> Duration {
        Duration::from_millis(self.next() % (u64::try_from(most.as_millis()).unwrap_or(u64::MAX).max(1)))
    }

    /// One of some, which are not none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
