//! Tests of shop processes: start, pause and shutdown.

use crate::support::{Shelf, catalogue};
use lock_inventory_demo::serve::Ready;
use lock_testkit::RedisServer;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, ExitStatus, Stdio},
    thread::{self, JoinHandle, sleep},
    time::{Duration, Instant},
};

/// Time limit for every wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// A shop process. It is killed at the end of the test.
pub(crate) struct Process {
    child: Child,
    pub(crate) ready: Ready,
}

impl Process {
    pub(crate) fn start(name: &str, shelf: &Shelf, redis: &RedisServer, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lock-inventory-demo"));
        command.args([
            "serve",
            "--headless",
            "--admin",
            "--until-stdin-ends",
            "--prefix",
            "test",
            "--wait",
            "60000",
        ]);
        command.args(["--shop", name, "--database", shelf.url.reveal()]).args(more);
        command.env("DEMO_REDIS", redis.url()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let ready: Ready =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("unexpected first line: `{line}`"));
        assert_eq!((&*ready.shop, ready.pid), (name, child.id()));
        Self { child, ready }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    fn ended(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "the process does not exit");
            sleep(Duration::from_millis(5));
        }
    }

    fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    }

    fn state(&self) -> Value {
        ask(self.ready.listening, "GET", "/state", None).1
    }

    fn arm(&self, fault: Value) {
        assert_eq!(ask(self.ready.listening, "POST", "/admin/fault", Some(fault)).0, 204);
    }

    /// Orders a unit of `P-0` from another thread.
    fn order(&self, key: &str) -> JoinHandle<(u16, Value)> {
        let (at, key) = (self.ready.listening, key.to_owned());
        thread::spawn(move || {
            ask(at, "POST", &format!("/skus/P-0/orders\r{key}"), Some(json!({ "quantity": 1 })))
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request over a new connection. A `\r` in the path precedes the idempotency key.
fn ask(at: SocketAddr, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let (path, key) = path.split_once('\r').unwrap_or((path, "none"));
    let body = body.map_or(String::new(), |body| body.to_string());
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\nidempotency-key: {key}\r\ncontent-type: \
         application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap_or_else(|| panic!("`{answer}`")).parse().unwrap();
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

fn until(what: &str, is: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(5));
    }
}

fn holds_lock(process: &Process) -> bool {
    process.state()["stock"][0]["token"].is_u64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_drains_requests_jobs_and_locks_in_order() {
    let (redis, shelf) = (RedisServer::start(), Shelf::sqlite(&catalogue(1, 10)).await);
    let mut first = Process::start("first", &shelf, &redis, &[]);
    until("the only shop leads", || first.state()["leader"] == true);
    let second = Process::start("second", &shelf, &redis, &[]);
    first.arm(json!({"kind": "stall", "millis": 1000, "once": true}));
    let order = first.order("under-way");
    until("the order holds its lock", || holds_lock(&first));
    let mut events = BufReader::new(TcpStream::connect(first.ready.listening).unwrap());
    events.get_mut().write_all(b"GET /events HTTP/1.1\r\nhost: shop\r\n\r\n").unwrap();
    let mut stream = String::new();
    while !stream.contains("data: {") {
        assert!(events.read_line(&mut stream).unwrap() > 0, "{stream}");
    }

    first.signal(Signal::TERM);
    until("the shop stops accepting connections", || TcpStream::connect(first.ready.listening).is_err());
    until("the second shop leads the jobs", || second.state()["leader"] == true);
    assert_eq!(order.join().unwrap().0, 201, "a request in flight must complete");
    assert!(first.ended().success());
    assert_eq!(locks(&redis, ":stock:"), [""; 0], "the shop's locks must be released");
    events.read_to_string(&mut stream).unwrap(); // the stream ends
    assert_eq!(second.order("after").join().unwrap().0, 201);
    assert_eq!(shelf.keys().await, ["under-way", "after"]);
}

/// Returns the lock keys on Redis whose names contain `part`.
fn locks(redis: &RedisServer, part: &str) -> Vec<String> {
    let is_lock = |key: &String| key.contains(part) && !key.contains("token");
    redis.keys().into_iter().filter(is_lock).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shop_exits_with_its_parent() {
    let (redis, shelf) = (RedisServer::start(), Shelf::sqlite(&catalogue(1, 10)).await);
    let mut process = Process::start("shop", &shelf, &redis, &[]);
    drop(process.child.stdin.take());
    assert!(process.ended().success());
}

/// Pauses a holder for longer than its lease, and sells at another shop in the meantime.
async fn pause(strategy: &str) -> (Shelf, u16, Value) {
    let (redis, shelf) = (RedisServer::start(), Shelf::sqlite(&catalogue(1, 10)).await);
    let options = ["--strategy", strategy, "--lease", "2000"];
    let paused = Process::start("paused", &shelf, &redis, &options);
    let healthy = Process::start("healthy", &shelf, &redis, &options);
    paused.arm(json!({"kind": "pause", "once": true}));
    let late = paused.order("late");
    until("the shop has suspended itself", || paused.is_stopped());
    assert_eq!(
        healthy.order("current").join().unwrap().0,
        201,
        "another shop must acquire the lock after the lease expired"
    );
    paused.signal(Signal::CONT);
    let (status, body) = late.join().unwrap();
    (shelf, status, body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_holder_is_refused_by_the_fence() {
    let (shelf, status, body) = pause("fenced").await;
    assert_eq!((status, &body["reason"]), (503, &json!("stale-holder")), "{body}");
    assert!(body["token"].as_u64() < body["newer"].as_u64(), "{body}");
    assert_eq!((shelf.keys().await, shelf.stock().await), (vec!["current".to_owned()], 9));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_holder_oversells_without_the_fence() {
    let (shelf, status, body) = pause("lock").await;
    assert_eq!(status, 201, "{body}");
    assert_eq!(
        (shelf.keys().await.len(), shelf.stock().await),
        (2, 9),
        "expected two orders and one unit less"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shop_without_redis_is_not_ready() {
    let (redis, shelf) = (RedisServer::start(), Shelf::sqlite(&catalogue(1, 10)).await);
    let process = Process::start("shop", &shelf, &redis, &[]);
    let ready = || ask(process.ready.listening, "GET", "/health/ready", None);
    assert_eq!(ready().0, 200);
    redis.stop();
    until("the shop is no longer ready", || ready().0 == 503);
    assert_eq!(ready().1["locks"], "unavailable");
    redis.restart();
    until("the shop is ready again", || ready().0 == 200);
}

#[test]
fn invalid_options_are_refused_without_secrets() {
    let refuse = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lock-inventory-demo"));
        let ended =
            command.args(["serve", "--headless"]).args(arguments).env_remove("DEMO_REDIS").output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        let err = String::from_utf8(ended.stderr).unwrap();
        assert!(!err.contains("s3cret"), "{err}");
        err
    };
    for (arguments, remedy) in [
        (["--admin", "--listen=0.0.0.0:0"], "listen on 127.0.0.1 instead of 0.0.0.0:0"),
        (["--strategy", "setnx"], "set --locks to the address"),
        (["--strategy", "lucky"], "use one of none, mutex, setnx"),
        (["--database", "mysql://shop:s3cret@db/shop"], "use `sqlite:///path/to/shop.sqlite`"),
        (["--locks", "http://:s3cret@cache"], "invalid lock store: set --locks or DEMO_REDIS to"),
        (["--locks", "redis://:s3cret@127.0.0.1:1"], "could not connect to the lock store"),
    ] {
        let said = refuse(&arguments);
        assert!(said.contains(remedy), "{arguments:?}: {said}");
    }
}
