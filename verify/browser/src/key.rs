//! The keys that a test can press.

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Tab, which moves the focus.
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
    /// Returns the code point that WebDriver assigns to the key.
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
