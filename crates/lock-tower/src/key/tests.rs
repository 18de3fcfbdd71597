use super::*;
use http::{Request, request::Parts};
use lock_core::{LockName, NameError};
use std::net::Ipv6Addr;

fn head(request: http::request::Builder) -> Parts {
    request.body(()).unwrap().into_parts().0
}

fn read(
    key: impl TryInto<KeyTemplate, Error = InvalidKey>,
    request: http::request::Builder,
) -> Result<String, KeyError> {
    filled(&key.try_into().unwrap(), request)
}

fn filled(key: &KeyTemplate, request: http::request::Builder) -> Result<String, KeyError> {
    match key.read(&mut head(request)) {
        Read::Now(names) => names.map(|names| names.as_slice()[0].as_str().to_owned()),
        Read::Later(_) => panic!("the key needs no lookup"),
    }
}

#[test]
fn separators_in_values_are_escaped() {
    let key = || KeyTemplate::of("k").header("a").header("b");
    let one = read(key(), Request::get("/").header("a", "a:b").header("b", "c")).unwrap();
    let two = read(key(), Request::get("/").header("a", "a").header("b", "b:c")).unwrap();
    assert_eq!((one.as_str(), two.as_str()), ("k:a%3Ab:c", "k:a:b%3Ac"));
    let percent = read(key(), Request::get("/").header("a", "a%3Ab").header("b", "c")).unwrap();
    assert_eq!(percent, "k:a%253Ab:c");
}

#[test]
fn values_are_escaped() {
    let key = || KeyTemplate::of("k").query("q");
    assert_eq!(read(key(), Request::get("/?q=%7Bx%0A")).unwrap(), "k:%7Bx%0A");
    assert_eq!(read(key(), Request::get("/?q=Gr%C3%B6%C3%9Fe+1")).unwrap(), "k:Gr%C3%B6%C3%9Fe%201");
    assert_eq!(read(key(), Request::get("/?q=a-b_c.d~e")).unwrap(), "k:a-b_c.d~e");
    let raw = Request::get("/").header("h", http::HeaderValue::from_bytes(b"\xff\xfe").unwrap());
    assert_eq!(read(KeyTemplate::of("k").header("h"), raw).unwrap(), "k:%FF%FE");
}

#[test]
fn functions_can_escape_values() {
    let key = KeyTemplate::from_fn(|request| {
        let part = |name| request.headers.get(name).map(|value| KeyTemplate::escape(value.as_bytes()));
        Ok(format!("k:{}:{}", part("a").unwrap_or_default(), part("b").unwrap_or_default()))
    });
    let request = || Request::get("/").header("a", "a:b").header("b", "c%\u{e4}");
    assert_eq!(filled(&key, request()), read(KeyTemplate::of("k").header("a").header("b"), request()));
    assert_eq!(KeyTemplate::escape("a:b c%ä-_.~"), "a%3Ab%20c%25%C3%A4-_.~");
}

#[test]
fn missing_empty_repeated_and_long_values_are_400() {
    let long = "x".repeat(600);
    let wide = ":".repeat(200);
    let cases = [
        (Request::get("/"), "the query parameter `q` is missing"),
        (Request::get("/?q="), "the query parameter `q` is empty"),
        (Request::get("/?q=1&q=2"), "the query parameter `q` is present more than once"),
        (Request::get("/?q=%FF"), "the query parameter `q` is not UTF-8"),
        (Request::get("/?q=a%FEb"), "the query parameter `q` is not UTF-8"),
        (Request::get(format!("/?q={long}")), "the query parameter `q` is too long"),
        (Request::get(format!("/?q={wide}")), "the key is too long"),
    ];
    for (request, says) in cases {
        let error = read(KeyTemplate::of("k").query("q"), request).unwrap_err();
        let missing = says.ends_with("missing");
        assert_eq!(error, if missing { KeyError::missing(says) } else { KeyError::bad_request(says) });
    }
    let twice = Request::get("/").header("h", "1").header("h", "2");
    assert_eq!(
        read(KeyTemplate::of("k").header("h"), twice).unwrap_err().detail(),
        "the header `h` is present more than once"
    );
}

#[test]
fn function_results_are_validated_as_names() {
    let cases = [
        ("", "the key is empty"),
        ("a\nb", "the key contains characters that are not allowed"),
        ("distlock:a", "the key begins with a reserved prefix"),
    ];
    for (name, says) in cases {
        let key = KeyTemplate::from_fn(move |_| Ok(name.to_owned()));
        let error = filled(&key, Request::get("/")).unwrap_err();
        assert_eq!(error, KeyError::bad_request(says));
    }
}

#[test]
fn typed_headers_and_queries_are_parsed_and_escaped() {
    let key = || KeyTemplate::of("k").header_as::<Ipv6Addr>("h").query_as::<u8>("q");
    let at = |uri: &str, header: &'static str| read(key(), Request::get(uri).header("h", header));
    for (uri, header) in [("/?q=7", "::1"), ("/?q=007", "0:0::1"), ("/?q=%2B7", "::0001")] {
        assert_eq!(at(uri, header).unwrap(), "k:%3A%3A1:7", "`{uri}`, `{header}`");
    }
    assert_eq!(
        at("/?q=256", "::1").unwrap_err(),
        KeyError::bad_request("the query parameter `q` is malformed")
    );
    assert_eq!(at("/?q=7", "1").unwrap_err(), KeyError::bad_request("the header `h` is malformed"));
    assert!(matches!(at("/", "::1"), Err(KeyError::Missing(_))));
}

#[test]
fn invalid_templates_are_rejected_with_a_remedy() {
    let cases = [
        ("stock:{sku", "unmatched brace at byte 6"),
        ("stock:sku}", "unmatched brace at byte 9"),
        ("stock:{}", "use the parameter's name in the route"),
        ("stock:{*rest}", "without `*`"),
        ("", "are not a valid lock name"),
        ("distlock:{a}", "are not a valid lock name"),
        ("a\n{b}", "are not a valid lock name"),
    ];
    for (template, says) in cases {
        let error = KeyTemplate::try_from(template).unwrap_err().to_string();
        // Without the feature, path parameters are rejected first.
        assert!(error.contains(says) || cfg!(not(feature = "axum")), "`{template}`: {error}");
    }
    let error = KeyTemplate::try_from(KeyTemplate::of("k").header("not a header")).unwrap_err().to_string();
    assert!(error.contains("`not a header` is not a valid header name"), "{error}");
}

#[test]
fn empty_and_long_keys_are_rejected() {
    let refused = |key: KeyParts| KeyTemplate::try_from(key).map(drop).unwrap_err();
    let empty = InvalidKey::Name(NameError::Empty);
    for key in [KeyTemplate::of(""), KeyTemplate::of("").header("h"), KeyTemplate::template("").query("q")] {
        assert_eq!(refused(key), empty);
    }
    let long = "x".repeat(LockName::MAX_BYTES + 1);
    for key in
        [KeyTemplate::of(&*long), KeyTemplate::template(&long), KeyTemplate::of(&long[1..]).header("h")]
    {
        assert!(matches!(refused(key), InvalidKey::Name(NameError::TooLong { .. })));
    }
    assert_eq!(
        format!("{empty:#}"),
        format!("{empty}: {}", NameError::Empty),
        "the cause contains the remedy"
    );
}

#[test]
fn nameless_query_parameters_are_rejected() {
    for key in [KeyTemplate::of("k").query(""), KeyTemplate::of("k").query_as::<u64>("")] {
        assert_eq!(KeyTemplate::try_from(key).map(drop), Err(InvalidKey::QueryParameter));
    }
}

#[cfg(feature = "axum")]
#[test]
fn invalid_path_parameters_are_rejected() {
    for name in ["", " ", "*rest", "{sku}", "a/b"] {
        for key in [KeyTemplate::of("k").path(name), KeyTemplate::of("k").path_as::<u64>(name)] {
            let error = KeyTemplate::try_from(key).map(drop).unwrap_err();
            assert_eq!(error, InvalidKey::PathParameter { name: name.to_owned() });
            assert!(error.to_string().contains("use the bare name from the route"), "{error}");
        }
    }
    let error = KeyTemplate::try_from("k:{a/b}").map(drop).unwrap_err();
    assert_eq!(error, InvalidKey::BadPlaceholder { at: 2 });
}

#[cfg(feature = "axum")]
#[test]
fn ambiguous_templates_are_rejected() {
    for template in ["{a}{b}", "{a}-{b}", "{a}x{b}", "{a}%{b}"] {
        let error = KeyTemplate::try_from(template).unwrap_err();
        assert!(matches!(error, InvalidKey::NoSeparator { .. }), "`{template}`: {error}");
    }
    for template in ["{a}:{b}", "{a}-/-{b}", "x{a}", "{{eu}}:{a}", "{a}ü{b}"] {
        assert!(KeyTemplate::try_from(template).is_ok(), "`{template}`");
    }
}

#[cfg(feature = "axum")]
#[test]
fn types_need_a_template_parameter() {
    let key = |name| KeyTemplate::template("stock:{house}:{sku}").typed::<u64>(name).header("x");
    assert!(KeyTemplate::try_from(key("sku")).is_ok());
    let error = KeyTemplate::try_from(key("id")).unwrap_err();
    assert_eq!(error, InvalidKey::UnknownParameter { name: "id".to_owned() });
    let error = KeyTemplate::try_from(KeyTemplate::template("stock:{sku").typed::<u64>("sku")).unwrap_err();
    assert!(matches!(error, InvalidKey::UnmatchedBrace { .. }), "{error}");
}

#[cfg(not(feature = "axum"))]
#[test]
fn path_parameters_require_the_axum_feature() {
    assert_eq!(KeyTemplate::try_from("stock:{sku}").unwrap_err(), InvalidKey::NeedsAxum);
}

#[test]
fn debug_omits_values() {
    let key = KeyTemplate::try_from(KeyTemplate::of("k").header("h").query("q")).unwrap();
    assert_eq!(format!("{key:?}"), "KeyTemplate(k:{header `h`}:{query parameter `q`})");
}
