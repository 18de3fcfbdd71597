//! A command as it is sent: a name and its arguments, all of them strings.

use std::{borrow::Cow, time::Duration};

/// A command for [`Connection::call`](super::Connection::call).
///
/// Owned, since the clients keep their requests; the texts that are the same every time are not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    name: &'static str,
    arguments: Vec<Cow<'static, str>>,
}

impl Command {
    pub(crate) fn new(name: &'static str, arguments: Vec<Cow<'static, str>>) -> Self {
        Self { name, arguments }
    }

    pub(crate) fn ping() -> Self {
        Self::new("PING", Vec::new())
    }

    pub(crate) fn asking() -> Self {
        Self::new("ASKING", Vec::new())
    }

    pub(crate) fn cluster_slots() -> Self {
        Self::new("CLUSTER", vec!["SLOTS".into()])
    }

    /// Waits until so many replicas have what was written before, but no longer than this.
    pub(crate) fn wait(replicas: u32, within: Duration) -> Self {
        // Zero would be for ever.
        let millis = within.as_millis().max(1);
        Self::new("WAIT", vec![replicas.to_string().into(), millis.to_string().into()])
    }

    pub(crate) fn config(pattern: &'static str) -> Self {
        Self::new("CONFIG", vec!["GET".into(), pattern.into()])
    }

    pub(crate) fn info() -> Self {
        Self::new("INFO", Vec::new())
    }

    /// One word, such as `EVALSHA`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The words after the name.
    #[must_use]
    pub fn arguments(&self) -> &[Cow<'static, str>] {
        &self.arguments
    }

    /// The arguments, to be sent without copying them.
    #[must_use]
    pub fn into_arguments(self) -> Vec<Cow<'static, str>> {
        self.arguments
    }
}
