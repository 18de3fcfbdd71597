//! The lock name of a request, built from its path, headers or query, or by a function.

mod body;
mod error;
mod escape;
mod function;
mod parse;
mod parts;
mod piece;
mod rule;
mod source;
mod template;

#[cfg(test)]
mod tests;

pub use body::BodyKey;
pub use error::{InvalidKey, KeyError, KeyErrorKind};
pub use parts::KeyParts;
pub use template::KeyTemplate;

pub(crate) use template::Read;
