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

/// The policy for requests that arrive while the store is not responding.
///
/// It applies only to outages. Error replies from the store, for example because of missing
/// permissions or a key with the wrong type, never bypass the lock. Such errors persist, and
/// requests would run without locks indefinitely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnUnavailable {
    /// Rejects the requests (fail closed).
    #[default]
    Reject,
    /// Passes the requests through without the lock (fail open). The handler receives
    /// [`Unlocked::Unavailable`](crate::Unlocked::Unavailable).
    Allow,
}

/// The policy for requests that lack the client's part of the key: the header or the parameter is
/// missing, or the key function returns [`KeyError::missing`](crate::KeyError::missing).
///
/// A part that is empty, repeated or too long is always rejected. Otherwise a handler could still
/// read a value from it, and clients could choose to run without the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnBadKey {
    /// Rejects the requests.
    #[default]
    Reject,
    /// Passes the requests through without a lock. The handler receives
    /// [`Unlocked::NoKey`](crate::Unlocked::NoKey).
    Allow,
}
