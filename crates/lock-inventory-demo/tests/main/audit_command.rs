//! Tests of the command `audit`. Correct books pass, and every corrupted row is detected.

use crate::program::{command, text};
use lock_inventory_demo::{
    catalogue,
    domain::{Order, Outcome as Sold, Quantity, Sku},
    fault::Faults,
    load::{Entry, Journal, Outcome},
    payment::Payments,
    store::{DatabaseUrl, Store},
    strategy::{Seller, Strategy},
};
use sqlx::{AnyConnection, AssertSqlSafe, Connection};
use tempfile::TempDir;

const ORDERS: u32 = 5;

/// A database with five orders, and the client's journal.
struct Books {
    directory: TempDir,
    database: DatabaseUrl,
}

fn entry(key: &str, outcome: Outcome) -> Entry {
    let (sku, server) = ("A-1".to_owned(), Some("shop-1/1".to_owned()));
    Entry { key: key.into(), sku, quantity: 1, outcome, server, start_us: 0, latency_us: 1, attempts: 1 }
}

impl Books {
    async fn of(others: &[Entry]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let database = DatabaseUrl::sqlite(&directory.path().join("stock.sqlite")).unwrap();
        let store = Store::open(&database).await.unwrap();
        let products = "sku,title,category,price_cents,stock\nA-1,Tea,Drinks,500,20\n";
        store.set_up(&catalogue::parse(products.as_bytes()).unwrap()).await.unwrap();
        let seller = Seller::new("shop-1", store.clone(), Payments::new(42, Faults::default()), None);
        let mut journal = Journal::create(&directory.path().join("journal.jsonl")).unwrap();
        for number in 1..=ORDERS {
            let key = format!("k-{number}");
            let (sku, quantity) = (Sku::parse("A-1").unwrap(), Quantity::new(1));
            let order = Order { key: key.parse().unwrap(), sku, quantity, cents: 500 };
            let sold = seller.sell(Strategy::None, &order, None).await.unwrap();
            assert!(matches!(sold, Sold::Accepted(_)), "{sold:?}");
            journal.record(&entry(&key, Outcome::Acknowledged { token: None })).unwrap();
        }
        others.iter().for_each(|other| journal.record(other).unwrap());
        journal.flush().unwrap();
        store.close().await;
        Self { directory, database }
    }

    async fn corrupt(self, statement: &str) -> Self {
        let mut connection = AnyConnection::connect(self.database.reveal()).await.unwrap();
        sqlx::query(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        self
    }

    /// Runs `audit` and returns its exit code and output.
    fn audit(&self) -> (Option<i32>, String) {
        let journal = self.directory.path().join("journal.jsonl");
        let arguments =
            ["audit", "--database", self.database.reveal(), "--journal", journal.to_str().unwrap()];
        let ran = command(&arguments).output().unwrap();
        (ran.status.code(), format!("{}{}", text(&ran.stdout), text(&ran.stderr)))
    }

    fn breaks(&self, breach: &str) {
        let (code, out) = self.audit();
        assert_eq!(code, Some(1), "{out}");
        assert!(out.contains(breach), "`{breach}` is missing in {out}");
    }
}

#[tokio::test]
async fn correct_books_with_unknown_outcomes_pass() {
    let open = |key| entry(key, Outcome::Unknown { reason: "timeout".into() });
    let books = Books::of(&[open("k-6")]).await;
    let (code, out) = books.audit();
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("5 orders, 5 units sold of 20, 0 oversold, 0 breaches"), "{out}");
    assert!(out.contains("Compared with 6 client outcomes"), "{out}");
}

#[tokio::test]
async fn acknowledged_order_without_a_row_is_detected() {
    let books = Books::of(&[]).await.corrupt("delete from orders where key = 'k-3'").await;
    books.breaks("order k-3 was acknowledged, but is not in the ledger");
}

#[tokio::test]
async fn row_of_a_refused_order_is_detected() {
    let refused = Outcome::Refused { reason: Outcome::SOLD_OUT.into(), token: None, newer: None };
    let insert =
        "insert into orders (key, sku, quantity, cents, shop) values ('k-9', 'A-1', 1, 500, 'shop-1')";
    let books = Books::of(&[entry("k-9", refused)]).await.corrupt(insert).await;
    books.breaks("order k-9 is in the ledger, but was refused or never placed");
}

#[tokio::test]
async fn changed_quantity_is_detected() {
    let books = Books::of(&[]).await.corrupt("update orders set quantity = 2 where key = 'k-1'").await;
    books.breaks("15 of 20 units are left");
}

#[tokio::test]
async fn changed_counter_is_detected() {
    let books = Books::of(&[]).await.corrupt("update sku set stock = stock + 1").await;
    books.breaks("16 of 20 units are left");
}

#[tokio::test]
async fn decreasing_token_is_detected() {
    let statement = "update orders set token = 10 - seq";
    let books = Books::of(&[]).await.corrupt(statement).await;
    books.breaks("with token 8 after token 9");
}
