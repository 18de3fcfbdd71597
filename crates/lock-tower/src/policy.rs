//! The policies of a layer, each with its default.

use http::StatusCode;

/// The point at which the lock is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ReleaseOn {
    /// Release when the body ends, fails or is dropped, so a stream is protected until its last byte.
    #[default]
    BodyEnd,
    /// Release when the handler returns its response; the body is not protected.
    Head,
}

impl ReleaseOn {
    /// Returns `true` if the lock is released with this head, because of the policy or because no body will be sent.
    pub(crate) fn ends_with(self, head: StatusCode, asks_for_head: bool) -> bool {
        self == Self::Head || is_bodiless(head, asks_for_head)
    }
}

/// Returns `true` if the body of this response will not be sent.
pub(crate) fn is_bodiless(head: StatusCode, asks_for_head: bool) -> bool {
    asks_for_head
        || head.is_informational()
        || matches!(head, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// The policy for a handler whose lock is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnLost {
    /// Drops the handler and responds with 503. If the response has started, its body ends with an error.
    #[default]
    Stop,
    /// Lets the handler continue. It can check its [`LockHandle`](crate::LockHandle).
    Signal,
}

/// The handling of a request that does not get its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum WithoutLock {
    /// The layer responds with a [`Rejection`](crate::Rejection) (fail closed).
    #[default]
    Reject,
    /// The handler is called without the lock (fail open), and receives
    /// [`LockStatus::Unlocked`](crate::LockStatus::Unlocked).
    PassThrough,
}

impl WithoutLock {
    /// Returns the value for metrics and log fields.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Reject => "rejected",
            Self::PassThrough => "passed_through",
        }
    }
}
