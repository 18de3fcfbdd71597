//! Errors of ZooKeeper as errors of a store, each with its remedy.

use lock_core::backend::{Applied, BackendError, BackendErrorKind as Kind};
use zookeeper_client::{Error, MultiWriteError};

/// Returns the error of a request. Without a word of the server, it may have been applied.
pub(crate) fn failed(what: &str, error: Error) -> BackendError {
    let (kind, applied, remedy) = match error {
        Error::NoAuth => (
            Kind::Denied,
            Applied::No,
            ": the login of the URL, or its absence, has not all rights on the node of its path and on those below; a wrong \
             password looks the same",
        ),
        Error::AuthFailed | Error::InvalidAcl => (Kind::Denied, Applied::No, ": the login was refused"),
        Error::Unimplemented => {
            (Kind::Misconfigured, Applied::No, ": a server of ZooKeeper 3.5.3 or later is needed")
        }
        Error::QuotaExceeded | Error::Throttled | Error::NotReadOnly | Error::NoHosts => {
            (Kind::Unavailable, Applied::No, "")
        }
        _ => (Kind::Unavailable, Applied::Unknown, ""),
    };
    BackendError::new(kind, applied, format!("failed to {what} in ZooKeeper{remedy}")).with_source(error)
}

/// Returns `true` if the session has ended, and with it all that it had.
pub(crate) fn has_ended(error: &Error) -> bool {
    matches!(error, Error::SessionExpired)
}

/// Returns why a transaction changed nothing: the operation that was refused, and its reason. Other errors are those of a
/// request.
pub(crate) fn refused(what: &str, error: MultiWriteError) -> Result<(usize, Error), BackendError> {
    match error {
        MultiWriteError::OperationFailed {
            index,
            source: source @ (Error::NoNode | Error::NodeExists | Error::BadVersion | Error::NotEmpty),
        } => Ok((index, source)),
        MultiWriteError::OperationFailed { source, .. } | MultiWriteError::RequestFailed { source } => {
            Err(failed(what, source))
        }
    }
}

/// The data of the root node is not what this crate writes.
pub(crate) fn is_foreign(root: &str) -> BackendError {
    let message = format!("the node {root} has data of another program: write another path into the URL");
    BackendError::new(Kind::Misconfigured, Applied::No, message)
}
