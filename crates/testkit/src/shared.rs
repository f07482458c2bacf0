//! Something that the tests of a program use together and that ends with the last of them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Meant for a `static`, which itself is never dropped.
#[derive(Debug, Default)]
pub struct Shared<T> {
    current: Mutex<Weak<T>>,
}

impl<T> Shared<T> {
    pub const fn new() -> Self {
        Self { current: Mutex::new(Weak::new()) }
    }

    /// The one that others use, or a new one.
    pub fn get(&self, start: impl FnOnce() -> T) -> Arc<T> {
        // A test that failed while it started one is no concern of ours.
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.upgrade().unwrap_or_else(|| {
            let new = Arc::new(start());
            *current = Arc::downgrade(&new);
            new
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_while_somebody_uses_it() {
        static NUMBER: Shared<u32> = Shared::new();
        let first = NUMBER.get(|| 1);
        assert_eq!(*NUMBER.get(|| 2), 1);
        drop(first);
        assert_eq!(*NUMBER.get(|| 3), 3);
    }
}
