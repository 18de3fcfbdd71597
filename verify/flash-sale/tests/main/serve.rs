//! Tests of a server process: its faults, its end, and refused options.

use crate::{
    program::{command, text},
    support::{Process, Sale, order, until},
};
use flash_sale::fleet::ShopCommand;
use lock_testkit::RedisServer;
use rustix::process::Signal;
use serde_json::json;

async fn holds_lock(process: &Process) -> bool {
    process.state().await["locks"][0]["token"].is_u64()
}

#[tokio::test]
async fn order_under_way_ends_before_the_server() {
    let (redis, sale) = (RedisServer::start(), Sale::sqlite(10).await);
    let mut process = Process::start("first", &sale, &redis, &[]);
    process.control("fault", json!({"kind": "stall", "millis": 1000, "once": true})).await;
    let listening = process.ready.listening;
    let under_way = tokio::spawn(async move { order(listening, "under-way", 1).await });
    until("the order holds its lock", async || holds_lock(&process).await).await;
    process.signal(Signal::TERM);
    assert_eq!(under_way.await.unwrap().status, 201);
    assert!(process.ended().await.success());
    let held = |key: &String| key.contains("product:") && !key.contains("token");
    assert!(!redis.keys().iter().any(held), "{:?}", redis.keys());
    assert_eq!(sale.stock().await, 9);
}

#[tokio::test]
async fn server_exits_with_its_parent() {
    let (redis, sale) = (RedisServer::start(), Sale::sqlite(10).await);
    let mut process = Process::start("shop", &sale, &redis, &[]);
    process.leave();
    assert!(process.ended().await.success());
}

#[tokio::test]
async fn stalled_order_is_charged_and_not_yet_written() {
    let (redis, sale) = (RedisServer::start(), Sale::sqlite(10).await);
    let process = Process::start("shop", &sale, &redis, &[]);
    process.control("fault", json!({"kind": "stall", "millis": 60_000, "once": true})).await;
    let listening = process.ready.listening;
    let under_way = tokio::spawn(async move { order(listening, "stalled", 1).await });
    until("the charge is there", async || sale.audit().await.rows.charged == 250).await;
    let audit = sale.audit().await;
    assert_eq!((audit.rows.orders, audit.rows.pending), (0, 250));
    assert_eq!(audit.findings().collect::<Vec<_>>(), [""; 0], "the intent explains the charge");
    under_way.abort();
}

#[test]
fn invalid_options_are_refused_without_secrets() {
    let refuse = |arguments: &[&str]| {
        let mut command = command(&["serve", "--headless"]);
        let ended = command.args(arguments).env_remove(ShopCommand::LOCKS).output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        let err = text(&ended.stderr).to_owned();
        assert!(!err.contains("s3cret"), "{err}");
        err
    };
    for (arguments, remedy) in [
        (["--shop=any", "--listen=0.0.0.0:0"], "listen on 127.0.0.1 instead of 0.0.0.0:0"),
        (["--shop=any", "--strategy=setnx"], "set --locks to the address"),
        (["--shop=any", "--strategy=units"], "set --database to the address of a PostgreSQL server"),
        (["--shop=any", "--strategy=lucky"], "use one of none, mutex, setnx"),
        (
            ["--payments=sqlite:///p", "--database=mysql://shop:s3cret@db/shop"],
            "use `sqlite:///path/to/shop.sqlite`",
        ),
        (["--shop=any", "--database=sqlite:///shop"], "--database and --payments belong together"),
        (["--shop=any", "--locks=http://:s3cret@cache"], "invalid lock store: set --locks or SHOP_LOCKS to"),
        (["--shop=any", "--locks=redis://:s3cret@127.0.0.1:1"], "could not connect to the lock store"),
    ] {
        let said = refuse(&arguments);
        assert!(said.contains(remedy), "{arguments:?}: {said}");
    }
}
