//! Databases, servers in processes of their own, and requests to them.

use crate::program::command;
use bytes::Bytes;
use flash_sale::{
    addresses::Databases, audit::SaleAudit, fleet::ShopCommand, http_client::HttpClient, load::CUSTOMER,
    server::Ready,
};
use http::{HeaderMap, Method, Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use lock_inventory_demo::{
    audit::Books,
    domain::{Cents, Product},
    payments::Provider,
    store::Store,
};
use lock_testkit::{PostgresServer, RedisServer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, ExitStatus, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::time::sleep;

/// Time limit for every wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The databases of a sale.
pub(crate) struct Sale {
    pub(crate) databases: Databases,
    pub(crate) store: Store,
    provider: Provider,
    _directory: Option<TempDir>,
}

/// The PostgreSQL server shared by all tests in this process. It ends with the process.
static POSTGRES: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);
static DATABASES: AtomicU32 = AtomicU32::new(0);

impl Sale {
    /// Creates databases on SQLite with the product `P-0`.
    pub(crate) async fn sqlite(stock: i64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let databases = Databases::in_directory(directory.path()).unwrap();
        Self::filled(databases, Some(directory), stock).await
    }

    /// Creates databases on PostgreSQL with the product `P-0`.
    pub(crate) async fn postgres(stock: i64) -> Self {
        let number = DATABASES.fetch_add(1, Ordering::Relaxed);
        let created = tokio::task::spawn_blocking(move || {
            ["shop", "payments"].map(|part| POSTGRES.database(&format!("test_{number}_{part}")))
        });
        let [shop, payments] = created.await.unwrap();
        let databases = Databases { shop: shop.parse().unwrap(), payments: payments.parse().unwrap() };
        Self::filled(databases, None, stock).await
    }

    async fn filled(databases: Databases, directory: Option<TempDir>, stock: i64) -> Self {
        let store = Store::open(databases.shop.reveal()).await.unwrap();
        let product = Product {
            sku: "P-0".parse().unwrap(),
            title: "Product".into(),
            price: Cents::new(250),
            initial: stock,
        };
        store.set_up(&[product]).await.unwrap();
        let provider = Provider::open(databases.payments.reveal(), Duration::ZERO).await.unwrap();
        Self { databases, store, provider, _directory: directory }
    }

    pub(crate) async fn audit(&self) -> SaleAudit {
        SaleAudit::of(&Books::read(&self.store, &self.provider).await.unwrap(), None)
    }

    pub(crate) async fn stock(&self) -> i64 {
        self.store.offers().await.unwrap()[0].stock
    }
}

/// A server in a process of its own. It is killed at the end of the test.
pub(crate) struct Process {
    child: Child,
    pub(crate) ready: Ready,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Reply {
    /// Returns the last segment of the problem type.
    pub(crate) fn reason(&self) -> &str {
        self.body["type"].as_str().unwrap_or_default().rsplit(':').next().unwrap()
    }
}

impl Process {
    pub(crate) fn start(name: &str, sale: &Sale, redis: &RedisServer, more: &[&str]) -> Self {
        let mut command = command(&["serve", "--headless", "--until-stdin-ends", "--prefix", "test"]);
        command.args(["--wait", "60000", "--shop", name]).args(more);
        command
            .env(ShopCommand::LOCKS, redis.url())
            .env(ShopCommand::DATABASE, sale.databases.shop.reveal())
            .env(ShopCommand::PAYMENTS, sale.databases.payments.reveal());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let ready: Ready =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("unexpected first line: `{line}`"));
        assert_eq!((&*ready.shop, ready.pid), (name, child.id()));
        Self { child, ready }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Closes the server's stdin.
    pub(crate) fn leave(&mut self) {
        drop(self.child.stdin.take());
    }

    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "the process does not exit");
            sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn state(&self) -> Value {
        ask(self.ready.listening, Method::GET, "/state", "", Value::Null).await.body
    }

    pub(crate) async fn control(&self, what: &str, body: Value) -> Reply {
        ask(self.ready.listening, Method::POST, &format!("/control/{what}"), "", body).await
    }

    /// Orders units of `P-0`.
    pub(crate) async fn order(&self, key: &str, quantity: u32) -> Reply {
        order(self.ready.listening, key, quantity).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Orders units of `P-0`.
pub(crate) async fn order(at: SocketAddr, key: &str, quantity: u32) -> Reply {
    ask(at, Method::POST, "/products/P-0/orders", key, json!({ "quantity": quantity })).await
}

/// Sends a request over a new connection.
pub(crate) async fn ask(at: SocketAddr, method: Method, path: &str, key: &str, body: Value) -> Reply {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(CONTENT_TYPE, "application/json")
        .header("x-customer", CUSTOMER)
        .header("idempotency-key", key)
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let (head, body) = HttpClient::new(at).send(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Reply {
        status: head.status,
        headers: head.headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    }
}

pub(crate) async fn until(what: &str, is: impl AsyncFn() -> bool) {
    let begin = Instant::now();
    while !is().await {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(5)).await;
    }
}
