//! Errors of etcd as errors of a store, each with its remedy.

use lock_core::backend::{Applied, BackendError, BackendErrorKind as Kind};
use std::error::Error;
use tonic::{Code, ConnectError, Status};

/// Returns the error of a call. Without a word of the server, it may have been applied.
pub(crate) fn failed(what: &str, status: Status) -> BackendError {
    if is_unconnected(&status) {
        let cause = causes(&status).last().map(ToString::to_string).unwrap_or_default();
        let message = format!("failed to {what} in etcd, since no server is reached: {cause}");
        return BackendError::new(Kind::Unavailable, Applied::No, message).with_source(status);
    }
    let (kind, applied, remedy) = match status.code() {
        Code::PermissionDenied => (
            Kind::Denied,
            Applied::No,
            ": grant this user's role readwrite on the keys that begin with the prefix of the URL",
        ),
        Code::Unauthenticated => (Kind::Denied, Applied::No, ": the login was refused"),
        Code::InvalidArgument if status.message().contains("authentication failed") => {
            (Kind::Denied, Applied::No, ": the login was refused")
        }
        Code::InvalidArgument if status.message().contains("user name is empty") => {
            (Kind::Denied, Applied::No, ": the cluster needs a login; write it as `etcd://user:password@…`")
        }
        Code::ResourceExhausted => (
            Kind::Unavailable,
            Applied::No,
            ": the store of the cluster is full; compact and defragment it, then disarm the alarm",
        ),
        Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition => {
            (Kind::Unavailable, Applied::No, "")
        }
        Code::Unimplemented => {
            (Kind::Misconfigured, Applied::No, ": this is no server of etcd's API version 3")
        }
        _ => (Kind::Unavailable, Applied::Unknown, ""),
    };
    BackendError::new(kind, applied, format!("failed to {what} in etcd{remedy}")).with_source(status)
}

/// Returns `true` if the request was not sent, for want of a connection.
pub(crate) fn is_unconnected(status: &Status) -> bool {
    causes(status).any(|cause| cause.is::<ConnectError>())
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(status.source(), |&cause| cause.source())
}

/// Returns `true` if the lease that a request names has ended.
pub(crate) fn has_no_lease(status: &Status) -> bool {
    status.code() == Code::NotFound && status.message().contains("lease not found")
}

/// The server's answer has not the expected form.
pub(crate) fn misunderstood() -> BackendError {
    let message = "etcd answered with another message than expected";
    BackendError::new(Kind::Protocol, Applied::Unknown, message)
}
