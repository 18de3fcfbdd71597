//! A piece of a name: fixed text, or a value read from the request.

use super::source::{Canonical, Source};

#[derive(Clone)]
pub(super) enum Piece {
    Literal(String),
    /// A value, parsed if it has a type.
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
