//! Maps fred's errors to those of lock-redis: classifies them as not sent, refused or unknown, and gives the reason
//! for a failed dial.

use fred::error::{Error, ErrorKind};
use lock_redis::client::{CallError, DialError, DialErrorKind};

/// Classifies the error of a command. Error replies of servers are not errors here, except those that fred considers
/// fatal.
pub(crate) fn of_call(error: &Error) -> CallError {
    let details = error.details();
    let variant = match error.kind() {
        // fred returned it before writing anything.
        ErrorKind::Config
        | ErrorKind::Url
        | ErrorKind::InvalidArgument
        | ErrorKind::InvalidCommand
        | ErrorKind::Routing
        | ErrorKind::Backpressure
        | ErrorKind::Sentinel => CallError::NotSent,
        // An error reply to this command or, if it is fatal, possibly to another one.
        ErrorKind::Auth | ErrorKind::Cluster => CallError::Refused,
        ErrorKind::IO | ErrorKind::Timeout | ErrorKind::Canceled => CallError::Lost,
        #[cfg(feature = "__tls")]
        ErrorKind::Tls => CallError::Lost,
        ErrorKind::Protocol | ErrorKind::Parse | ErrorKind::NotFound => CallError::Unreadable,
        // fred found no connection to write to, or its task has ended.
        ErrorKind::Unknown
            if [
                "Failed to route command",
                "Client is not initialized",
                "Failed to send command to router",
            ]
            .iter()
            .any(|start| details.starts_with(start)) =>
        {
            CallError::NotSent
        }
        // A refused `SUBSCRIBE`: the server's message, which begins with a word in capitals.
        ErrorKind::Unknown if is_from_server(details) => CallError::Refused,
        // fred's task ended with this command in progress, or a later version added the error.
        ErrorKind::Unknown => CallError::Lost,
    };
    variant(details.to_owned())
}

pub(crate) fn is_from_server(details: &str) -> bool {
    let word = details.split_whitespace().next().unwrap_or_default();
    word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Classifies the error of a dial.
pub(crate) fn of_dial(error: &Error) -> DialError {
    let details = error.details();
    let says = |words: &[&str]| words.iter().any(|word| details.contains(word));
    let kind = match error.kind() {
        _ if says(&["Certificate"]) => DialErrorKind::Certificate,
        // The server's reply to the login or to the selection of the database.
        ErrorKind::Auth | ErrorKind::Unknown | ErrorKind::Cluster => DialErrorKind::Refused,
        ErrorKind::IO if says(&["refused", "No such file"]) => DialErrorKind::NobodyListens,
        ErrorKind::IO if says(&["reset", "Connection closed", "UnexpectedEof"]) => DialErrorKind::Closed,
        ErrorKind::IO | ErrorKind::Canceled | ErrorKind::Routing | ErrorKind::Backpressure => {
            DialErrorKind::Unreachable
        }
        ErrorKind::Timeout => DialErrorKind::TimedOut,
        #[cfg(feature = "__tls")]
        ErrorKind::Tls => DialErrorKind::Tls,
        ErrorKind::Protocol
        | ErrorKind::Parse
        | ErrorKind::NotFound
        | ErrorKind::InvalidArgument
        | ErrorKind::InvalidCommand => DialErrorKind::NotRedis,
        ErrorKind::Config | ErrorKind::Url | ErrorKind::Sentinel => DialErrorKind::Settings,
    };
    DialError::new(kind, words_of_system(details))
}

/// Extracts the message of a system error, which fred formats like Rust:
/// `Os { code: 111, … message: "Connection refused" }`.
fn words_of_system(details: &str) -> &str {
    let between = |from: &str, to: &str| {
        let (_, rest) = details.split_once(from)?;
        Some(rest.rsplit_once(to)?.0)
    };
    // An error that is a text is quoted again.
    let custom = || between("error: ", " }").map(|error| error.trim_matches('"'));
    between("message: \"", "\"").or_else(custom).unwrap_or(details)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(kind: ErrorKind, details: &'static str) -> CallError {
        of_call(&Error::new(kind, details))
    }

    #[test]
    fn unsent_requests_are_certain() {
        for (kind, details) in [
            (ErrorKind::Backpressure, "Max buffer length exceeded"),
            (ErrorKind::Unknown, "Failed to route command."),
            (ErrorKind::Unknown, "Failed to send command to router."),
            (ErrorKind::Unknown, "Client is not initialized."),
        ] {
            assert!(call(kind, details) == CallError::NotSent(details.to_owned()), "{details}");
        }
    }

    #[test]
    fn possibly_sent_requests_are_unknown() {
        for (kind, details) in [
            (ErrorKind::Timeout, "Request timed out."),
            (ErrorKind::IO, "Connection reset"),
            (ErrorKind::Canceled, "Canceled."),
            (ErrorKind::Unknown, "Too many failed write attempts."),
            (ErrorKind::Unknown, "channel closed"),
        ] {
            assert!(call(kind, details) == CallError::Lost(details.to_owned()), "{details}");
        }
    }

    #[test]
    fn refusals_keep_the_words_of_the_server() {
        for (kind, details) in [
            (ErrorKind::Unknown, "NOPERM this user has no permissions to access one of the channels"),
            (ErrorKind::Unknown, "BUSY Redis is busy running a script."),
            (ErrorKind::Unknown, "ERR unknown command 'SUBSCRIBE'"),
            (ErrorKind::Auth, "NOAUTH Authentication required."),
            (ErrorKind::Cluster, "CLUSTERDOWN Hash slot not served"),
        ] {
            assert!(call(kind, details) == CallError::Refused(details.to_owned()), "{details}");
        }
    }

    #[test]
    fn failed_dial_keeps_the_words_of_the_system() {
        let dial = |kind, details: &'static str| of_dial(&Error::new(kind, details));
        let refused = r#"Os { code: 111, kind: ConnectionRefused, message: "Connection refused" }"#;
        let expected = DialError::new(DialErrorKind::NobodyListens, "Connection refused");
        assert!(dial(ErrorKind::IO, refused) == expected);
        let reset = r#"Os { code: 104, kind: ConnectionReset, message: "Connection reset by peer" }"#;
        assert!(
            dial(ErrorKind::IO, reset) == DialError::new(DialErrorKind::Closed, "Connection reset by peer")
        );
        let forged = "Custom { kind: InvalidData, error: InvalidCertificate(BadSignature) }";
        let expected = DialError::new(DialErrorKind::Certificate, "InvalidCertificate(BadSignature)");
        assert!(dial(ErrorKind::IO, forged) == expected);
        let lookup = r#"Custom { kind: Uncategorized, error: "failed to lookup address information: Name or service not known" }"#;
        let expected = "failed to lookup address information: Name or service not known";
        assert!(dial(ErrorKind::IO, lookup) == DialError::new(DialErrorKind::Unreachable, expected));
        let login = "WRONGPASS invalid username-password pair";
        assert!(dial(ErrorKind::Auth, login) == DialError::new(DialErrorKind::Refused, login));
    }
}
