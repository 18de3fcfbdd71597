//! The names that derived keys produce.

use super::{
    LockName, NameError,
    parts::{Joined, may_stand_in_a_part},
};
use std::fmt::Display;

/// A name under construction, made of fixed texts and percent-encoded fields.
#[derive(Debug, Default)]
pub struct TemplateName(Joined);

impl TemplateName {
    /// Adds a fixed text.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.0.push(text);
        self
    }

    /// Adds a field.
    ///
    /// # Errors
    /// [`NameError::EmptyPart`] if its text is empty, [`NameError::UnwrittenPart`] if its `Display` fails.
    pub fn field(mut self, field: &dyn Display) -> Result<Self, NameError> {
        self.0.value(field)?;
        Ok(self)
    }

    /// Checks the name.
    ///
    /// # Errors
    /// Same as [`LockName::new`].
    pub fn finish(self) -> Result<LockName, NameError> {
        LockName::new(self.0.finish()?)
    }
}

/// Returns `true` if a fixed text marks the end of the value before it.
#[must_use]
pub const fn separates(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        // No byte of a multi-byte character may stand in a part.
        if !may_stand_in_a_part(bytes[at] as char) {
            return true;
        }
        at += 1;
    }
    false
}
