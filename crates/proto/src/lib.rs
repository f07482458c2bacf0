//! The agent's wire protocols. Nothing here decides.
