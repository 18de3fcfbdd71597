//! The runs of a schedule: by hand, against a walk over every minute, and for any text.

#![allow(clippy::unwrap_used)]

mod bad_input;
mod clocks;
mod every_transition;
mod fields;
mod fingerprints;
mod support;
mod walk;
