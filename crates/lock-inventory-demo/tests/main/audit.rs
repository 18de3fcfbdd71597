//! Tests of the auditor: it must find what is wrong, or it proves nothing.

use crate::{Shelf, catalogue, order, sku};
use lock_core::FencingToken;
use lock_inventory_demo::domain::{Audit, Breach, OrderNumber, Quantity};
use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};

/// Three orders of one piece each, one after the other, under the tokens 1, 2, 3.
async fn sold() -> Shelf {
    let shelf = Shelf::of(&catalogue(2, 5)).await;
    for (number, left) in [(1, 4), (2, 3), (3, 2)] {
        let token = FencingToken::new(number);
        shelf.store.fenced_read(&sku(0), token).await.unwrap();
        let order = order(u32::try_from(number).unwrap());
        shelf.store.fenced_write(&order, Quantity::new(left), "shop", token).await.unwrap();
    }
    shelf
}

async fn audit(shelf: &Shelf) -> Audit {
    let (ledger, stock) = (shelf.store.ledger().await.unwrap(), shelf.store.stock().await.unwrap());
    Audit::of(&catalogue(2, 5), &ledger, &stock, &[1, 2, 3].map(OrderNumber::new).into())
}

/// Does by hand what no code here does.
async fn corrupt(shelf: &Shelf, sql: &'static str) {
    let options = SqliteConnectOptions::new().filename(&shelf.path).foreign_keys(false);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    let done = sqlx::query(sql).execute(&mut connection).await.unwrap();
    assert!(done.rows_affected() > 0, "`{sql}` changes something");
}

#[tokio::test]
async fn books_that_add_up_pass() {
    let audit = audit(&sold().await).await;
    let expected = Audit { initial: 10, orders: 3, sold: 3, oversold: 0, breaches: Vec::new() };
    assert_eq!(audit, expected);
}

#[tokio::test]
async fn every_corrupted_row_is_found() {
    type Expected = fn(&Breach) -> bool;
    let cases: [(&str, Expected); 10] = [
        ("update sku set stock = 3 where id = 'P-0'", |b| matches!(b, Breach::CounterIsOff { stock: 3, .. })),
        ("update sku set stock = 4 where id = 'P-1'", |b| matches!(b, Breach::CounterIsOff { sold: 0, .. })),
        ("update orders set quantity = 2 where number = 2", |b| {
            matches!(b, Breach::CounterIsOff { sold: 4, .. })
        }),
        ("update orders set quantity = 9 where number = 2", |b| {
            matches!(b, Breach::Oversold { sold: 11, .. })
        }),
        ("update orders set token = 1 where number = 3", |b| {
            matches!(b, Breach::TokenDidNotRise { order: 3, before: 2, token: 1, .. })
        }),
        ("update orders set token = 2 where number = 3", |b| {
            matches!(b, Breach::TokenDidNotRise { order: 3, .. })
        }),
        ("delete from orders where number = 1", |b| matches!(b, Breach::Acknowledged { order: 1, rows: 0 })),
        ("update orders set number = 9 where number = 1", |b| {
            matches!(b, Breach::NeverAcknowledged { order: 9 })
        }),
        ("update orders set sku = 'X-1' where number = 1", |b| matches!(b, Breach::UnknownProduct { .. })),
        ("delete from sku where id = 'P-1'", |b| matches!(b, Breach::UnknownProduct { .. })),
    ];
    for (sql, expected) in cases {
        let shelf = sold().await;
        corrupt(&shelf, sql).await;
        let breaches = audit(&shelf).await.breaches;
        assert!(breaches.iter().any(expected), "`{sql}` gives {breaches:?}");
    }
}
