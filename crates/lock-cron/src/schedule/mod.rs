//! Parts of a [`Schedule`]: the fields of its pattern, its runs, and its fingerprint.

pub(crate) mod calendar;
pub(crate) mod error;
mod pattern;
pub(crate) mod times;
mod zone;

pub use error::Field;
pub use pattern::MAX_TEXT_BYTES;
pub use times::{Fingerprint, Runs};

pub(crate) use calendar::{DstPolicy, Fold, Gap};
pub(crate) use error::ScheduleError;
pub(crate) use times::Schedule;
