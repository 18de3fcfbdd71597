//! Errors of requests, which are not sent, refused, or of unknown outcome, and of connecting, each with its remedy.
//! Only this module interprets the error texts of servers.

use crate::{
    client::{CallError, DialError, DialErrorKind, Server, printable},
    cluster::Redirection,
};
use lock_core::{
    LockError,
    backend::{Applied, BackendError, BackendErrorKind, BackendErrorKind as Kind},
};
use std::{fmt, time::Duration};

/// A failed request: the error for lock-core, and the server condition that this crate reacts to.
#[derive(Debug, Clone)]
pub(crate) struct RequestError {
    error: BackendError,
    condition: Condition,
}

/// A server condition that requires a reaction.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    /// The script is unknown to the server. Nothing was executed.
    UnknownScript,
    /// The server has become a replica. Its address may now lead to another server.
    ReadOnly,
    /// The server is a member of a cluster and does not serve the key. If any slot is not served, it reports this for
    /// every key.
    ClusterDown,
    /// Another node of the cluster serves the key.
    Redirected(Redirection),
    /// The script does not return such a reply.
    Unexpected,
    /// There is no connection.
    NotConnected,
    Other,
}

impl RequestError {
    pub(crate) fn kind(&self) -> BackendErrorKind {
        self.error.kind()
    }

    pub(crate) fn is_retryable(&self) -> bool {
        self.error.is_retryable()
    }

    /// Returns `true` if the server refused the whole call because a permission is missing.
    pub(crate) fn is_denied(&self) -> bool {
        self.kind() == Kind::Denied && self.error.applied() == Applied::No
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.condition == Condition::ReadOnly
    }

    /// Returns the redirection to the node that serves the key.
    pub(crate) fn redirection(&self) -> Option<&Redirection> {
        match &self.condition {
            Condition::Redirected(redirection) => Some(redirection),
            _ => None,
        }
    }

    pub(crate) fn is_unexpected(&self) -> bool {
        self.condition == Condition::Unexpected
    }

    pub(crate) fn is_not_connected(&self) -> bool {
        self.condition == Condition::NotConnected
    }

    pub(crate) fn is_cluster_down(&self) -> bool {
        self.condition == Condition::ClusterDown
    }
}

impl From<RequestError> for BackendError {
    fn from(error: RequestError) -> Self {
        error.error
    }
}

impl From<RequestError> for LockError {
    fn from(error: RequestError) -> Self {
        error.error.into()
    }
}

impl From<BackendError> for RequestError {
    fn from(error: BackendError) -> Self {
        Self { error, condition: Condition::Other }
    }
}

/// A call that returned no usable reply.
#[derive(Clone)]
pub(crate) enum Unanswered {
    /// The client reported this error. Secrets have been removed from its text.
    Failed(CallError),
    /// The connection was lost during the call.
    ConnectionLost,
    /// The connection is alive, but no reply to this call arrived in time.
    TimedOut,
}

impl Unanswered {
    /// Returns the error for a failed attempt to do `what`, a phrase such as `acquire a lock`.
    pub(crate) fn during(&self, what: &str) -> RequestError {
        match self {
            Self::Failed(CallError::Refused(text)) => server_error(what, text),
            Self::Failed(CallError::NotSent(why)) => plain(what, Kind::Unavailable, Applied::No, why),
            Self::Failed(CallError::Lost(why)) => plain(what, Kind::Unavailable, Applied::Unknown, why),
            Self::Failed(CallError::Unreadable(why)) => plain(what, Kind::Protocol, Applied::Unknown, why),
            Self::ConnectionLost => {
                plain(what, Kind::Unavailable, Applied::Unknown, "the connection was lost")
            }
            Self::TimedOut => no_answer(what),
        }
    }

    /// Returns `true` if the script was unknown to the server, which then executed nothing.
    pub(crate) fn is_unknown_script(&self) -> bool {
        self.refusal().is_some_and(|error| error.condition == Condition::UnknownScript)
    }

    /// Returns `true` if the server refused the whole call before doing anything.
    pub(crate) fn is_refusal(&self) -> bool {
        self.refusal().is_some_and(|error| error.error.applied() == Applied::No)
    }

    fn refusal(&self) -> Option<RequestError> {
        match self {
            Self::Failed(CallError::Refused(text)) => Some(server_error("call", text)),
            Self::Failed(_) | Self::ConnectionLost | Self::TimedOut => None,
        }
    }
}

/// Classifies an error reply from the server.
pub(crate) fn server_error(what: &str, text: &str) -> RequestError {
    let (kind, applied) = classify(text);
    with_condition(what, kind, applied, text)
}

/// Classifies an error that the script raised before it did anything.
pub(crate) fn refused_by_script(what: &str, text: &str) -> RequestError {
    let (kind, _) = classify(text);
    with_condition(what, kind, Applied::No, text)
}

/// Adds the quorum node's name to its error.
pub(crate) fn named(node: &Server, error: &BackendError) -> BackendError {
    BackendError::new(error.kind(), error.applied(), format!("quorum node {node}: {error}"))
}

/// Returns the error for a key that no node of the cluster currently serves.
pub(crate) fn unserved(what: &str) -> RequestError {
    plain(what, Kind::Unavailable, Applied::No, "no cluster node currently serves this name")
}

/// Returns `true` if the server refused the connection or cannot be used. Otherwise it is only out of reach.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "a predicate of iterators over references")]
pub(crate) fn is_refusal(error: &&BackendError) -> bool {
    !matches!(error.kind(), Kind::Unavailable | Kind::Timeout)
}

/// Returns the error of a check while connecting, which applies nothing.
pub(crate) fn while_connecting(error: impl Into<BackendError>) -> BackendError {
    error.into().with_applied(Applied::No)
}

/// Returns the error for a cluster node that is older than the nodes that answered first.
pub(crate) fn without_sharded_channels(version: &str) -> BackendError {
    misconfigured(&format!(
        "version {version:?} has no sharded channels, which the other nodes use; upgrade it to Redis 7 or later, or \
         restart this process"
    ))
}

/// Returns the error for settings that cannot work.
pub(crate) fn misconfigured(why: &str) -> BackendError {
    let message = format!("failed to connect to redis: {why}");
    BackendError::new(Kind::Misconfigured, Applied::No, message)
}

/// Returns the error for a request without a connection, with the reason. Nothing was sent.
pub(crate) fn not_connected(what: &str, reason: &impl fmt::Display) -> RequestError {
    let why = format!("not connected ({reason}), so the request was not sent");
    let RequestError { error, .. } = plain(what, Kind::Unavailable, Applied::No, &why);
    RequestError { error, condition: Condition::NotConnected }
}

/// Returns the error for a request that timed out before it was sent.
pub(crate) fn overdue(what: &str) -> RequestError {
    plain(what, Kind::Timeout, Applied::No, "the request timed out before it was sent")
}

/// Returns the error for a request that got no reply on a live connection.
pub(crate) fn no_answer(what: &str) -> RequestError {
    plain(what, Kind::Timeout, Applied::Unknown, "no reply")
}

/// Returns the error for a request that the server executed but that too few replicas acknowledged.
pub(crate) fn unacknowledged(what: &str) -> RequestError {
    let why = "too few replicas acknowledged the operation (are they connected to the master?)";
    plain(what, Kind::Unavailable, Applied::Unknown, why)
}

/// Returns the error for a release that freed the lock, while `error` may have kept its waiters asleep. A repeat wakes
/// them, but does not find the lease.
pub(crate) fn not_woken(what: &str, error: &Unanswered) -> RequestError {
    let RequestError { error, .. } = error.during(what);
    BackendError::new(error.kind(), Applied::Unknown, error.to_string()).into()
}

/// Returns the error for a connection whose dialling task has ended. The connection will not be replaced.
pub(crate) fn runtime_ended(what: &str) -> RequestError {
    let why = "the connection's runtime has ended; connect in a runtime that lives as long as the backend";
    plain(what, Kind::Misconfigured, Applied::No, why)
}

/// Returns the error for a reply that no script returns.
pub(crate) fn unexpected_reply(what: &str) -> RequestError {
    let why = "unexpected reply (is this address a Redis server, and is its clock set?)";
    let RequestError { error, .. } = plain(what, Kind::Protocol, Applied::Unknown, why);
    RequestError { error, condition: Condition::Unexpected }
}

/// Returns the error for a reply whose time is far from the earlier ones.
pub(crate) fn misdated_reply(what: &str) -> RequestError {
    let why = "the reply does not fit the server's clock, which may have been set; reconnecting";
    plain(what, Kind::Protocol, Applied::Unknown, why)
}

/// Returns the error for a failed dial to `server`. Nothing has been sent yet.
pub(crate) fn connecting(server: &Server, tls: bool, error: &DialError) -> BackendError {
    let details = error.message.as_str();
    let closed = match tls {
        true => "; if the server does not use TLS, write `redis://`",
        false => "; if the server uses TLS, write `rediss://`",
    };
    let (kind, remedy) = match error.kind {
        DialErrorKind::Certificate => (Kind::Misconfigured, certificate_remedy(details)),
        DialErrorKind::NobodyListens => (Kind::Unavailable, " (is a Redis server running there?)"),
        DialErrorKind::Closed => (Kind::Unavailable, closed),
        DialErrorKind::Unreachable if details.contains("lookup address") => {
            (Kind::Unavailable, "; check the host name, and that this machine can resolve it")
        }
        DialErrorKind::Unreachable if tls => (Kind::Unavailable, closed),
        DialErrorKind::Unreachable => (Kind::Unavailable, ""),
        DialErrorKind::Tls => (Kind::Misconfigured, closed),
        DialErrorKind::Settings => (Kind::Misconfigured, ""),
        DialErrorKind::NotRedis => (Kind::Misconfigured, NOT_REDIS),
        DialErrorKind::TimedOut => (
            Kind::Timeout,
            match tls {
                true => " (is a server running there?); if it does not use TLS, write `redis://`",
                false => " (is a Redis server running there?)",
            },
        ),
        DialErrorKind::Refused => match classify(details).0 {
            kind @ Kind::Denied => (kind, remedy(kind, details)),
            _ if unknown_command(details).is_some() => (Kind::Misconfigured, UNKNOWN_COMMAND),
            _ if details.contains("wrong number of arguments for 'auth'") => {
                (Kind::Misconfigured, "; the server is too old to have users, so use Redis 6.2 or later")
            }
            _ if details.contains(TOO_MANY_CLIENTS) => (
                Kind::Unavailable,
                "; raise `maxclients`, or open fewer factories (each has two connections)",
            ),
            _ if details.contains("DB index is out of range") => {
                (Kind::Misconfigured, "; use a database that the server has (see its `databases` setting)")
            }
            // The server rejects the settings of the connection.
            Kind::Protocol => (Kind::Misconfigured, NOT_REDIS),
            kind => (kind, remedy(kind, details)),
        },
    };
    not_dialled(server, kind, &format!("{}{remedy}", first_words(details)))
}

fn not_dialled(server: &Server, kind: Kind, why: &str) -> BackendError {
    BackendError::new(kind, Applied::No, format!("failed to connect to redis at {server}: {why}"))
}

/// Returns the error for a login that the program did not supply within the time limit of a dial.
pub(crate) fn no_credentials(server: &Server, limit: Duration) -> BackendError {
    not_dialled(server, Kind::Timeout, &format!("the program supplied no credentials within {limit:?}"))
}

/// Returns what to do about a server's certificate. The client libraries print the reasons of rustls in different
/// forms.
fn certificate_remedy(details: &str) -> &'static str {
    let says = |words: &[&str]| words.iter().any(|word| details.contains(word));
    if says(&["CaUsedAsEndEntity"]) {
        "; the server's certificate is marked as an authority (CA:TRUE): issue one without that mark, signed by an \
         authority, and configure that authority"
    } else if says(&["NotValidYet", "not valid yet"]) {
        "; the certificate is not valid yet: check the clocks of this machine and of the issuer"
    } else if says(&["Expired", "expired"]) {
        "; the certificate has expired: renew it, or correct the clock of this machine"
    } else if says(&["NotValidForName", "not valid for name"]) {
        "; the certificate was issued for another host: connect to a name that it contains, or add this one to its \
         subject alternative names"
    } else if says(&["UnknownIssuer"]) {
        "; configure the authority that signed the certificate (`?authority=/ca.pem`)"
    } else {
        "; configure the authority that signed the certificate, or use one issued for this host"
    }
}

/// Returns the error for a server that the sentinels name as the master although it is a replica.
pub(crate) fn not_promoted(server: &Server) -> BackendError {
    let why =
        "the sentinels report this server as the master, but it is a replica; a failover may be in progress";
    not_dialled(server, Kind::Unavailable, why)
}

/// Returns the error for a server that the sentinels have replaced by another master.
pub(crate) fn superseded(server: &Server) -> BackendError {
    not_dialled(server, Kind::Unavailable, "the sentinels now report a different master")
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
    let errors = failed.iter().map(|(sentinel, why)| sentinel_error(master, tls, sentinel, why)).collect();
    final_or_all(errors, &format!("failed to find the master {master:?}: no sentinel responded"))
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
    final_or_all(errors, "failed to find the cluster's nodes: none responded")
}

/// Returns the first error that persists when the request is retried, or otherwise a summary of all.
fn final_or_all(errors: Vec<BackendError>, what: &str) -> BackendError {
    let each: Vec<_> = errors.iter().map(BackendError::to_string).collect();
    let all = || BackendError::new(Kind::Unavailable, Applied::No, format!("{what}: {}", each.join("; ")));
    errors.into_iter().find(|error| !error.is_retryable()).unwrap_or_else(all)
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

fn plain(what: &str, kind: BackendErrorKind, applied: Applied, why: &str) -> RequestError {
    BackendError::new(kind, applied, format!("failed to {what} on redis: {}", printable(why))).into()
}

fn with_condition(what: &str, kind: BackendErrorKind, applied: Applied, text: &str) -> RequestError {
    let condition = match without_place(text).split_whitespace().next() {
        Some("NOSCRIPT") => Condition::UnknownScript,
        Some("READONLY") => Condition::ReadOnly,
        Some("CLUSTERDOWN") => Condition::ClusterDown,
        _ => Redirection::read(without_place(text)).map_or(Condition::Other, Condition::Redirected),
    };
    let (details, remedy) = (first_words(text), remedy(kind, text));
    let error = BackendError::new(kind, applied, format!("failed to {what} on redis: {details}{remedy}"));
    RequestError { error, condition }
}

/// In Redis, `User … has no permissions to run the '…' command` or `No permissions to access a key` follows.
const ACL_FAILURE: &str = "ACL failure in script";

/// Errors that persist when the request is retried, identified by a word in the server's text.
const FINAL: [(&str, BackendErrorKind); 11] = [
    ("NOAUTH", BackendErrorKind::Denied),
    ("WRONGPASS", BackendErrorKind::Denied),
    ("NOPERM", BackendErrorKind::Denied),
    // From a command inside a script: the first since Redis 7.2, the others before.
    (ACL_FAILURE, BackendErrorKind::Denied),
    ("can't run this command", BackendErrorKind::Denied),
    ("can't access at least one of the keys", BackendErrorKind::Denied),
    ("can't publish to the channel", BackendErrorKind::Denied),
    ("WRONGTYPE", BackendErrorKind::WrongType),
    // Raised by our own scripts.
    ("TOKENS", BackendErrorKind::Misconfigured),
    ("CROSSSLOT", BackendErrorKind::Misconfigured),
    ("MOVED", BackendErrorKind::Misconfigured),
];

/// Refusals that occur before a script has written anything, identified by the first word. A retry may succeed. Each of
/// our scripts encounters them no later than at its first write.
const REFUSALS: [&str; 9] =
    ["READONLY", "OOM", "MISCONF", "LOADING", "BUSY", "NOREPLICAS", "TRYAGAIN", "MASTERDOWN", "NOSCRIPT"];

/// Removes the script position that Redis 6 prepends: `… @user_script: 9: -OOM command not allowed`.
fn without_place(details: &str) -> &str {
    let placed = ["ERR Error running script", "@user_script"].iter().any(|start| details.starts_with(start));
    details.rsplit_once(": -").filter(|_| placed).map_or(details, |(_, text)| text)
}

fn classify(details: &str) -> (BackendErrorKind, Applied) {
    if let Some((word, kind)) = FINAL.iter().find(|(word, _)| details.contains(word)) {
        // At the start of the text, the server refused the request. Elsewhere, a script failed midway.
        let applied = if details.starts_with(word) { Applied::No } else { Applied::Unknown };
        return (*kind, applied);
    }
    match without_place(details).split_whitespace().next().unwrap_or_default() {
        first if REFUSALS.contains(&first) => (Kind::Unavailable, Applied::No),
        // A client may fail all requests in progress with it.
        "CLUSTERDOWN" | "ASK" => (Kind::Unavailable, Applied::Unknown),
        // A script failed midway, or the error is from a later version.
        _ => (Kind::Protocol, Applied::Unknown),
    }
}

const NOT_REDIS: &str = " (is this a Redis server?)";
const TOO_MANY_CLIENTS: &str = "max number of clients reached";
const UNKNOWN_COMMAND: &str = " (is the server older than 6.0, or a proxy?)";

/// Returns the command that is unknown to the server. The rest of the text quotes the arguments,
/// which may contain a login.
fn unknown_command(details: &str) -> Option<&str> {
    let (_, named) = details.split_once("unknown command ")?;
    let named = named.split_once(", with args").map_or(named, |(command, _)| command);
    Some(named.trim_matches(['\'', '`', '.', ' ']))
}

/// The keys and channels of the least rights in `docs/protocol.md`. They are outside of the prefix of the names, since
/// Redisson uses the same.
const KEYS_REMEDY: &str = "; grant the user `~distlock:* ~redisson_lock_token:* &redisson_lock__channel:*`, and the \
     names of the locks: `~shop:*` for the prefix `shop:` (see `docs/protocol.md`)";

fn remedy(kind: BackendErrorKind, details: &str) -> &'static str {
    let says = |word| details.contains(word);
    match kind {
        BackendErrorKind::Denied if says("NOAUTH") || says("WRONGPASS") => {
            "; use the correct user and password"
        }
        // `one of the keys` when connecting, `a key` and `at least one of the keys` in scripts.
        BackendErrorKind::Denied if says("access") && (says(" key") || says("channel")) => KEYS_REMEDY,
        BackendErrorKind::Denied if says("NOPERM") || says("can't") || says(ACL_FAILURE) => {
            "; grant the user the permissions listed in `docs/protocol.md`"
        }
        BackendErrorKind::Denied => "; check the user and the password",
        BackendErrorKind::Protocol if unknown_command(details).is_some() => UNKNOWN_COMMAND,
        BackendErrorKind::WrongType => {
            "; this key holds something other than a lock, so use another lock name"
        }
        BackendErrorKind::Misconfigured if says("TOKENS") => {
            "; lower `token_floor`, or delete the fencing counter"
        }
        BackendErrorKind::Misconfigured if says("CROSSSLOT") || says("MOVED") => {
            "; this is a Redis Cluster node, so write `redis-cluster://`"
        }
        BackendErrorKind::Unavailable if says("READONLY") => "; this is a replica, so connect to its master",
        BackendErrorKind::Unavailable if says("CLUSTERDOWN") => {
            "; the cluster does not currently serve the key"
        }
        BackendErrorKind::Unavailable if says("OOM") => "; raise `maxmemory`, or free memory",
        BackendErrorKind::Unavailable if says("MISCONF") => "; the server cannot save its data (see its log)",
        _ => "",
    }
}

/// Returns the beginning of an error text, enough to recognise the error. Servers quote whole scripts and add long
/// explanations.
fn first_words(details: &str) -> String {
    let line = without_place(details.lines().next().unwrap_or_default());
    if let Some(command) = unknown_command(line) {
        return format!("unknown command {}", printable(command));
    }
    if line.starts_with("NOAUTH") {
        return "NOAUTH, the server requires a password".to_owned();
    }
    printable(line.trim_end_matches('.')).chars().take(200).collect()
}

#[cfg(test)]
mod tests;
