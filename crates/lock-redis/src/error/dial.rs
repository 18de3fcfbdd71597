//! Errors of dials: each names the server, the reason and the remedy.

use super::{UNKNOWN_COMMAND, classify, first_words, remedy, unknown_command};
use crate::client::{DialError, DialErrorKind, Server};
use lock_core::backend::{Applied, BackendError, BackendErrorKind as Kind};
use std::time::Duration;

const NOT_REDIS: &str = " (is this a Redis server?)";
const TOO_MANY_CLIENTS: &str = "max number of clients reached";

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
    let message = format!("failed to connect to redis at {server}: {}{remedy}", first_words(details));
    BackendError::new(kind, Applied::No, message)
}

/// Returns the error for a login that the program did not supply within the time limit of a dial.
pub(crate) fn no_credentials(server: &Server, limit: Duration) -> BackendError {
    let message = format!(
        "failed to connect to redis at {server}: the program supplied no credentials within {limit:?}"
    );
    BackendError::new(Kind::Timeout, Applied::No, message)
}

/// Returns what to do about a server's certificate. The client libraries print the reasons of rustls in different forms.
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
