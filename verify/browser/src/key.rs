//! The keys that a test presses.

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Tab: the focus moves on.
    Tab,
    /// Enter.
    Enter,
    /// The space bar.
    Space,
    /// Arrow down.
    Down,
    /// End.
    End,
    /// A character.
    Char(char),
}

impl Key {
    /// The code point that WebDriver gives to the key.
    pub(crate) fn value(self) -> char {
        match self {
            Self::Tab => '\u{e004}',
            Self::Enter => '\u{e007}',
            Self::Space => ' ',
            Self::Down => '\u{e015}',
            Self::End => '\u{e010}',
            Self::Char(character) => character,
        }
    }
}
