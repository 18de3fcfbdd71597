//! The parser of templates such as `"stock:{sku}"`. It runs once, when the layer is built.

use super::{error::InvalidKey, piece::Piece, source::is_path_parameter};
use lock_core::__private::separates;

pub(super) fn pieces(template: &str) -> Result<Vec<Piece>, InvalidKey> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = template.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        match c {
            '{' | '}' if rest.next_if(|(_, next)| *next == c).is_some() => literal.push(c),
            '}' => return Err(InvalidKey::UnmatchedBrace { at }),
            '{' => {
                let name: String = std::iter::from_fn(|| rest.next_if(|(_, c)| !"{}".contains(*c)))
                    .map(|(_, c)| c)
                    .collect();
                if rest.next_if(|(_, c)| *c == '}').is_none() {
                    return Err(InvalidKey::UnmatchedBrace { at });
                }
                if !is_path_parameter(&name) {
                    return Err(InvalidKey::BadPlaceholder { at });
                }
                if pieces.iter().any(is_value) && !separates(&literal) {
                    return Err(InvalidKey::NoSeparator { at });
                }
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                pieces.push(value(name)?);
            }
            c => literal.push(c),
        }
    }
    pieces.push(Piece::Literal(literal));
    Ok(pieces)
}

fn is_value(piece: &Piece) -> bool {
    piece.literal().is_none()
}

#[cfg(feature = "axum")]
fn value(name: String) -> Result<Piece, InvalidKey> {
    Ok(Piece::Value(super::source::Source::path(name)?, None))
}

#[cfg(not(feature = "axum"))]
fn value(_: String) -> Result<Piece, InvalidKey> {
    Err(InvalidKey::NeedsAxum)
}
