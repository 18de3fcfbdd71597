//! URLs with the servers of a cluster.

use lock_core::LockError;
use percent_encoding::percent_decode_str;
use std::{ops::RangeInclusive, time::Duration};

/// A URL like `scheme://user:password@host1:port,host2,[::1]/path?key=value`.
#[derive(Debug)]
pub struct ServersUrl {
    /// The scheme ends with an additional `s`.
    pub has_tls: bool,
    /// Each server as `host:port`.
    pub hosts: Vec<String>,
    /// The user and the password.
    pub login: Option<(String, String)>,
    /// The path without slashes at its ends.
    pub path: String,
    parameters: Vec<(String, String)>,
}

impl ServersUrl {
    /// Parses a URL of this scheme, or of it with an `s` for TLS. `port` is that of servers without one.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) with the remedy. It repeats no part of the URL.
    pub fn parse(url: &str, scheme: &str, port: u16) -> Result<Self, LockError> {
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let (given, rest) = address.split_once("://").unwrap_or_default();
        let has_tls = given.eq_ignore_ascii_case(&format!("{scheme}s"));
        let (rest, path) = match rest.rsplit_once('@') {
            // A password may contain a slash.
            Some((login, hosts)) => {
                let (hosts, path) = hosts.split_once('/').unwrap_or((hosts, ""));
                (&rest[..login.len() + 1 + hosts.len()], path)
            }
            None => rest.split_once('/').unwrap_or((rest, "")),
        };
        let (login, hosts) = match rest.rsplit_once('@') {
            Some((login, hosts)) => (Some(parse_login(login)?), hosts),
            None => (None, rest),
        };
        let hosts: Option<Vec<String>> = hosts.split(',').map(|host| parse_host(host, port)).collect();
        let Some(hosts) = hosts.filter(|_| has_tls || given.eq_ignore_ascii_case(scheme)) else {
            return Err(LockError::invalid_url(format!(
                "write it as `{scheme}://user:password@host1:{port},host2,host3`, with `%` escapes in the password"
            )));
        };
        let parameters = query.split('&').filter(|parameter| !parameter.is_empty()).map(|parameter| {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            Ok((key.to_owned(), decoded(value)?))
        });
        let path = decoded(path.trim_matches('/'))?;
        Ok(Self { has_tls, hosts, login, path, parameters: parameters.collect::<Result<_, LockError>>()? })
    }

    /// Takes the value of a parameter that is not empty.
    pub fn take(&mut self, key: &str) -> Option<String> {
        let at = self.parameters.iter().position(|(given, value)| given == key && !value.is_empty())?;
        Some(self.parameters.swap_remove(at).1)
    }

    /// Takes the parameter `session`, a number of seconds.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) if it is not in the range.
    pub fn take_session(
        &mut self,
        range: RangeInclusive<u64>,
        default: Duration,
    ) -> Result<Duration, LockError> {
        let Some(value) = self.take("session") else { return Ok(default) };
        let seconds = value.strip_suffix('s').unwrap_or(&value).parse().ok();
        seconds.filter(|seconds| range.contains(seconds)).map(Duration::from_secs).ok_or_else(|| {
            let (least, most) = range.into_inner();
            LockError::invalid_url(format!(
                "`session` is a number of seconds from {least} to {most}, such as `10s`"
            ))
        })
    }

    /// Refuses the parameters that were not taken. `known` names the others.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) without their names: a mistyped one may be a
    /// password.
    pub fn finish(&self, known: &str) -> Result<(), LockError> {
        if self.parameters.is_empty() {
            return Ok(());
        }
        let has_password =
            self.parameters.iter().any(|(key, value)| key.contains('@') || value.contains('@'));
        let hint = if has_password { "; in a password, write `?` as `%3F`" } else { "" };
        Err(LockError::invalid_url(format!("the parameters are {known}: correct or remove the others{hint}")))
    }
}

fn parse_login(login: &str) -> Result<(String, String), LockError> {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    Ok((decoded(user)?, decoded(password)?))
}

fn decoded(text: &str) -> Result<String, LockError> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| LockError::invalid_url("an escape is not UTF-8: correct it"))
}

/// Parses `host`, `host:port` or `[address]:port`.
fn parse_host(host: &str, port: u16) -> Option<String> {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port.parse().ok()?),
        _ => (host, port),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_address = |c: char| c.is_ascii_hexdigit() || ":.".contains(c);
    let is_valid = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => !address.is_empty() && address.chars().all(is_address),
        None => !name.is_empty() && name.chars().all(is_name),
    };
    is_valid.then(|| format!("{name}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<ServersUrl, LockError> {
        let mut parsed = ServersUrl::parse(url, "etcd", 2379)?;
        parsed.take("ca");
        parsed.take_session(5..=60, Duration::from_secs(30))?;
        parsed.finish("`session` and `ca`").map(|()| parsed)
    }

    #[test]
    fn parts_are_read() {
        let url = "ETCDS://u:p%40/@h1,[::1]:9,h3:7/a%2Fb/?session=10s&ca=%2Fc";
        let mut parsed = ServersUrl::parse(url, "etcd", 2379).unwrap();
        assert!(parsed.has_tls);
        assert_eq!(parsed.hosts, ["h1:2379", "[::1]:9", "h3:7"]);
        assert_eq!(parsed.login, Some(("u".to_owned(), "p@/".to_owned())));
        assert_eq!((parsed.take("ca").as_deref(), parsed.path.as_str()), (Some("/c"), "a/b"));
        let session = parsed.take_session(5..=60, Duration::from_secs(30)).unwrap();
        assert_eq!(session, Duration::from_secs(10));
        let plain = parse("etcd://localhost").unwrap();
        assert_eq!(
            (plain.hosts, plain.has_tls, plain.path),
            (vec!["localhost:2379".to_owned()], false, String::new())
        );
    }

    #[test]
    fn unusable_urls_have_a_remedy_and_show_no_password() {
        for (url, remedy) in [
            ("etcd://u:secret@h:port", "write it as"),
            ("etcd://u:secret@h1,,h2", "write it as"),
            ("redis://u:secret@h", "write it as"),
            ("etcd://u:secret@h?session=1s", "from 5 to 60"),
            ("etcd://u:secret@h?pasword=secret", "correct or remove"),
            ("etcd://u:secret@h?ca=", "correct or remove"),
            ("etcd://u:1?secret@h", "as `%3F`"),
            ("etcd://u:%ffsecret@h", "UTF-8"),
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains(remedy) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
