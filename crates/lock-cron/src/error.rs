//! The errors of a scheduler, and their kinds.

use crate::schedule::ScheduleError;
use lock_core::{LockError, NameError, backend::BackendError};
use std::{error::Error, fmt, sync::Arc};

/// An error of a scheduler. Branch on its [`kind`](CronError::kind).
///
/// The message is one clause. [`source`](Error::source) returns the cause, and `{error:#}` prints
/// both.
// Not derived with `thiserror`, because the kind is only available through a method, and `{:#}`
// differs from `{}`.
#[derive(Debug, Clone)]
pub struct CronError {
    kind: CronErrorKind,
    about: Option<String>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// The kind of a [`CronError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CronErrorKind {
    /// The name of a group, a job or a pool is invalid. The source, if any, is a [`NameError`].
    InvalidName,
    /// An option is out of range, or options contradict each other.
    InvalidOptions,
    /// The schedule is invalid, or is invalid for this job. The source is a [`ScheduleError`].
    InvalidSchedule,
    /// A job with this name is already registered.
    DuplicateJob,
    /// No job with this name exists in the group or, if the request needs a local job, on this
    /// node.
    UnknownJob,
    /// The scheduler is already running. Register jobs before running it, and run it only once.
    Running,
    /// The scheduler has ended. Build a new one.
    Ended,
    /// Too many triggers, or too many triggers with a payload, are waiting to be started.
    TooManyTriggers,
    /// A backfill's range contains more runs than the limit allows.
    RangeTooLong,
    /// Too many backfills are unfinished.
    TooManyBackfills,
    /// The group contains too many instances.
    TooManyInstances,
    /// The payloads of the group's instances are too large together.
    PayloadsTooLarge,
    /// The payload of an instance or a trigger is too long, or cannot be encoded as JSON.
    InvalidPayload,
    /// The store did not respond, or rejected a request. The source contains the reason.
    Store,
}

impl CronError {
    pub(crate) fn new(kind: CronErrorKind) -> Self {
        Self { kind, about: None, source: None }
    }

    pub(crate) fn about(mut self, about: impl fmt::Display) -> Self {
        self.about = Some(about.to_string());
        self
    }

    /// Adds the name of the job to which the error applies.
    pub(crate) fn of_job(self, job: &str) -> Self {
        self.of(format_args!("job `{}`", escaped(job)))
    }

    /// Adds the name of the pool to which the error applies.
    pub(crate) fn of_pool(self, pool: &str) -> Self {
        self.of(format_args!("pool `{}`", escaped(pool)))
    }

    fn of(self, refused: fmt::Arguments<'_>) -> Self {
        let about = match &self.about {
            Some(about) => format!("{refused}: {about}"),
            None => refused.to_string(),
        };
        self.about(about)
    }

    fn because(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> CronErrorKind {
        self.kind
    }

    /// Returns `true` if the same call may succeed later without changes to its arguments or to the setup.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        let source = self.source.as_deref();
        match self.kind {
            CronErrorKind::TooManyTriggers | CronErrorKind::TooManyBackfills => true,
            CronErrorKind::Store => {
                let of_backend = source.and_then(|s| s.downcast_ref::<BackendError>());
                let of_lock = source.and_then(|s| s.downcast_ref::<LockError>());
                of_backend.is_some_and(BackendError::is_retryable)
                    || of_lock.is_some_and(LockError::is_retryable)
            }
            _ => false,
        }
    }
}

/// Escapes the control characters of a refused name, so that an error stays on one line of a log.
fn escaped(name: &str) -> String {
    name.chars().fold(String::new(), |mut text, c| {
        match c.is_control() {
            true => text.extend(c.escape_default()),
            false => text.push(c),
        }
        text
    })
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            CronErrorKind::InvalidName => "the name is invalid",
            CronErrorKind::InvalidOptions => "the options are invalid",
            CronErrorKind::InvalidSchedule => "the schedule is invalid",
            CronErrorKind::DuplicateJob => {
                "a job with this name is already registered: give each job its own name"
            }
            CronErrorKind::UnknownJob => "unknown job",
            CronErrorKind::Running => {
                "the scheduler is already running: register jobs before `run_until`, and run it only once"
            }
            CronErrorKind::Ended => "the scheduler has ended: build a new one, register its jobs and run it",
            CronErrorKind::TooManyTriggers => {
                "too many triggers are waiting: run a node that has registered the job"
            }
            CronErrorKind::RangeTooLong => {
                "the range contains too many runs: use a shorter range, or raise the limit"
            }
            CronErrorKind::TooManyBackfills => {
                "too many backfills are open: wait until one has ended, or cancel one"
            }
            CronErrorKind::TooManyInstances => {
                "the group has too many instances: remove some, or use another group"
            }
            CronErrorKind::PayloadsTooLarge => {
                "the payloads of the group's instances are too large together: store their data elsewhere, remove \
                 instances, or use another group"
            }
            CronErrorKind::InvalidPayload => "the payload is invalid",
            CronErrorKind::Store => "a request to the store failed",
        })?;
        if let Some(about) = &self.about {
            write!(f, " ({about})")?;
        }
        match &self.source {
            // The alternate form of a lock error includes all its causes. That of a schedule error spans several lines.
            Some(source) if f.alternate() => match source.downcast_ref::<LockError>() {
                Some(lock) => write!(f, ": {lock:#}"),
                None => write!(f, ": {source}"),
            },
            _ => Ok(()),
        }
    }
}

impl Error for CronError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn Error + 'static))
    }
}

impl From<NameError> for CronError {
    fn from(e: NameError) -> Self {
        Self::new(CronErrorKind::InvalidName).because(e)
    }
}

impl From<ScheduleError> for CronError {
    fn from(e: ScheduleError) -> Self {
        Self::new(CronErrorKind::InvalidSchedule).because(e)
    }
}

impl From<BackendError> for CronError {
    fn from(e: BackendError) -> Self {
        Self::new(CronErrorKind::Store).because(e)
    }
}

impl From<LockError> for CronError {
    fn from(e: LockError) -> Self {
        Self::new(CronErrorKind::Store).because(e)
    }
}
