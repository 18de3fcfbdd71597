//! Errors for sentinels that name no master, and for addresses that lead to no cluster. Each names
//! the node and the remedy.

use super::{classify, connecting, first_words, remedy, unknown_command};
use crate::client::{CallError, DialError, DialErrorKind, Server};
use lock_core::backend::{Applied, BackendError, BackendErrorKind, BackendErrorKind as Kind};

/// Returns the error for a server that the sentinels name as the master although it is a replica.
pub(crate) fn not_promoted(server: &Server) -> BackendError {
    let message = format!(
        "failed to connect to redis at {server}: the sentinels report this server as the master, but it is a \
         replica; a failover may be in progress"
    );
    BackendError::new(Kind::Unavailable, Applied::No, message)
}

/// Returns the error for a server that the sentinels have replaced by another master.
pub(crate) fn superseded(server: &Server) -> BackendError {
    let message =
        format!("failed to connect to redis at {server}: the sentinels now report a different master");
    BackendError::new(Kind::Unavailable, Applied::No, message)
}

/// The reason why a sentinel did not name a master.
#[derive(Debug)]
pub(crate) enum NoMaster {
    Dial(DialError),
    Call(CallError),
    /// The sentinel does not monitor a master with this name.
    Unknown,
}

/// Returns the error to report if no sentinel named a master: the first non-retryable one, or otherwise a summary.
pub(crate) fn no_master(master: &str, tls: bool, failed: &[(&Server, NoMaster)]) -> BackendError {
    let errors: Vec<_> =
        failed.iter().map(|(sentinel, why)| sentinel_error(master, tls, sentinel, why)).collect();
    match errors.iter().find(|error| !error.is_retryable()) {
        Some(error) => error.clone(),
        None => {
            let each: Vec<_> = errors.iter().map(BackendError::to_string).collect();
            let message =
                format!("failed to find the master {master:?}: no sentinel responded: {}", each.join("; "));
            BackendError::new(Kind::Unavailable, Applied::No, message)
        }
    }
}

fn sentinel_error(master: &str, tls: bool, sentinel: &Server, why: &NoMaster) -> BackendError {
    let said = |details: &str| -> (BackendErrorKind, String) {
        match classify(details).0 {
            kind @ Kind::Denied if details.contains("NOPERM") => {
                (kind, format!("{}; grant the user permission to run `SENTINEL`", first_words(details)))
            }
            kind @ Kind::Denied => (
                kind,
                format!(
                    "{}; set the login for the sentinels with `?sentinel_user=…&sentinel_pass=…`",
                    first_words(details)
                ),
            ),
            _ if unknown_command(details).is_some() => (
                Kind::Misconfigured,
                "it is not a sentinel; for a single server, write `redis://`".to_owned(),
            ),
            kind => (kind, first_words(details)),
        }
    };
    let (kind, text) = match why {
        NoMaster::Unknown => (
            Kind::Misconfigured,
            format!(
                "it does not monitor a master named {master:?}; use the name in its `sentinel monitor` line"
            ),
        ),
        NoMaster::Dial(error) if error.kind == DialErrorKind::Refused => said(&error.message),
        NoMaster::Dial(error) => return connecting(sentinel, tls, error),
        NoMaster::Call(CallError::Refused(text)) => said(text),
        NoMaster::Call(CallError::NotSent(why) | CallError::Lost(why)) => (Kind::Unavailable, why.clone()),
        NoMaster::Call(CallError::Unreadable(why)) => (Kind::Protocol, why.clone()),
    };
    BackendError::new(kind, Applied::No, format!("failed to query the sentinel {sentinel}: {text}"))
}

/// Returns the error to report if no address led to a cluster: the first non-retryable one, or otherwise a summary.
pub(crate) fn no_cluster(errors: Vec<BackendError>) -> BackendError {
    match errors.iter().find(|error| !error.is_retryable()) {
        Some(error) => error.clone(),
        None => {
            let each: Vec<_> = errors.iter().map(BackendError::to_string).collect();
            let message = format!("failed to find the cluster's nodes: none responded: {}", each.join("; "));
            BackendError::new(Kind::Unavailable, Applied::No, message)
        }
    }
}

/// Returns the error for a server that did not list the cluster slots.
pub(crate) fn asking_for_slots(server: &Server, error: &CallError) -> BackendError {
    let (kind, text) = match error {
        CallError::Refused(text) if text.contains("cluster support disabled") => {
            (Kind::Misconfigured, "it is not a cluster node; write `redis://`".to_owned())
        }
        CallError::Refused(text) => match classify(text).0 {
            kind @ Kind::Denied => (kind, first_words(text) + remedy(kind, text)),
            kind => (kind, first_words(text)),
        },
        CallError::NotSent(why) | CallError::Lost(why) => (Kind::Unavailable, why.clone()),
        CallError::Unreadable(why) => (Kind::Protocol, why.clone()),
    };
    BackendError::new(kind, Applied::No, format!("failed to read the cluster slots from {server}: {text}"))
}

/// Returns the error for a node that reports no slots, since it has not joined a cluster.
pub(crate) fn without_slots(server: &Server) -> BackendError {
    let message = format!(
        "failed to read the cluster slots from {server}: no slots are being served; join the nodes into a \
         cluster and assign slots to them"
    );
    BackendError::new(Kind::Misconfigured, Applied::No, message)
}
