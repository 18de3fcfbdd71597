//! Compiler errors and their locations.

#![allow(clippy::unwrap_used)]

use crate::derive::lock_key;
use syn::{DeriveInput, parse_quote, parse_str};

/// Returns the error message for this input, and the text that it points to.
fn error(input: &str) -> (String, String) {
    let parsed: DeriveInput = parse_str(input).unwrap();
    let error = lock_key(&parsed, &parse_quote!(::lock_core)).map(|code| code.to_string()).unwrap_err();
    let span = error.span();
    assert_eq!((span.start().line, span.end().line), (1, 1));
    (error.to_string(), input.chars().take(span.end().column).skip(span.start().column).collect())
}

#[test]
fn unknown_field_is_reported_at_its_template() {
    let (says, at) = error(r#"#[lock_key("ok:{a}", "stock:{sku}")] struct Order { a: u64, b: u64 }"#);
    assert_eq!(says, "`Order` has no field `sku`: use `a` or `b`");
    assert_eq!(at, r#""stock:{sku}""#);
    let (says, at) = error(r#"#[lock_key("stock:{2}")] struct Order(u64, u64);"#);
    assert_eq!((says.as_str(), at.as_str()), ("`Order` has no field `2`: use `0` or `1`", r#""stock:{2}""#));
    assert_eq!(
        error(r#"#[lock_key("{a}")] struct Order;"#).0,
        "`Order` has no field `a`: the struct has no fields"
    );
}

#[test]
fn malformed_templates_are_rejected() {
    let cases = [
        ("stock:{sku", "the template contains an unmatched `{`: write `{{` for a literal brace"),
        ("stock:sku}", "the template contains an unmatched `}`: write `}}` for a literal brace"),
        ("stock:{a{b}}", "the template contains an unmatched `{`: write `{{` for a literal brace"),
        ("stock:{}", "`{}` is not a field: write `{name}`, `{0}` or `{name.inner}`"),
        ("stock:{a.}", "`{a.}` is not a field: write `{name}`, `{0}` or `{name.inner}`"),
        ("stock:{a.b c}", "`{a.b c}` is not a field: write `{name}`, `{0}` or `{name.inner}`"),
    ];
    for (template, says) in cases {
        let found = error(&format!(r#"#[lock_key("{template}")] struct Order {{ a: u64 }}"#));
        assert_eq!(found, (says.to_owned(), format!("\"{template}\"")));
    }
}

#[test]
fn missing_and_invalid_attributes_are_rejected() {
    let no_key = "`Order` has no key: add one, such as `#[lock_key(\"stock:{sku}\")]`";
    for input in ["struct Order { a: u64 }", "#[lock_key()] struct Order { a: u64 }"] {
        assert_eq!(error(input), (no_key.to_owned(), "Order".to_owned()));
    }
    let (says, at) = error("#[lock_key(stock)] struct Order { a: u64 }");
    assert_eq!(says, "not a key: write a template in quotes, or `crate = name`");
    assert_eq!(at, "stock");
    let (says, at) = error(r#"#[lock_key("a")] enum Order { A }"#);
    assert_eq!(says, "`LockKey` can only be derived for structs: implement it manually for this type");
    assert_eq!(at, "Order");
}

#[test]
fn attribute_can_specify_another_crate() {
    let input: DeriveInput = parse_quote!(
        #[lock_key("a", crate = my::locks)]
        struct Order;
    );
    let code = lock_key(&input, &parse_quote!(::lock_core)).unwrap().to_string();
    assert!(code.contains("my :: locks :: LockKey") && !code.contains("lock_core"), "{code}");
}
