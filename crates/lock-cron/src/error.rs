//! How a scheduler fails, to branch on.

use crate::schedule::ScheduleError;
use lock_core::{LockError, NameError, backend::BackendError};
use std::{error::Error, fmt, sync::Arc};

/// Something about a scheduler did not work; [`kind`](CronError::kind) says what.
///
/// The text is one clause; the cause is in [`source`](Error::source), and `{error:#}` has both.
#[derive(Debug, Clone)]
pub struct CronError {
    kind: CronErrorKind,
    about: Option<String>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// What kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CronErrorKind {
    /// The text is no name of a group or a job; the source, if there is one, is a [`NameError`].
    InvalidName,
    /// Options do not fit together.
    InvalidOptions,
    /// The schedule cannot be read, or not for this job; the source is a [`ScheduleError`].
    InvalidSchedule,
    /// A job of that name was registered before.
    DuplicateJob,
    /// There is no job of that name: in the group, or on this node if only its own jobs can be told of.
    UnknownJob,
    /// The scheduler runs already: register jobs before, and run it once.
    Running,
    /// Too many triggers wait to be carried out.
    TooManyTriggers,
    /// The store does not answer, or refuses; the source says why.
    Store,
}

impl CronErrorKind {
    fn says(self) -> &'static str {
        match self {
            Self::InvalidName => "the name was refused",
            Self::InvalidOptions => "the options were refused",
            Self::InvalidSchedule => "the schedule was refused",
            Self::DuplicateJob => "a job of that name is registered already: give each its own name",
            Self::UnknownJob => "the job is not known",
            Self::Running => "the scheduler runs already: register jobs before `run_until`, and run it once",
            Self::TooManyTriggers => "too many triggers wait: is there a node that leads this job?",
            Self::Store => "the store did not do what the scheduler needs",
        }
    }
}

impl CronError {
    pub(crate) fn new(kind: CronErrorKind) -> Self {
        Self { kind, about: None, source: None }
    }

    pub(crate) fn about(mut self, about: impl fmt::Display) -> Self {
        self.about = Some(about.to_string());
        self
    }

    fn because(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// What kind of failure.
    #[must_use]
    pub fn kind(&self) -> CronErrorKind {
        self.kind
    }

    /// Whether the same call may succeed later without anybody changing something.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        let source = self.source.as_deref();
        match self.kind {
            CronErrorKind::TooManyTriggers => true,
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

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.says())?;
        if let Some(about) = &self.about {
            write!(f, " ({about})")?;
        }
        match &self.source {
            // All of its causes, too; a schedule's `#` is a picture of several lines.
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
