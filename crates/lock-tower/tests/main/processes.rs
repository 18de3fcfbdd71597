//! Handlers never overlap with four server processes, two hundred clients, one key and a real
//! Redis.
//!
//! The servers run this test executable, with an environment variable that makes it serve.

use crate::support::{millis, secs};
use axum::{Router, routing::post};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use lock_core::LockFactory;
use lock_fred::RedisBackend;
use lock_testkit::RedisServer;
use lock_tower::{LockHandle, LockLayer};
use std::{
    env,
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

const SERVERS: usize = 4;
const CLIENTS: usize = 200;
const REQUESTS_PER_CLIENT: usize = 3;

const THIS_TEST: &str = "processes::four_processes_exclude_each_other_with_rising_tokens";
const REDIS: &str = "LOCK_TOWER_TEST_REDIS";
const PLACE: &str = "LOCK_TOWER_TEST_PLACE";

/// A server process, killed on drop.
struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    fn start(redis: &str, place: &Path) -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--exact", THIS_TEST, "--nocapture"])
            .envs([(REDIS, redis), (PLACE, place.to_str().unwrap())])
            .stdout(Stdio::piped())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = lines.find_map(|line| line.unwrap().strip_prefix("serves ")?.parse().ok());
        // Reads further output, so that the process never blocks on it.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, address: address.expect("the server prints its address") }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a server until its standard input is closed, at the latest when the test ends.
async fn serve(redis: &str) {
    let locks = LockFactory::new(RedisBackend::connect(redis).await.unwrap());
    let place = Arc::new(PathBuf::from(env::var_os(PLACE).unwrap()));
    let handler = async move |lock: LockHandle| overlap(&place, &lock).await;
    let layer = LockLayer::new(locks).key("stock:{sku}").wait(secs(600));
    let app = Router::new().route("/skus/{sku}/orders", post(handler)).route_layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    // On one core the test runner has already printed a line with the name of this test.
    println!("\nserves {}", listener.local_addr().unwrap());
    let (end, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().lines().next();
        let _ = end.send(());
    });
    tokio::select! {
        served = axum::serve(listener, app) => served.unwrap(),
        _ = ended => {}
    }
}

/// Detects overlapping handlers: only one process can create the file.
async fn overlap(place: &Path, lock: &LockHandle) -> StatusCode {
    let inside = place.join("inside");
    if File::create_new(&inside).is_err() {
        return StatusCode::IM_A_TEAPOT;
    }
    let mut tokens = OpenOptions::new().append(true).create(true).open(place.join("tokens")).unwrap();
    // Gives another handler time to overlap.
    tokio::time::sleep(millis(1)).await;
    writeln!(tokens, "{}", lock.fencing_token()).unwrap();
    fs::remove_file(inside).unwrap();
    StatusCode::OK
}

/// A client with its own connection, which sends one request after the other.
async fn client(server: SocketAddr) -> Vec<StatusCode> {
    let stream = TcpStream::connect(server).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut answers = Vec::new();
    for _ in 0..REQUESTS_PER_CLIENT {
        let request = Request::post("/skus/42/orders").header("host", "shop").body(Empty::new()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        answers.push(response.status());
        response.into_body().collect().await.unwrap();
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_exclude_each_other_with_rising_tokens() {
    if let Ok(redis) = env::var(REDIS) {
        return serve(&redis).await;
    }
    let redis = RedisServer::start();
    let place = tempfile::tempdir().unwrap();
    let servers: Vec<_> = (0..SERVERS).map(|_| Server::start(&redis.url(), place.path())).collect();
    let began = std::time::Instant::now();
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(client(servers[number % SERVERS].address));
    }
    let answers: Vec<_> = clients.join_all().await.into_iter().flatten().collect();
    let took = began.elapsed();
    assert_eq!(answers.len(), CLIENTS * REQUESTS_PER_CLIENT);
    let ok = answers.iter().filter(|status| **status == StatusCode::OK).count();
    assert_eq!(ok, answers.len(), "handlers overlapped or requests were rejected: {answers:?}");
    let tokens = fs::read_to_string(place.path().join("tokens")).unwrap();
    let tokens: Vec<u64> = tokens.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(tokens.len(), answers.len());
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    println!(
        "{ok} requests of {CLIENTS} clients to {SERVERS} processes in {took:?}, one at a time, tokens {} to {}",
        tokens[0],
        tokens[tokens.len() - 1]
    );
}
