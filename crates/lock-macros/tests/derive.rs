//! Lock names of derived keys.

#![allow(clippy::unwrap_used)]

use lock_core::{LockKey, LockName, NameError};
use std::fmt::Display;

fn one(key: &impl LockKey) -> String {
    key.lock_names().unwrap().single().unwrap().to_string()
}

#[derive(LockKey)]
#[lock_key("stock:{house}:{sku}")]
struct Order<'a> {
    house: &'a str,
    sku: u64,
}

#[test]
fn derived_names_equal_names_built_from_parts() {
    for house in ["eu", "a:b", "A 1", "%3A", "{x}", "Größe", "\n"] {
        let order = Order { house, sku: 7 };
        assert_eq!(order.lock_names().unwrap(), LockName::of(("stock", house, 7)).unwrap().into());
    }
}

#[test]
fn empty_and_long_values_are_rejected() {
    let names = |house: &str| Order { house, sku: 7 }.lock_names().map(drop);
    assert_eq!(names(""), Err(NameError::EmptyPart { part: 0 }));
    assert_eq!(names(&"x".repeat(600)), Err(NameError::TooLong { bytes: 608 }));
    assert_eq!(names(&":".repeat(168)), Ok(()));
    assert_eq!(names(&":".repeat(169)), Err(NameError::TooLong { bytes: 515 }));
}

#[test]
fn all_kinds_of_fields_are_supported() {
    #[derive(LockKey)]
    #[lock_key("{{eu}}:tuple:{0}/{1.sku}")]
    struct Tuple<T>(T, Order<'static>);
    assert_eq!(one(&Tuple('x', Order { house: "eu", sku: 7 })), "{eu}:tuple:x/7");

    #[derive(LockKey)]
    #[lock_key("{type}:{pair.1}")]
    struct Raw {
        r#type: &'static str,
        pair: (u8, u8),
    }
    let raw = Raw { r#type: "a b", pair: (1, 2) };
    assert_eq!((one(&raw), raw.pair.0), ("a%20b:2".to_owned(), 1));

    #[derive(LockKey)]
    #[lock_key("report")]
    struct Unit;
    assert_eq!(one(&&Unit), "report");
}

#[test]
fn reserved_names_in_values_are_rejected() {
    #[derive(LockKey)]
    #[lock_key("{kind}:{id}")]
    struct Any {
        kind: String,
        id: u64,
    }
    let any = Any { kind: "distlock".to_owned(), id: 1 };
    assert_eq!(any.lock_names().unwrap_err(), NameError::ReservedPrefix { prefix: "distlock:" });
}

#[test]
fn several_templates_produce_several_names() {
    #[derive(LockKey)]
    #[lock_key("account:{from}", "account:{to}")]
    #[lock_key("bank")]
    struct Transfer<T: Display, const N: usize> {
        from: T,
        to: T,
    }
    let names = |from, to| Transfer::<u64, 3> { from, to }.lock_names().unwrap();
    assert_eq!(names(2, 1).as_slice(), ["account:1", "account:2", "bank"].map(LockName::from_static));
    assert_eq!(names(1, 1).as_slice(), ["account:1", "bank"].map(LockName::from_static));
    assert_eq!(names(1, 1).single(), None);
}

#[test]
fn facade_and_renamed_crates_are_supported() {
    mod facade {
        #[derive(distlock::LockKey)]
        #[lock_key("stock:{0}")]
        pub(super) struct Order(pub(super) u64);
    }
    mod renamed {
        use lock_core as locks;
        #[derive(lock_core::LockKey)]
        #[lock_key("stock:{0}", crate = locks)]
        pub(super) struct Order(pub(super) u64);
    }
    assert_eq!(
        (one(&facade::Order(7)), one(&renamed::Order(7))),
        ("stock:7".to_owned(), "stock:7".to_owned())
    );
}

#[test]
fn templates_can_come_from_a_macro() {
    macro_rules! keyed {
        ($name:ident, $template:literal) => {
            #[derive(LockKey)]
            #[lock_key($template)]
            struct $name {
                sku: u64,
            }
        };
        ($name:ident) => {
            keyed!($name, "stock:{sku}");
        };
    }
    keyed!(Given, "given:{sku}");
    keyed!(Default);
    assert_eq!(
        (one(&Given { sku: 7 }), one(&Default { sku: 7 })),
        ("given:7".to_owned(), "stock:7".to_owned())
    );
}
