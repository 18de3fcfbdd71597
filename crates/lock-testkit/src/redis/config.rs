//! A server's `redis.conf`.

use super::RedisSentinels;
use crate::ClockShift;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// The testkit's own user. It has all permissions, regardless of the default user's.
pub(super) const OWN_USER: &str = "testkit";

/// The name of the socket in the server's directory.
pub(super) const SOCKET: &str = "redis.sock";

/// The name of the dump in the server's directory.
pub(super) const DUMP: &str = "dump.rdb";

/// The PEM files that a server needs for TLS.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// The certificate authority for the server's certificate.
    pub authority: PathBuf,
    /// The certificate authority for client certificates. If set, every client must present one.
    pub client_authority: Option<PathBuf>,
}

/// A server's ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) plain: u16,
    pub(super) tls: Option<u16>,
}

/// A server's settings.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    pub(super) port: Option<u16>,
    pub(super) master: Option<u16>,
    /// The port of the monitored master, for a sentinel.
    pub(super) watched: Option<u16>,
    pub(super) unix_socket: bool,
    pub(super) persistent: bool,
    pub(super) tls: Option<TlsFiles>,
    pub(super) clock: Option<ClockShift>,
    own: String,
}

impl Settings {
    pub(super) fn directive(&mut self, directive: &str, value: &str) {
        set(&mut self.own, directive, value);
    }

    pub(super) fn line(&mut self, line: &str) {
        self.own.push_str(line);
        self.own.push('\n');
    }

    /// Returns the whole file. The test's own lines come last, because later directives override
    /// earlier ones.
    pub(super) fn text(&self, ports: Ports, directory: &Path) -> String {
        if let Some(master) = self.watched {
            return sentinel(master, self.tls.as_ref(), ports, directory) + &self.own;
        }
        let mut text = String::new();
        let mut say = |directive, value: &str| set(&mut text, directive, value);
        say("bind", "127.0.0.1");
        say("port", &ports.plain.to_string());
        say("dir", &words(directory));
        say("dbfilename", DUMP);
        say("appendonly", "no");
        // No timed dumps. With them, the data would depend on the duration of the test.
        say("save", if self.persistent { "86400 1" } else { "" });
        // By default, a master waits 5 seconds for more replicas.
        say("repl-diskless-sync-delay", "0");
        if self.unix_socket {
            say("unixsocket", &words(&directory.join(SOCKET)));
            say("unixsocketperm", "700");
        }
        if self.master.is_some() {
            say("masteruser", OWN_USER);
            say("masterauth", OWN_USER);
        }
        if let (Some(files), Some(port)) = (&self.tls, ports.tls) {
            secure(&mut text, files, port);
        }
        if let Some(master) = self.master {
            let _ = writeln!(text, "replicaof 127.0.0.1 {master}");
        }
        let _ = writeln!(text, "user {OWN_USER} on nopass ~* &* +@all");
        text + &self.own
    }
}

/// Returns a sentinel's file. The sentinel fails over after a second of silence, and can do so
/// again soon.
fn sentinel(master: u16, tls: Option<&TlsFiles>, ports: Ports, directory: &Path) -> String {
    let (name, user, directory) = (RedisSentinels::MASTER, OWN_USER, quoted(&words(directory)));
    let mut text = format!("bind 127.0.0.1\nport {}\ndir {directory}\n", ports.plain);
    if let (Some(files), Some(port)) = (tls, ports.tls) {
        secure(&mut text, files, port);
    }
    let _ = write!(
        text,
        "user {user} on nopass ~* &* +@all\n\
         sentinel monitor {name} 127.0.0.1 {master} 2\n\
         sentinel auth-user {name} {user}\n\
         sentinel auth-pass {name} {user}\n\
         sentinel sentinel-user {user}\n\
         sentinel sentinel-pass {user}\n\
         sentinel down-after-milliseconds {name} 1000\n\
         sentinel failover-timeout {name} 2000\n\
         sentinel parallel-syncs {name} 2\n"
    );
    text
}

/// Enables TLS. Traffic between servers is encrypted too, and servers announce their TLS ports.
fn secure(text: &mut String, files: &TlsFiles, port: u16) {
    let mut say = |directive, value: &str| set(text, directive, value);
    say("tls-port", &port.to_string());
    say("tls-cert-file", &words(&files.certificate));
    say("tls-key-file", &words(&files.key));
    say("tls-ca-cert-file", &words(files.client_authority.as_ref().unwrap_or(&files.authority)));
    say("tls-auth-clients", if files.client_authority.is_some() { "yes" } else { "no" });
    say("tls-replication", "yes");
}

/// Writes one directive with one value.
fn set(text: &mut String, directive: &str, value: &str) {
    let _ = writeln!(text, "{directive} {}", quoted(value));
}

/// Quotes a word so the server reads the same bytes.
fn quoted(value: &str) -> String {
    let mut text = String::from("\"");
    for byte in value.bytes() {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text + "\""
}

fn words(path: &Path) -> String {
    path.to_str().expect("the path is UTF-8").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_in_a_value_stays_in_its_line() {
        assert_eq!(quoted(""), r#""""#);
        assert_eq!(quoted("a b"), r#""a b""#);
        assert_eq!(quoted("\"\\"), r#""\"\\""#);
        assert_eq!(quoted("ä\n"), r#""\xc3\xa4\x0a""#);
    }
}
