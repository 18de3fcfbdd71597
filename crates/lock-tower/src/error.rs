//! The error type of bodies.

/// The error of bodies, as elsewhere in tower's ecosystem.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
