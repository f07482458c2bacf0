//! Finalizers.

/// On a Stack until it is finalised, and on its Updates until their results are taken over.
pub const STACK: &str = "finalizer.stack.pulumi.com";
