//! The choices of a layer, each with its default.

use http::{Method, StatusCode};

/// When the lock is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ReleaseOn {
    /// When the body has ended, failed, or was dropped: a stream is protected to its last byte.
    #[default]
    BodyEnd,
    /// When the handler has returned its response; the body is not protected.
    Head,
}

impl ReleaseOn {
    /// Whether there is nothing left to protect after this head: bodies that nobody will send are not waited for.
    pub(crate) fn ends_with(self, head: StatusCode, asked: &Method) -> bool {
        self == Self::Head || is_bodiless(head, asked)
    }
}

/// Whether nobody will send the body of this response, or read it.
pub(crate) fn is_bodiless(head: StatusCode, asked: &Method) -> bool {
    *asked == Method::HEAD
        || head.is_informational()
        || matches!(head, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// What becomes of a handler whose lock is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnLost {
    /// It is dropped and the request answered with 503; a body that has begun ends with an error.
    #[default]
    Stop,
    /// It goes on, and may ask its [`LockHandle`](crate::LockHandle).
    Signal,
}

/// What becomes of requests while the store does not answer.
///
/// A store that answers and refuses, for want of rights or because a key is of another type, is not passed by: that does
/// not heal by itself, and the locks would be gone for good without anybody noticing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnUnavailable {
    /// They are refused: fail closed.
    #[default]
    Reject,
    /// They go on without the lock: fail open. The handler sees [`Unlocked::Unavailable`](crate::Unlocked::Unavailable).
    Allow,
}

/// What becomes of requests that lack the client's part of the key: that do not have the header or the parameter at all,
/// or whose function says [`KeyError::missing`](crate::KeyError::missing).
///
/// What is empty, given more than once, or too long is refused in any case: a handler might read a value in it, and a
/// client could so choose to go without the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnBadKey {
    /// They are refused.
    #[default]
    Reject,
    /// They go on without a lock. The handler sees [`Unlocked::NoKey`](crate::Unlocked::NoKey).
    Allow,
}
