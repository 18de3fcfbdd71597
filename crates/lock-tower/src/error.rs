//! The error type of bodies.

/// The error type of bodies, as elsewhere in the tower ecosystem.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
