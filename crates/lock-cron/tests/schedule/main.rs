//! The runs of a schedule: computed by hand, compared with a walk over every minute, and searched for any text.

#![allow(clippy::unwrap_used)]

mod bad_input;
mod clocks;
mod every_transition;
mod fields;
mod fingerprints;
mod support;
mod walk;
