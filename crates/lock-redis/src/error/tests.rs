//! Error texts of servers and clients, and their classification.

use super::*;

fn meaning(error: &RequestError) -> (BackendErrorKind, Applied) {
    let error = BackendError::from(error.clone());
    (error.kind(), error.applied())
}

fn failed(what: &str, error: CallError) -> RequestError {
    Unanswered::Failed(error).during(what)
}

fn said(text: &str) -> (BackendErrorKind, Applied) {
    meaning(&failed("acquire", CallError::Refused(text.to_owned())))
}

#[test]
fn refused_requests_are_certain() {
    let no = |kind| (kind, Applied::No);
    for refused in [
        "READONLY You can't write against a read only replica.",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "LOADING Redis is loading the dataset in memory",
        "BUSY Redis is busy running a script.",
        "ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -OOM command not allowed",
        "@user_script: 14: -READONLY You can't write against a read only replica.",
        "NOSCRIPT No matching script. Please use EVAL.",
    ] {
        assert_eq!(said(refused), no(Kind::Unavailable), "{refused}");
    }
    assert_eq!(said("WRONGPASS invalid username-password pair"), no(Kind::Denied));
    assert_eq!(said("NOPERM this user has no permissions to run the 'evalsha' command"), no(Kind::Denied));
    let not_sent = failed("acquire", CallError::NotSent("Max buffer length exceeded".to_owned()));
    assert_eq!(meaning(&not_sent), no(Kind::Unavailable));
    assert_eq!(meaning(&refused_by_script("acquire", "WRONGTYPE x")), no(Kind::WrongType));
    assert_eq!(meaning(&not_connected("acquire", &"Connection refused; for 9 s")), no(Kind::Unavailable));
    assert_eq!(meaning(&runtime_ended("acquire")), no(Kind::Misconfigured));
}

#[test]
fn possibly_executed_requests_are_unknown() {
    let unknown = |kind| (kind, Applied::Unknown);
    let lost = failed("acquire", CallError::Lost("Connection reset".to_owned()));
    assert_eq!(meaning(&lost), unknown(Kind::Unavailable));
    let unreadable = failed("acquire", CallError::Unreadable("a map".to_owned()));
    assert_eq!(meaning(&unreadable), unknown(Kind::Protocol));
    assert_eq!(meaning(&Unanswered::ConnectionLost.during("acquire")), unknown(Kind::Unavailable));
    assert_eq!(meaning(&Unanswered::TimedOut.during("acquire")), unknown(Kind::Timeout));
    assert_eq!(meaning(&unexpected_reply("acquire")), unknown(Kind::Protocol));
    assert_eq!(said("ERR user_script:12: something"), unknown(Kind::Protocol));
    assert_eq!(said("CLUSTERDOWN Hash slot not served"), unknown(Kind::Unavailable));
    for denied in [
        "ERR The user executing the script can't run this command or subcommand script: 1f, on @user_script:3.",
        "ERR ACL failure in script: User locks has no permissions to run the 'hset' command script: 1f",
        "ERR ACL failure in script: No permissions to access a key",
        "ERR ACL failure in script: No permissions to access a channel",
        "ERR The user executing the script can't access at least one of the keys mentioned in the command",
    ] {
        let error = server_error("acquire", denied);
        assert_eq!(meaning(&error), unknown(Kind::Denied), "{denied}");
        let error = BackendError::from(error);
        assert!(error.to_string().contains("docs/protocol.md"), "{error}");
    }
}

/// The word must be the first in the server's text, because the name of a lock or a script can also
/// contain it.
#[test]
fn condition_is_read_from_the_first_word() {
    let conditions = |text: &str| {
        let error = server_error("acquire", text);
        (error.condition == Condition::UnknownScript, error.is_read_only(), error.is_cluster_down())
    };
    assert_eq!(conditions("NOSCRIPT No matching script. Please use EVAL."), (true, false, false));
    assert_eq!(conditions("READONLY You can't write against a read only replica."), (false, true, false));
    let placed = "@user_script: 14: -READONLY You can't write against a read only replica.";
    assert_eq!(conditions(placed), (false, true, false));
    assert_eq!(conditions("CLUSTERDOWN Hash slot not served"), (false, false, true));
    assert_eq!(conditions("NOPERM no permissions to access the key 'READONLY'"), (false, false, false));
}

/// Only the operations of a refused call may be sent again one by one.
#[test]
fn call_counts_as_refused_only_if_nothing_was_done() {
    let refused = |text: &str| Unanswered::Failed(CallError::Refused(text.to_owned())).is_refusal();
    assert!(refused("NOPERM No permissions to access a key"));
    assert!(refused("OOM command not allowed when used memory > 'maxmemory'."));
    assert!(!refused("ERR ACL failure in script: No permissions to access a key"));
    assert!(!refused("ERR Error running script: stack overflow"));
    for lost in [
        Unanswered::Failed(CallError::NotSent("no room".to_owned())),
        Unanswered::Failed(CallError::Lost("OOM".to_owned())),
        Unanswered::ConnectionLost,
        Unanswered::TimedOut,
    ] {
        assert!(!lost.is_refusal());
    }
}

fn dialled(tls: bool, kind: DialErrorKind, message: &str) -> BackendError {
    let server = Server::Tcp { host: "cache".to_owned(), port: 1 };
    connecting(&server, tls, &DialError::new(kind, message))
}

#[test]
fn failed_dial_has_a_reason_and_a_remedy() {
    use DialErrorKind::*;
    let nobody = dialled(false, NobodyListens, "Connection refused");
    assert_eq!(
        nobody.to_string(),
        "failed to connect to redis at cache:1: Connection refused (is a Redis server running there?)"
    );
    assert!(nobody.is_retryable());
    assert!(dialled(false, Closed, "Connection reset by peer").to_string().contains("write `rediss://`"));
    assert!(dialled(true, Closed, "Connection reset by peer").to_string().contains("write `redis://`"));
    let forged = dialled(true, Certificate, "InvalidCertificate(BadSignature)");
    assert_eq!(forged.kind(), Kind::Misconfigured);
    assert!(forged.to_string().contains(": InvalidCertificate(BadSignature); configure the authority"));
    let lesson = "NOAUTH HELLO must be called with the client already authenticated, otherwise …";
    assert_eq!(
        dialled(false, Refused, lesson).to_string(),
        "failed to connect to redis at cache:1: NOAUTH, the server requires a password; use the correct user and password"
    );
    let users = dialled(false, Refused, "ERR wrong number of arguments for 'auth' command").to_string();
    assert!(users.contains("too old to have users"), "{users}");
    let database = dialled(false, Refused, "ERR DB index is out of range");
    assert!(!database.is_retryable() && database.to_string().contains("use a database"), "{database}");
    let full = dialled(false, Refused, "ERR max number of clients reached");
    assert_eq!(full.kind(), Kind::Unavailable);
    assert!(full.to_string().contains("raise `maxclients`, or open fewer factories"), "{full}");
    let other = dialled(false, Refused, "ERR something new").to_string();
    assert!(other.contains("is this a Redis server?") && !other.contains("database"), "{other}");
    let lookup =
        dialled(true, Unreachable, "failed to lookup address information: Name or service not known");
    assert!(lookup.to_string().contains("check the host name"), "{lookup}");
    let silent = dialled(false, TimedOut, "no reply within 5s");
    assert_eq!((silent.kind(), silent.is_retryable()), (Kind::Timeout, true));
    assert!(silent.to_string().contains("running there?"), "{silent}");
}

/// In the forms in which the two clients print them.
#[test]
fn untrusted_certificates_have_a_remedy_each() {
    for (details, says) in [
        ("InvalidCertificate(Other(OtherError(CaUsedAsEndEntity)))", "marked as an authority (CA:TRUE)"),
        (
            "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))",
            "marked as an authority (CA:TRUE)",
        ),
        ("InvalidCertificate(ExpiredContext { time: UnixTime(9), not_after: UnixTime(1) })", "has expired"),
        ("invalid peer certificate: certificate expired: verification time 9 (UNIX)", "has expired"),
        ("invalid peer certificate: certificate not valid yet: verification time 1", "is not valid yet"),
        ("InvalidCertificate(NotValidForNameContext { expected: IpAddress(127.0.0.1) })", "another host"),
        ("invalid peer certificate: certificate not valid for name \"a\"", "another host"),
        (
            "InvalidCertificate(UnknownIssuer)",
            "configure the authority that signed the certificate (`?authority",
        ),
        ("InvalidCertificate(BadSignature)", "or use one issued for this host"),
    ] {
        let error = dialled(true, DialErrorKind::Certificate, details);
        assert_eq!(error.kind(), Kind::Misconfigured);
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// The texts for commands outside of scripts, in scripts since Redis 7.2, and before it.
#[test]
fn denied_keys_and_channels_name_the_patterns_to_grant() {
    for denied in [
        "NOPERM this user has no permissions to access one of the keys used as arguments",
        "NOPERM No permissions to access a key",
        "NOPERM this user has no permissions to access one of the channels used as arguments",
        "ERR ACL failure in script: No permissions to access a key",
        "ERR The user executing the script can't access at least one of the keys mentioned in the command",
    ] {
        let error = BackendError::from(server_error("acquire", denied)).to_string();
        for pattern in
            ["~distlock:*", "~redisson_lock_token:*", "&redisson_lock__channel:*", "docs/protocol.md"]
        {
            assert!(error.contains(pattern), "{error}");
        }
    }
    let command = "NOPERM this user has no permissions to run the 'evalsha' command";
    let error = BackendError::from(server_error("acquire", command)).to_string();
    assert!(!error.contains("redisson"), "{error}");
}

#[test]
fn unknown_command_is_named_without_its_arguments() {
    for unknown in [
        "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 'canary' ",
        "ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `canary`, ",
        "ERR unknown command 'HELLO'",
    ] {
        assert_eq!(
            dialled(false, DialErrorKind::Refused, unknown).to_string(),
            "failed to connect to redis at cache:1: unknown command HELLO (is the server older than 6.0, or a proxy?)"
        );
        let asked = BackendError::from(server_error("ping", unknown)).to_string();
        assert!(
            asked.starts_with("failed to ping on redis: unknown command HELLO (is the server"),
            "{asked}"
        );
    }
}

#[test]
fn characters_that_do_not_print_are_escaped() {
    let error = server_error("acquire", "ERR \u{1b}[31mred\u{202e} 'it' \"is\" a\\b\nsecond line");
    let text = BackendError::from(error).to_string();
    assert!(text.contains(r#"ERR \u{1b}[31mred\u{202e} 'it' "is" a\b"#), "{text}");
    assert!(!text.chars().any(char::is_control));
    let lost = Unanswered::Failed(CallError::Lost("reset \u{7}".to_owned())).during("acquire");
    assert!(!BackendError::from(lost).to_string().contains('\u{7}'));
}

#[test]
fn host_that_a_server_names_is_escaped() {
    // As a sentinel or a cluster node names it: `SENTINEL GET-MASTER-ADDR-BY-NAME`, `CLUSTER SLOTS`, `MOVED`.
    let host = "10.0.0.1\n2026-11-26T15:00:00Z INFO forged\x1b[2J".to_owned();
    let server = Server::Tcp { host, port: 6379 };
    let error =
        connecting(&server, false, &DialError::new(DialErrorKind::NobodyListens, "Connection refused"));
    assert!(!error.to_string().contains(char::is_control), "{:?}", error.to_string());
}

#[test]
fn host_of_a_redirection_is_escaped() {
    let moved = Redirection::read("MOVED 1 \x1b[2Jevil:6379").expect("it is one");
    let server = moved.server(&Server::Tcp { host: "a".into(), port: 1 }).expect("named");
    assert!(!server.to_string().contains(char::is_control), "{:?}", server.to_string());
}
