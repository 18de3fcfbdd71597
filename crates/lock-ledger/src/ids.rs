//! Identifiers for groups, jobs, runs and claims.

use lock_core::{LockName, NameError, backend::ProcessId, clock::UtcTime};
use std::{fmt, str::FromStr};
use uuid::Uuid;

/// The name of a group of jobs with a common leader. It follows the rules of a [`LockName`] and contains no brace.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupName(LockName);

impl GroupName {
    /// Validates a name.
    ///
    /// # Errors
    /// Returns the same errors as [`LockName::new`], and [`NameError::BrokenHashTag`] for any brace, since the name is
    /// the hash tag that all keys of a group share.
    pub fn new(name: impl AsRef<str>) -> Result<Self, NameError> {
        let name = LockName::new(name)?;
        if name.as_str().contains('{') {
            return Err(NameError::BrokenHashTag);
        }
        Ok(Self(name))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A job in a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId {
    /// The group.
    pub group: GroupName,
    /// The job's name in its group.
    pub name: LockName,
}

/// The identity of a run within its job. A scheduled run is identified by its scheduled time,
/// regardless of its start time. A triggered run is identified by its trigger's id, and a backfill
/// run by the backfill and the scheduled time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RunId {
    /// Scheduled for this time, in whole milliseconds.
    Scheduled(UtcTime),
    /// Triggered by a command.
    Triggered(Uuid),
    /// Run for a past scheduled time by a backfill.
    Backfill {
        /// The backfill.
        id: Uuid,
        /// The scheduled time, in whole milliseconds.
        at: UtcTime,
    },
}

impl RunId {
    /// Returns the run scheduled for this number of milliseconds after the epoch.
    #[must_use]
    pub const fn at_millis(millis: u64) -> Self {
        Self::Scheduled(UtcTime::from_millis(millis))
    }

    /// Returns the time of a scheduled run, and `None` for a triggered run or a backfill run.
    #[must_use]
    pub const fn scheduled(&self) -> Option<UtcTime> {
        match self {
            Self::Scheduled(at) => Some(*at),
            Self::Triggered(_) | Self::Backfill { .. } => None,
        }
    }

    /// Returns the scheduled time of a scheduled run or a backfill run, and `None` for a triggered
    /// run.
    #[must_use]
    pub const fn instant(&self) -> Option<UtcTime> {
        match self {
            Self::Scheduled(at) | Self::Backfill { at, .. } => Some(*at),
            Self::Triggered(_) => None,
        }
    }

    /// Returns the run's backfill, if it belongs to one.
    #[must_use]
    pub const fn backfill(&self) -> Option<Uuid> {
        match self {
            Self::Backfill { id, .. } => Some(*id),
            Self::Scheduled(_) | Self::Triggered(_) => None,
        }
    }
}

const TRIGGER: &str = "trigger:";
const BACKFILL: &str = "backfill:";

/// Formats milliseconds since the epoch, `trigger:<uuid>`, or `backfill:<uuid>:<milliseconds>`.
impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheduled(at) => at.as_millis().fmt(f),
            Self::Triggered(id) => write!(f, "{TRIGGER}{}", id.hyphenated()),
            Self::Backfill { id, at } => write!(f, "{BACKFILL}{}:{}", id.hyphenated(), at.as_millis()),
        }
    }
}

/// The error returned for a string that is not a valid [`RunId`] or [`ClaimId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("not a valid run id or claim id: use an id exactly as this library formatted it")]
pub struct ParseIdError;

impl FromStr for RunId {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        if let Some(text) = text.strip_prefix(BACKFILL) {
            let (id, at) = text.split_once(':').ok_or(ParseIdError)?;
            let id = Uuid::try_parse(id).map_err(|_| ParseIdError)?;
            let at = at.parse().map(UtcTime::from_millis).map_err(|_| ParseIdError)?;
            return Ok(Self::Backfill { id, at });
        }
        match text.strip_prefix(TRIGGER) {
            Some(id) => Uuid::try_parse(id).map(Self::Triggered).map_err(|_| ParseIdError),
            None => text.parse().map(Self::at_millis).map_err(|_| ParseIdError),
        }
    }
}

/// The random id of one attempt to start a run. Retries of the same attempt reuse it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimId(Uuid);

impl ClaimId {
    /// Generates an id with the operating system's random number generator.
    #[must_use]
    pub fn random() -> Self {
        Self(*ProcessId::random().as_uuid())
    }

    /// Creates an id from an existing UUID.
    #[must_use]
    pub const fn from_uuid(id: Uuid) -> Self {
        Self(id)
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ClaimId {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        Uuid::try_parse(text).map(Self).map_err(|_| ParseIdError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_round_trip_as_text() {
        let backfill =
            RunId::Backfill { id: Uuid::from_u128(7), at: UtcTime::from_millis(1_767_225_600_123) };
        for run in [RunId::at_millis(1_767_225_600_123), RunId::Triggered(Uuid::from_u128(7)), backfill] {
            assert_eq!(run.to_string().parse(), Ok(run));
        }
        for text in ["", "x", "-1", "trigger:", "trigger:x", "backfill:", "backfill:1", "backfill:x:1"] {
            assert_eq!(text.parse::<RunId>(), Err(ParseIdError), "{text}");
        }
    }

    #[test]
    fn group_names_contain_no_braces() {
        assert!(GroupName::new("billing").is_ok());
        assert_eq!(GroupName::new("billing:{eu}"), Err(NameError::BrokenHashTag));
        assert_eq!(GroupName::new(""), Err(NameError::Empty));
    }
}
