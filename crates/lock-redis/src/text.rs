//! Text from a server in messages.

/// Escapes the characters that do not print: a server must not control the terminal that shows its errors.
pub(crate) fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut printed, c| {
        match c {
            '\\' | '"' | '\'' => printed.push(c),
            c => printed.extend(c.escape_debug()),
        }
        printed
    })
}
