//! Names that are built from parts, and from the templates of derived keys. Each part is percent-encoded, so that
//! different parts never produce the same name.

use super::{LockName, NameError};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use std::fmt::{self, Display, Write};

/// All characters but the unreserved ones of RFC 3986. No encoded part contains a colon.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Percent-encodes a part of a name, in pieces.
pub fn escape(part: &[u8]) -> impl Iterator<Item = &str> {
    percent_encode(part, ESCAPED)
}

impl LockName {
    /// Builds a name from these parts, percent-encoded and joined with `:`.
    ///
    /// The parts are a tuple of 1 to 8 values that implement [`Display`]. All bytes except `A–Z a–z 0–9 - _ . ~` are
    /// encoded: `a:b` and `c` produce a different name from `a` and `b:c`. The path templates of lock-tower use the
    /// same encoding, so `("stock", sku)` and `"stock:{sku}"` are the same lock. Values with different text produce
    /// different names: `"7"` and `"07"`, upper and lower case, and the normalisation forms of Unicode.
    ///
    /// ```
    /// use lock_core::{LockName, NameError};
    ///
    /// let sku = "A 1"; // from a user
    /// assert_eq!(LockName::of(("stock", sku, 7))?.as_str(), "stock:A%201:7");
    /// assert_eq!(LockName::of(("stock", "")), Err(NameError::EmptyPart { part: 1 }));
    /// # Ok::<(), NameError>(())
    /// ```
    ///
    /// # Errors
    /// - [`NameError::EmptyPart`] if a part is empty;
    /// - [`NameError::TooLong`] if the name is longer than [`MAX_BYTES`](Self::MAX_BYTES); an encoded byte takes
    ///   three;
    /// - [`NameError::ReservedPrefix`] if the first part is `distlock` or begins with `redisson_`;
    /// - [`NameError::UnwrittenPart`] if the `Display` of a part returns an error.
    pub fn of(parts: impl NameParts) -> Result<Self, NameError> {
        parts.join(TemplateName::default())?.finish()
    }

    /// Returns this name with one more part, percent-encoded, after a `:`. Use it to build a name step by step, for
    /// example from a fixed name whose characters [`of`](Self::of) would encode.
    ///
    /// ```
    /// use lock_core::{LockName, NameError};
    ///
    /// const STOCK: LockName = LockName::from_static("{eu}:stock"); // with the hash tag of a cluster
    /// let name = STOCK.part("A 1")?.part(7)?;
    /// assert_eq!(name.as_str(), "{eu}:stock:A%201:7");
    /// # Ok::<(), NameError>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`of`](Self::of), but never [`NameError::ReservedPrefix`].
    pub fn part(&self, part: impl Display) -> Result<Self, NameError> {
        let name = TemplateName { text: self.as_str().to_owned(), bytes: self.as_str().len(), fields: 0 };
        // A valid name stays valid when encoded text is added.
        Ok(Self::shared(&name.part(&part)?.whole()?))
    }
}

/// The parts for [`LockName::of`]: a tuple of 1 to 8 values that implement [`Display`].
pub trait NameParts: sealed::Join {}

mod sealed {
    pub trait Join {
        /// Adds each part to the name.
        fn join(&self, name: super::TemplateName) -> Result<super::TemplateName, super::NameError>;
    }
}

/// A name under construction, made of fixed texts and percent-encoded fields.
#[derive(Debug, Default)]
pub struct TemplateName {
    /// The name, up to the maximum length.
    text: String,
    /// The length of the whole name.
    bytes: usize,
    fields: usize,
}

impl TemplateName {
    /// Adds a fixed text.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.push(text);
        self
    }

    /// Adds a field, percent-encoded.
    ///
    /// # Errors
    /// [`NameError::EmptyPart`] if its text is empty, [`NameError::UnwrittenPart`] if its `Display` fails.
    pub fn field(mut self, field: &dyn Display) -> Result<Self, NameError> {
        let part = self.fields;
        self.fields += 1;
        let before = self.bytes;
        write!(self, "{field}").map_err(|_| NameError::UnwrittenPart { part })?;
        match self.bytes == before {
            true => Err(NameError::EmptyPart { part }),
            false => Ok(self),
        }
    }

    /// Adds a field, after a `:` unless the name is empty.
    fn part(self, part: &dyn Display) -> Result<Self, NameError> {
        let begun = if self.bytes > 0 { self.text(":") } else { self };
        begun.field(part)
    }

    /// Checks the name.
    ///
    /// # Errors
    /// Same as [`LockName::new`].
    pub fn finish(self) -> Result<LockName, NameError> {
        LockName::new(self.whole()?)
    }

    /// Returns the text, unless it is too long.
    fn whole(self) -> Result<String, NameError> {
        match self.bytes {
            bytes if bytes > LockName::MAX_BYTES => Err(NameError::TooLong { bytes }),
            _ => Ok(self.text),
        }
    }

    /// Adds text. Text beyond the maximum length is counted but not stored.
    fn push(&mut self, text: &str) {
        self.bytes += text.len();
        if self.bytes <= LockName::MAX_BYTES {
            self.text.push_str(text);
        }
    }
}

/// Percent-encodes the text of a field.
impl Write for TemplateName {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        escape(text.as_bytes()).for_each(|piece| self.push(piece));
        Ok(())
    }
}

macro_rules! tuples {
    ($(($($part:ident),+))+) => {$(
        impl<$($part: Display),+> NameParts for ($($part,)+) {}

        impl<$($part: Display),+> sealed::Join for ($($part,)+) {
            #[allow(non_snake_case)]
            fn join(&self, name: TemplateName) -> Result<TemplateName, NameError> {
                let ($($part,)+) = self;
                $(let name = name.part($part)?;)+
                Ok(name)
            }
        }
    )+};
}

tuples! {
    (A)
    (A, B)
    (A, B, C)
    (A, B, C, D)
    (A, B, C, D, E)
    (A, B, C, D, E, F)
    (A, B, C, D, E, F, G)
    (A, B, C, D, E, F, G, H)
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

/// Returns whether an escaped part may contain this character.
const fn may_stand_in_a_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~' | '%')
}

#[cfg(test)]
mod tests {
    use super::{super::reserved, *};

    #[test]
    fn parts_are_encoded_and_joined() {
        let name = LockName::of(("stock", "Größe 1", 7, 'x', "a:b", 1.5, true, "-_.~%")).unwrap();
        assert_eq!(name.as_str(), "stock:Gr%C3%B6%C3%9Fe%201:7:x:a%3Ab:1.5:true:-_.~%25");
        assert_eq!(LockName::of(("a{}\n",)).unwrap().as_str(), "a%7B%7D%0A", "no text breaks a hash tag");
        let stepwise = LockName::of(("stock",)).unwrap().part("a:b").unwrap().part(7).unwrap();
        assert_eq!(stepwise, LockName::of(("stock", "a:b", 7)).unwrap());
        assert_ne!(LockName::of(("a:b", "c")), LockName::of(("a", "b:c")));
    }

    #[test]
    fn empty_long_reserved_and_unprintable_parts_are_refused() {
        struct Fails;
        impl Display for Fails {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                Err(fmt::Error)
            }
        }
        let name = LockName::from_static("a");
        assert_eq!(LockName::of(("", "b")), Err(NameError::EmptyPart { part: 0 }));
        assert_eq!(LockName::of(("a", "b", "")), Err(NameError::EmptyPart { part: 2 }));
        assert_eq!(name.part(""), Err(NameError::EmptyPart { part: 0 }));
        assert_eq!(LockName::of(("a", Fails)), Err(NameError::UnwrittenPart { part: 1 }));
        assert_eq!(
            LockName::of(("distlock", 1)),
            Err(NameError::ReservedPrefix { prefix: "distlock:" }),
            "a user cannot name a lock of another library"
        );
        assert!(LockName::of(("distlock",)).is_ok() && name.part("distlock").is_ok());

        let fits = ":".repeat(170);
        assert_eq!(LockName::of(("a", &fits)).unwrap().as_str().len(), 512);
        assert_eq!(LockName::of(("ab", &fits)), Err(NameError::TooLong { bytes: 513 }));
        assert_eq!(name.part(&fits).unwrap().part(1), Err(NameError::TooLong { bytes: 514 }));
        let endless = "x".repeat(1_000_000);
        assert_eq!(LockName::of((&endless, 1)), Err(NameError::TooLong { bytes: 1_000_002 }));
    }

    #[test]
    fn library_names_accept_parts() {
        let name = reserved("run").unwrap().part("a b").unwrap();
        assert_eq!(name.as_str(), "distlock:run:a%20b");
    }
}
