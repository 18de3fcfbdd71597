//! What an error of fred says about the operation: not sent, refused, or unknown.

use fred::error::{Error, ErrorKind};
use lock_core::{Applied, BackendError, BackendErrorKind, BackendErrorKind as Kind};

/// Translates an error of the client while it did `what`.
pub(crate) fn translate(what: &str, error: &Error) -> BackendError {
    let (kind, applied) = classify(error);
    backend_error(what, kind, applied, error.details())
}

/// Of making a connection to `place`: nothing was asked yet.
pub(crate) fn connecting(place: &str, tls: bool, error: &Error) -> BackendError {
    let (kind, _) = classify(error);
    let details = error.details();
    let reset = ["reset", "Connection closed", "UnexpectedEof"].iter().any(|word| details.contains(word));
    let (kind, cure) = match kind {
        Kind::Denied => (kind, cure(kind, details)),
        _ if details.contains("Certificate") => (
            Kind::Misconfigured,
            ": give the authority that signed it, or have the certificate made for this host",
        ),
        _ if unknown_command(details).is_some() => (Kind::Misconfigured, UNKNOWN_COMMAND),
        _ if details.contains("wrong number of arguments for 'auth'") => {
            (Kind::Misconfigured, ": it is too old for users: use Redis 6.2 or later")
        }
        // What it says of itself makes no sense to us, or it does not take what we want of it.
        Kind::Protocol => (Kind::Misconfigured, ": is it a redis, and is the database one that it has?"),
        Kind::Unavailable if details.contains("refused") || details.contains("No such file") => {
            (kind, ": does redis run there?")
        }
        Kind::Unavailable if reset && !tls => (kind, ": if it speaks TLS, write `rediss://`"),
        Kind::Unavailable | Kind::Misconfigured if tls => {
            (kind, ": does it speak TLS? If not, write `redis://`")
        }
        _ => (kind, cure(kind, details)),
    };
    BackendError::new(
        kind,
        Applied::No,
        format!("connect to redis at {place}: {}{cure}", first_words(details)),
    )
}

/// Where nothing can have been done, whatever the error: a script says so, or nothing was asked yet.
pub(crate) fn refused(what: &str, error: &Error) -> BackendError {
    let (kind, _) = classify(error);
    backend_error(what, kind, Applied::No, error.details())
}

/// There is no connection, and nothing was sent.
pub(crate) fn not_connected(what: &str) -> BackendError {
    backend_error(what, BackendErrorKind::Unavailable, Applied::No, "there is no connection to it now")
}

/// What came back cannot be trusted to be the answer.
pub(crate) fn out_of_step(what: &str, why: &str) -> BackendError {
    backend_error(what, BackendErrorKind::Unavailable, Applied::Unknown, why)
}

/// Whether the server says that it has become a replica: another one may be behind its address by now.
pub(crate) fn is_read_only(error: &BackendError) -> bool {
    error.to_string().contains("READONLY")
}

/// Whether the server is a member of a cluster that does not serve the key. One without all its slots says so of every key.
pub(crate) fn is_cluster_down(error: &BackendError) -> bool {
    error.to_string().contains("CLUSTERDOWN")
}

/// What carried the connection is gone, and no other will come.
pub(crate) fn runtime_ended(what: &str) -> BackendError {
    let why =
        "the runtime in which it was connected has ended: connect in one that lives as long as the backend";
    backend_error(what, BackendErrorKind::Misconfigured, Applied::No, why)
}

/// The connection was lost while the request was under way, and there is no other yet.
pub(crate) fn connection_lost(what: &str) -> BackendError {
    backend_error(what, BackendErrorKind::Unavailable, Applied::Unknown, "the connection was lost")
}

fn backend_error(what: &str, kind: BackendErrorKind, applied: Applied, details: &str) -> BackendError {
    let (details, cure) = (first_words(details), cure(kind, details));
    BackendError::new(kind, applied, format!("{what} on redis: {details}{cure}"))
}

/// Followed by `User … has no permissions to run the '…' command`, or `No permissions to access a key`.
const ACL_FAILURE: &str = "ACL failure in script";

/// What no retry cures, by the word in the server's text.
const FINAL: [(&str, BackendErrorKind); 11] = [
    ("NOAUTH", BackendErrorKind::Denied),
    ("WRONGPASS", BackendErrorKind::Denied),
    ("NOPERM", BackendErrorKind::Denied),
    // Of a command inside of a script: since Redis 7.2, and before.
    (ACL_FAILURE, BackendErrorKind::Denied),
    ("can't run this command", BackendErrorKind::Denied),
    ("can't access at least one of the keys", BackendErrorKind::Denied),
    ("can't publish to the channel", BackendErrorKind::Denied),
    ("WRONGTYPE", BackendErrorKind::WrongType),
    // Our own scripts'.
    ("TOKENS", BackendErrorKind::Misconfigured),
    ("CROSSSLOT", BackendErrorKind::Misconfigured),
    ("MOVED", BackendErrorKind::Misconfigured),
];

/// What a server refuses before a script has written anything, and a retry may cure, by the first word. Each of our scripts
/// runs into it at its first write, if not before.
const REFUSALS: [&str; 9] =
    ["READONLY", "OOM", "MISCONF", "LOADING", "BUSY", "NOREPLICAS", "TRYAGAIN", "MASTERDOWN", "NOSCRIPT"];

/// Without the place in a script that Redis 6 puts in front: `… @user_script: 9: -OOM command not allowed`.
fn without_place(details: &str) -> &str {
    let placed = ["ERR Error running script", "@user_script"].iter().any(|start| details.starts_with(start));
    details.rsplit_once(": -").filter(|_| placed).map_or(details, |(_, text)| text)
}

fn classify(error: &Error) -> (BackendErrorKind, Applied) {
    let details = error.details();
    if let Some((word, kind)) = FINAL.iter().find(|(word, _)| details.contains(word)) {
        // At the front, the server refused the request; further inside, a script ended midway.
        let applied = if details.starts_with(word) { Applied::No } else { Applied::Unknown };
        return (*kind, applied);
    }
    let first = without_place(details).split_whitespace().next().unwrap_or_default();
    if REFUSALS.contains(&first) {
        return (Kind::Unavailable, Applied::No);
    }
    // fred answers everything under way with it.
    if first == "CLUSTERDOWN" {
        return (Kind::Unavailable, Applied::Unknown);
    }
    match error.kind() {
        ErrorKind::Auth => (Kind::Denied, Applied::No),
        ErrorKind::Config | ErrorKind::Url => (Kind::Misconfigured, Applied::No),
        ErrorKind::InvalidArgument | ErrorKind::InvalidCommand => (Kind::Protocol, Applied::No),
        ErrorKind::Backpressure | ErrorKind::Routing | ErrorKind::Sentinel => {
            (Kind::Unavailable, Applied::No)
        }
        ErrorKind::Timeout => (Kind::Timeout, Applied::Unknown),
        ErrorKind::IO | ErrorKind::Canceled | ErrorKind::Cluster => (Kind::Unavailable, Applied::Unknown),
        ErrorKind::Protocol | ErrorKind::Parse | ErrorKind::NotFound => (Kind::Protocol, Applied::Unknown),
        #[cfg(feature = "tls")]
        ErrorKind::Tls => (Kind::Misconfigured, Applied::No),
        // It found no connection to write to.
        ErrorKind::Unknown if details.starts_with("Failed to route command") => {
            (Kind::Unavailable, Applied::No)
        }
        // It wrote once, lost the connection, and does not write again.
        ErrorKind::Unknown if details.starts_with("Too many failed write attempts") => {
            (Kind::Unavailable, Applied::Unknown)
        }
        // Its tasks are gone: the runtime in which it was connected has ended.
        ErrorKind::Unknown
            if details.starts_with("Client is not initialized")
                || details.starts_with("Failed to send command to router") =>
        {
            (Kind::Unavailable, Applied::No)
        }
        // An error of a script midway, and whatever later versions add.
        ErrorKind::Unknown => (Kind::Protocol, Applied::Unknown),
    }
}

const UNKNOWN_COMMAND: &str = ": is it older than 6.0, or a proxy?";

/// The command that the server does not know. The text goes on with its arguments, which may be a login.
fn unknown_command(details: &str) -> Option<&str> {
    let (_, named) = details.split_once("unknown command ")?;
    let named = named.split_once(", with args").map_or(named, |(command, _)| command);
    Some(named.trim_matches(['\'', '`', '.', ' ']))
}

fn cure(kind: BackendErrorKind, details: &str) -> &'static str {
    let says = |word| details.contains(word);
    match kind {
        BackendErrorKind::Denied if says("NOAUTH") || says("WRONGPASS") => {
            ": give the right user and password"
        }
        BackendErrorKind::Denied if says("NOPERM") || says("can't") || says(ACL_FAILURE) => {
            ": give the user the rights that `docs/protocol.md` lists"
        }
        BackendErrorKind::Denied => ": check user and password",
        BackendErrorKind::Protocol if unknown_command(details).is_some() => UNKNOWN_COMMAND,
        BackendErrorKind::WrongType => ": something else is stored under this key, use another lock name",
        BackendErrorKind::Misconfigured if says("TOKENS") => ": lower the floor, or delete the counter",
        BackendErrorKind::Misconfigured if says("CROSSSLOT") || says("MOVED") => {
            ": Redis Cluster is not supported, use a standalone server"
        }
        BackendErrorKind::Unavailable if says("READONLY") => ": this is a replica, connect to its master",
        BackendErrorKind::Unavailable if says("CLUSTERDOWN") => {
            ": this is a member of a Redis Cluster, which is not supported, use a standalone server"
        }
        BackendErrorKind::Unavailable if says("OOM") => ": raise `maxmemory`, or free memory",
        BackendErrorKind::Unavailable if says("MISCONF") => ": the server cannot save its data, see its log",
        _ => "",
    }
}

/// Enough of a text to recognise it: servers quote whole scripts and give lessons, and the client prints errors of the
/// system as Rust does.
fn first_words(details: &str) -> String {
    let line = without_place(details.lines().next().unwrap_or_default());
    if let Some(command) = unknown_command(line) {
        return format!("it does not know {command}");
    }
    let between = |text: &str, from: &str, to: &str| {
        let (_, rest) = text.split_once(from)?;
        Some(rest.rsplit_once(to)?.0.to_owned())
    };
    if line.starts_with("NOAUTH") {
        return "NOAUTH, it wants a password".to_owned();
    }
    let line = between(line, "message: \"", "\"")
        .or_else(|| between(line, "error: ", " }"))
        .unwrap_or(line.to_owned());
    line.trim_end_matches('.').chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: ErrorKind, details: &'static str) -> (BackendErrorKind, Applied) {
        let error = translate("acquire", &Error::new(kind, details));
        (error.kind(), error.applied())
    }

    fn said(details: &'static str) -> (BackendErrorKind, Applied) {
        of(ErrorKind::Unknown, details)
    }

    #[test]
    fn what_was_not_done_is_certain() {
        let no = |kind| (kind, Applied::No);
        assert_eq!(said("READONLY You can't write against a read only replica."), no(Kind::Unavailable));
        assert_eq!(said("OOM command not allowed when used memory > 'maxmemory'."), no(Kind::Unavailable));
        assert_eq!(said("LOADING Redis is loading the dataset in memory"), no(Kind::Unavailable));
        assert_eq!(said("BUSY Redis is busy running a script."), no(Kind::Unavailable));
        assert_eq!(said("Failed to route command."), no(Kind::Unavailable));
        let wrapped = said(
            "ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -OOM command not allowed",
        );
        assert_eq!(wrapped, no(Kind::Unavailable));
        let caught = said("@user_script: 14: -READONLY You can't write against a read only replica.");
        assert_eq!(caught, no(Kind::Unavailable));
        assert_eq!(of(ErrorKind::Auth, "WRONGPASS invalid username-password pair"), no(Kind::Denied));
        assert_eq!(
            said("NOPERM this user has no permissions to run the 'evalsha' command"),
            no(Kind::Denied)
        );
        assert_eq!(of(ErrorKind::Backpressure, "Max buffer length exceeded"), no(Kind::Unavailable));
        assert_eq!(refused("acquire", &Error::new(ErrorKind::Unknown, "WRONGTYPE x")).applied(), Applied::No);
    }

    #[test]
    fn a_connection_that_is_not_made_says_why_and_what_to_do() {
        let said = |tls, kind, details: &'static str| {
            connecting("cache:1", tls, &Error::new(kind, details)).to_string()
        };
        let refused = r#"Os { code: 111, kind: ConnectionRefused, message: "Connection refused" }"#;
        assert_eq!(
            said(false, ErrorKind::IO, refused),
            "connect to redis at cache:1: Connection refused: does redis run there?"
        );
        let reset = r#"Os { code: 104, kind: ConnectionReset, message: "Connection reset by peer" }"#;
        assert!(said(false, ErrorKind::IO, reset).contains("write `rediss://`"));
        let forged = "Custom { kind: InvalidData, error: InvalidCertificate(BadSignature) }";
        let forged = connecting("cache:1", true, &Error::new(ErrorKind::IO, forged));
        assert_eq!(forged.kind(), Kind::Misconfigured);
        assert!(forged.to_string().contains(": InvalidCertificate(BadSignature): give the authority"));
        let lesson = "NOAUTH HELLO must be called with the client already authenticated, otherwise …";
        assert_eq!(
            said(false, ErrorKind::Auth, lesson),
            "connect to redis at cache:1: NOAUTH, it wants a password: give the right user and password"
        );
        for unknown in [
            "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 'canary' ",
            "ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `canary`, ",
            "ERR unknown command 'HELLO'",
        ] {
            assert_eq!(
                said(false, ErrorKind::Unknown, unknown),
                "connect to redis at cache:1: it does not know HELLO: is it older than 6.0, or a proxy?"
            );
            let asked = translate("ping", &Error::new(ErrorKind::Unknown, unknown)).to_string();
            assert!(asked.starts_with("ping on redis: it does not know HELLO: is it"), "{asked}");
        }
        let users = said(false, ErrorKind::Unknown, "ERR wrong number of arguments for 'auth' command");
        assert!(users.contains("too old for users"), "{users}");
        let index = Error::new(ErrorKind::Unknown, "ERR DB index is out of range");
        assert!(!connecting("cache:1", false, &index).is_retryable());
    }

    #[test]
    fn what_may_have_been_done_is_unknown() {
        let unknown = |kind| (kind, Applied::Unknown);
        assert_eq!(of(ErrorKind::Timeout, "Request timed out."), unknown(Kind::Timeout));
        assert_eq!(of(ErrorKind::IO, "Connection reset"), unknown(Kind::Unavailable));
        assert_eq!(of(ErrorKind::Canceled, "Canceled."), unknown(Kind::Unavailable));
        assert_eq!(said("Too many failed write attempts."), unknown(Kind::Unavailable));
        assert_eq!(said("ERR user_script:12: something"), unknown(Kind::Protocol));
        assert_eq!(
            said(
                "ERR The user executing the script can't run this command or subcommand script: 1f, on @user_script:3."
            ),
            unknown(Kind::Denied)
        );
        for denied in [
            "ERR ACL failure in script: User locks has no permissions to run the 'hset' command script: 1f",
            "ERR ACL failure in script: No permissions to access a key",
            "ERR ACL failure in script: No permissions to access a channel",
            "ERR The user executing the script can't access at least one of the keys mentioned in the command",
        ] {
            let error = translate("acquire", &Error::new(ErrorKind::Unknown, denied));
            assert_eq!((error.kind(), error.applied()), unknown(Kind::Denied), "{denied}");
            assert!(error.to_string().contains("docs/protocol.md"), "{error}");
        }
        assert_eq!(said("CLUSTERDOWN Hash slot not served"), unknown(Kind::Unavailable));
    }
}
