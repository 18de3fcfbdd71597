//! Tests of the command `audit`, with the books of a real sale and the journal of its client.

use crate::{
    program::{command, text},
    support::{Process, Sale},
};
use flash_sale::load::{Entry, Journal, Outcome};
use lock_testkit::RedisServer;
use sqlx::{AnyConnection, AssertSqlSafe, Connection};
use tempfile::TempDir;

/// The books of five orders, and the journal.
struct Sold {
    sale: Sale,
    directory: TempDir,
}

fn entry(key: &str, outcome: Outcome) -> Entry {
    let (sku, server) = ("P-0".to_owned(), Some("shop/1".to_owned()));
    Entry { key: key.into(), sku, quantity: 1, outcome, server, start_us: 0, latency_us: 1, attempts: 1 }
}

impl Sold {
    async fn with(others: &[Entry]) -> Self {
        let (redis, sale) = (RedisServer::start(), Sale::sqlite(20).await);
        let process = Process::start("shop", &sale, &redis, &[]);
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(&directory.path().join("journal.jsonl")).unwrap();
        for number in 1..=5 {
            let key = format!("k-{number}");
            assert_eq!(process.order(&key, 1).await.status, 201);
            journal.record(&entry(&key, Outcome::Acknowledged { token: None })).unwrap();
        }
        others.iter().for_each(|other| journal.record(other).unwrap());
        journal.flush().unwrap();
        Self { sale, directory }
    }

    async fn corrupt(url: &str, statement: &str) {
        let mut connection = AnyConnection::connect(url).await.unwrap();
        let done = sqlx::query(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
        assert!(done.rows_affected() > 0, "`{statement}` changed nothing");
        connection.close().await.unwrap();
    }

    /// Runs `audit` and returns its exit code and output.
    fn audit(&self) -> (Option<i32>, String) {
        let (journal, databases) = (self.directory.path().join("journal.jsonl"), &self.sale.databases);
        let mut command = command(&["audit", "--journal", journal.to_str().unwrap()]);
        command.args(["--database", databases.shop.reveal(), "--payments", databases.payments.reveal()]);
        let ran = command.output().unwrap();
        (ran.status.code(), format!("{}{}", text(&ran.stdout), text(&ran.stderr)))
    }
}

#[tokio::test]
async fn correct_books_with_unknown_outcomes_pass() {
    let (code, out) = Sold::with(&[entry("k-6", Outcome::unknown("timeout"))]).await.audit();
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("5 of 20 units sold") && out.contains("0 rules broken"), "{out}");
    assert!(out.contains("Compared with 6 client outcomes"), "{out}");
}

#[tokio::test]
async fn books_and_clients_that_disagree_fail() {
    let refused = entry("k-5", Outcome::Refused { reason: Outcome::SOLD_OUT.into() });
    let acknowledged = entry("k-9", Outcome::Acknowledged { token: None });
    let sold = Sold::with(&[refused, acknowledged]).await;
    let databases = &sold.sale.databases;
    Sold::corrupt(databases.shop.reveal(), "update products set stock = stock + 1").await;
    Sold::corrupt(databases.payments.reveal(), "update charges set cents = 1 where key = 'load/k-3'").await;
    let (code, out) = sold.audit();
    assert_eq!(code, Some(1), "{out}");
    for finding in [
        "order load/k-5 was written, but refused or never placed",
        "order load/k-9 was acknowledged, but not written",
        "P-0: the stock says 16",
        "load/k-3: 1 cents were charged",
    ] {
        assert!(out.contains(finding), "`{finding}` is missing in {out}");
    }
}
