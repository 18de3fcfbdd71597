//! Several locks at once: all of them, or none.

mod acquire;
mod cancellation;
mod contention;
mod loss;
mod members;
