//! A command as it is sent: a name and its arguments, all of them strings.

use std::borrow::Cow;

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
