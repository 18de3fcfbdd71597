//! Tests that the audit detects every inconsistency.

use crate::support::{Shelf, catalogue, entry, order, pieces, sku};
use lock_core::FencingToken;
use lock_inventory_demo::domain::{Audit, Breach, ClientOutcome};
use std::collections::BTreeMap;

/// Sells three orders of one unit each, with the tokens 1, 2 and 3.
async fn sold(shelf: &Shelf) {
    for (key, token) in [("a", 1), ("b", 2), ("c", 3)] {
        let order = order(key);
        let mine = FencingToken::new(token);
        shelf.store.fenced_read(&sku(0), mine).await.unwrap();
        let left = pieces(5 - u32::try_from(token).unwrap());
        shelf.store.fenced_write(entry(&order, Some(token)), left, mine).await.unwrap();
    }
}

fn outcomes(all: &[(&str, ClientOutcome)]) -> BTreeMap<String, ClientOutcome> {
    all.iter().map(|(key, outcome)| ((*key).to_owned(), *outcome)).collect()
}

async fn audit(shelf: &Shelf) -> Audit {
    use ClientOutcome::{Acknowledged, Unknown};
    let outcomes = outcomes(&[("a", Acknowledged), ("b", Acknowledged), ("c", Unknown)]);
    Audit::of(&shelf.store.books().await.unwrap(), Some(&outcomes))
}

#[tokio::test]
async fn consistent_books_pass() {
    for shelf in Shelf::both(&catalogue(2, 5)).await {
        sold(&shelf).await;
        let expected = Audit { supplied: 10, orders: 3, sold: 3, oversold: 0, breaches: Vec::new() };
        assert_eq!(audit(&shelf).await, expected);
    }
}

#[tokio::test]
async fn every_corrupted_row_is_detected() {
    type Expected = fn(&Breach) -> bool;
    let cases: [(&str, Expected); 8] = [
        ("update sku set stock = 3 where id = 'P-0'", |b| matches!(b, Breach::CounterIsOff { stock: 3, .. })),
        ("update sku set stock = 4 where id = 'P-1'", |b| matches!(b, Breach::CounterIsOff { sold: 0, .. })),
        ("update orders set quantity = 2 where key = 'b'", |b| {
            matches!(b, Breach::CounterIsOff { sold: 4, .. })
        }),
        ("update orders set quantity = 9 where key = 'b'", |b| {
            matches!(b, Breach::Oversold { sold: 11, .. })
        }),
        ("update orders set token = 1 where key = 'c'", |b| {
            matches!(b, Breach::TokenDidNotRise { before: 2, token: 1, .. })
        }),
        ("update orders set token = 2 where key = 'c'", |b| matches!(b, Breach::TokenDidNotRise { .. })),
        ("delete from orders where key = 'a'", |b| matches!(b, Breach::Missing { order } if order == "a")),
        (
            "update orders set key = 'x' where key = 'a'",
            |b| matches!(b, Breach::NotAcknowledged { order } if order == "x"),
        ),
    ];
    for (sql, expected) in cases {
        let shelf = Shelf::sqlite(&catalogue(2, 5)).await;
        sold(&shelf).await;
        shelf.corrupt(sql).await;
        let breaches = audit(&shelf).await.breaches;
        assert!(breaches.iter().any(expected), "`{sql}` gives {breaches:?}");
    }
}

#[tokio::test]
async fn refused_order_in_the_ledger_is_detected() {
    let shelf = Shelf::sqlite(&catalogue(1, 5)).await;
    sold(&shelf).await;
    let books = shelf.store.books().await.unwrap();
    let told = outcomes(&[
        ("a", ClientOutcome::Refused),
        ("b", ClientOutcome::Acknowledged),
        ("c", ClientOutcome::Unknown),
        ("d", ClientOutcome::Unknown),
    ]);
    let breaches = Audit::of(&books, Some(&told)).breaches;
    assert_eq!(
        breaches,
        [Breach::NotAcknowledged { order: "a".into() }],
        "an unknown outcome must allow both results"
    );
    assert_eq!(Audit::of(&books, None).breaches, [], "without the clients, the books are consistent");
}

#[test]
fn duplicates_and_unknown_products_are_detected() {
    use lock_inventory_demo::domain::{Books, LedgerRow};
    let row = LedgerRow { order: "a".into(), sku: "X".into(), quantity: 1, token: None };
    let books = Books { ledger: vec![row.clone(), row], ..Books::default() };
    let breaches = Audit::of(&books, None).breaches;
    assert!(breaches.contains(&Breach::UnknownProduct { sku: "X".into() }), "{breaches:?}");
    assert!(breaches.contains(&Breach::Duplicate { order: "a".into(), rows: 2 }), "{breaches:?}");
}
