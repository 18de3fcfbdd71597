//! The policies of a layer, each with its default.

use http::{Method, StatusCode};

/// The moment at which the lock is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ReleaseOn {
    /// Releases when the body ends, fails or is dropped: a stream is protected to its last byte.
    #[default]
    BodyEnd,
    /// Releases when the handler returns its response; the body is not protected.
    Head,
}

impl ReleaseOn {
    /// Returns `true` if nothing is left to protect after this head: a body that will not be sent is not awaited.
    pub(crate) fn ends_with(self, head: StatusCode, asked: &Method) -> bool {
        self == Self::Head || is_bodiless(head, asked)
    }
}

/// Returns `true` if the body of this response will not be sent.
pub(crate) fn is_bodiless(head: StatusCode, asked: &Method) -> bool {
    *asked == Method::HEAD
        || head.is_informational()
        || matches!(head, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// The policy for a handler whose lock is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnLost {
    /// Drops the handler and responds with 503. If the response has started, its body ends with an error.
    #[default]
    Stop,
    /// Lets the handler continue. It can check its [`LockHandle`](crate::LockHandle).
    Signal,
}

/// The policy for requests that arrive while the store does not answer.
///
/// It applies to outages only. A store that answers with an error, because permissions are missing or a key has the
/// wrong type, is never bypassed: such an error does not go away by itself, and requests would run without locks
/// forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnUnavailable {
    /// Rejects them: fail closed.
    #[default]
    Reject,
    /// Passes them through without the lock: fail open. The handler gets
    /// [`Unlocked::Unavailable`](crate::Unlocked::Unavailable).
    Allow,
}

/// The policy for requests that lack the client's part of the key: the header or the parameter is missing, or the
/// function of the key returns [`KeyError::missing`](crate::KeyError::missing).
///
/// A part that is empty, given more than once, or too long is always rejected. Otherwise a handler might still read a
/// value from it, and a client could choose to run without the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnBadKey {
    /// Rejects them.
    #[default]
    Reject,
    /// Passes them through without a lock. The handler gets [`Unlocked::NoKey`](crate::Unlocked::NoKey).
    Allow,
}
