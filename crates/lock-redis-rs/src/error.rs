//! Mapping of redis-rs errors to those of lock-redis: not sent, refused or unknown, and the reason for a failed dial.

use lock_redis::client::{CallError, DialError, DialErrorKind};
use redis::{ErrorKind, RedisError};
use std::{error::Error, io, sync::Arc};

/// Classifies the error of a request. Error replies to commands are not errors here; those to `SUBSCRIBE` are.
pub(crate) fn of_call(error: &RedisError) -> CallError {
    if let Some(words) = words_of_server(error) {
        return CallError::Refused(words);
    }
    match error.kind() {
        // redis-rs returned it before writing anything.
        ErrorKind::Client | ErrorKind::InvalidClientConfig | ErrorKind::RESP3NotSupported => {
            CallError::NotSent(error.to_string())
        }
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => CallError::Unreadable(error.to_string()),
        // The connection ended with this request in progress, or a later version added the error.
        _ => CallError::Lost(error.to_string()),
    }
}

/// Classifies the error of a login over an open stream.
pub(crate) fn of_dial(error: &RedisError) -> DialError {
    if let Some(words) = words_of_server(error) {
        return DialError::new(DialErrorKind::Refused, words);
    }
    match error.kind() {
        ErrorKind::Io => match of_system(error) {
            Some(error) => of_io(error),
            None => DialError::new(DialErrorKind::Closed, error.to_string()),
        },
        // redis-rs does not expose the server's message here, because some messages quote the password.
        ErrorKind::RESP3NotSupported => DialError::new(DialErrorKind::Refused, "ERR unknown command 'HELLO'"),
        ErrorKind::AuthenticationFailed => DialError::new(DialErrorKind::Refused, error.to_string()),
        ErrorKind::InvalidClientConfig => DialError::new(DialErrorKind::Settings, error.to_string()),
        _ => DialError::new(DialErrorKind::NotRedis, error.to_string()),
    }
}

/// Returns the system error, which redis-rs shares with its clones.
fn of_system(error: &RedisError) -> Option<&io::Error> {
    let shared: &Arc<dyn Error + Send + Sync> = error.source()?.downcast_ref()?;
    shared.downcast_ref()
}

/// Classifies the error of opening a stream, or a system error during its use.
pub(crate) fn of_io(error: &io::Error) -> DialError {
    let kind = match error.kind() {
        _ if let Some(kind) = of_tls(error) => kind,
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => DialErrorKind::NobodyListens,
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => DialErrorKind::Closed,
        io::ErrorKind::TimedOut => DialErrorKind::TimedOut,
        _ => DialErrorKind::Unreachable,
    };
    DialError::new(kind, error.to_string())
}

#[cfg(feature = "__tls")]
fn of_tls(error: &io::Error) -> Option<DialErrorKind> {
    use tokio_rustls::rustls::Error;
    Some(match error.get_ref()?.downcast_ref::<Error>()? {
        Error::InvalidCertificate(_) => DialErrorKind::Certificate,
        _ => DialErrorKind::Tls,
    })
}

#[cfg(not(feature = "__tls"))]
fn of_tls(_: &io::Error) -> Option<DialErrorKind> {
    None
}

/// Restores the server's message, which redis-rs splits.
fn words_of_server(error: &RedisError) -> Option<String> {
    let code = error.code()?;
    Some(match error.detail() {
        Some(detail) => format!("{code} {detail}"),
        None => code.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::ServerErrorKind;

    fn system(kind: io::ErrorKind) -> RedisError {
        io::Error::from(kind).into()
    }

    #[test]
    fn unsent_requests_are_certain() {
        for kind in [ErrorKind::Client, ErrorKind::InvalidClientConfig, ErrorKind::RESP3NotSupported] {
            assert!(matches!(of_call(&(kind, "empty command").into()), CallError::NotSent(_)), "{kind:?}");
        }
    }

    #[test]
    fn possibly_sent_requests_are_unknown() {
        for kind in [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset, io::ErrorKind::TimedOut] {
            assert!(matches!(of_call(&system(kind)), CallError::Lost(_)), "{kind:?}");
        }
        assert!(matches!(of_call(&(ErrorKind::Io, "broken pipe").into()), CallError::Lost(_)));
        assert!(matches!(
            of_call(&(ErrorKind::ClusterConnectionNotFound, "no node").into()),
            CallError::Lost(_)
        ));
    }

    #[test]
    fn refusals_keep_the_words_of_the_server() {
        let refused = |kind: ServerErrorKind, detail: &str| {
            of_call(&(ErrorKind::Server(kind), "a description", detail.to_owned()).into())
        };
        let denied = "this user has no permissions to access one of the channels";
        let expected = CallError::Refused(format!("NOPERM {denied}"));
        assert!(refused(ServerErrorKind::NoPerm, denied) == expected);
        let expected = CallError::Refused("ERR unknown command 'SUBSCRIBE'".to_owned());
        assert!(refused(ServerErrorKind::ResponseError, "unknown command 'SUBSCRIBE'") == expected);
    }

    #[test]
    fn failed_dial_has_a_reason() {
        for (kind, expected) in [
            (io::ErrorKind::ConnectionRefused, DialErrorKind::NobodyListens),
            (io::ErrorKind::NotFound, DialErrorKind::NobodyListens),
            (io::ErrorKind::BrokenPipe, DialErrorKind::Closed),
            (io::ErrorKind::ConnectionReset, DialErrorKind::Closed),
            (io::ErrorKind::NetworkUnreachable, DialErrorKind::Unreachable),
        ] {
            let error = of_dial(&system(kind));
            let message = io::Error::from(kind).to_string();
            assert!(error == DialError::new(expected, message), "{kind:?} is {error:?}");
        }
        let garbled = of_dial(&(ErrorKind::Parse, "no reply").into());
        assert!(garbled == DialError::new(DialErrorKind::NotRedis, "no reply - Parse"));
    }

    #[test]
    fn server_without_hello_is_named() {
        let error = of_dial(&(ErrorKind::RESP3NotSupported, "no HELLO").into());
        assert!(error == DialError::new(DialErrorKind::Refused, "ERR unknown command 'HELLO'"));
    }
}
