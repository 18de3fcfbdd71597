//! The error type of bodies.

/// The error type of bodies, the same as `tower::BoxError`.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
