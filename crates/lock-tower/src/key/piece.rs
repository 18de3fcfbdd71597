//! A piece of a name: a fixed text, or a value that is read from the request.

use super::source::{Canonical, Source};

#[derive(Clone)]
pub(super) enum Piece {
    Literal(String),
    /// A value; with a type, it is parsed.
    Value(Source, Option<Canonical>),
}

impl Piece {
    pub(super) fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Value(..) => None,
        }
    }
}
