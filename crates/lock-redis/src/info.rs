//! The reply to `INFO`.

use std::collections::HashMap;

/// The `name:value` lines of the reply.
pub(crate) struct Info<'a>(HashMap<&'a str, &'a str>);

impl<'a> Info<'a> {
    pub(crate) fn read(text: &'a str) -> Self {
        Self(text.lines().filter_map(|line| line.trim_end().split_once(':')).collect())
    }

    /// Returns the value of a line, or an empty string if there is no such line.
    pub(crate) fn get(&self, name: &str) -> &'a str {
        self.0.get(name).copied().unwrap_or_default()
    }
}
