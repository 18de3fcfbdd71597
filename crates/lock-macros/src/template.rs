//! A template such as `"stock:{sku}"`, split into its pieces.

use syn::{Error, LitStr, Member, Result};

pub(crate) enum Piece {
    Text(String),
    /// A field and its nested fields.
    Field(String, Vec<Member>),
}

/// Splits a template. Text and fields alternate; text may be empty.
pub(crate) fn pieces(template: &LitStr) -> Result<Vec<Piece>> {
    let fail = |say: String| Err(Error::new(template.span(), say));
    let value = template.value();
    let (mut pieces, mut text) = (Vec::new(), String::new());
    let mut rest = value.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '{' | '}' if rest.next_if_eq(&c).is_some() => text.push(c),
            '}' => {
                return fail(
                    "the template contains an unmatched `}`: write `}}` for a literal brace".to_owned(),
                );
            }
            '{' => {
                let field: String = std::iter::from_fn(|| rest.next_if(|c| !"{}".contains(*c))).collect();
                if rest.next_if_eq(&'}').is_none() {
                    return fail(
                        "the template contains an unmatched `{`: write `{{` for a literal brace".to_owned(),
                    );
                }
                let mut path = field.split('.');
                let first = path.next().unwrap_or_default().to_owned();
                let inner: Result<Vec<Member>> = path.map(syn::parse_str).collect();
                let (false, Ok(inner)) = (first.is_empty(), inner) else {
                    return fail(format!(
                        "`{{{field}}}` is not a field: write `{{name}}`, `{{0}}` or `{{name.inner}}`"
                    ));
                };
                pieces.extend([Piece::Text(std::mem::take(&mut text)), Piece::Field(first, inner)]);
            }
            c => text.push(c),
        }
    }
    pieces.push(Piece::Text(text));
    Ok(pieces)
}
