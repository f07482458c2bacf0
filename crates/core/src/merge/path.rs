//! Where in a patch the merge is.

use std::fmt;

use super::MergeError;

/// A chain of steps from the root; costs nothing until an error needs it as text.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    before: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Member(&'a str),
    Item(usize),
}

impl<'a> Path<'a> {
    pub(super) const fn root() -> Self {
        Self { before: None, step: Step::Root }
    }

    pub(super) const fn member(&'a self, name: &'a str) -> Self {
        Self { before: Some(self), step: Step::Member(name) }
    }

    pub(super) const fn item(&'a self, index: usize) -> Self {
        Self { before: Some(self), step: Step::Item(index) }
    }

    pub(super) fn error(&self, why: impl Into<String>) -> MergeError {
        MergeError { path: self.to_string(), why: why.into() }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(before) = self.before {
            before.fmt(formatter)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Item(index) => write!(formatter, "[{index}]"),
            Step::Member(name) if self.before.is_some_and(|before| !matches!(before.step, Step::Root)) => {
                write!(formatter, ".{name}")
            }
            Step::Member(name) => formatter.write_str(name),
        }
    }
}
