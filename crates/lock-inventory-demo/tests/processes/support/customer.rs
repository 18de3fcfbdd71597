//! A customer, who sends each order on a new connection and repeats it with its key until it is decided.

use super::PATIENCE;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpStream, time::Instant};

/// The pause before a repetition. A customer of a real shop would wait for the seconds of `Retry-After`.
const PAUSE: Duration = Duration::from_millis(50);

/// A customer. Clones share the count.
#[derive(Debug, Clone)]
pub(crate) struct Customer {
    pub(crate) name: String,
    /// The number of replies with status 503.
    unavailable: Arc<AtomicUsize>,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    /// Returns `true` if the shop suggests to repeat the request.
    pub(crate) retry: bool,
    pub(crate) text: String,
}

impl Reply {
    /// Returns `true` if the order is decided. An error of a server decides nothing, also one without `Retry-After`.
    pub(crate) fn is_final(&self) -> bool {
        !self.retry && !self.status.is_server_error()
    }

    /// Returns `true` if the order exists.
    pub(crate) fn is_sold(&self) -> bool {
        self.status == StatusCode::CREATED || self.status == StatusCode::OK
    }

    /// The last word of the problem's type.
    pub(crate) fn problem(&self) -> String {
        let problem: Value = serde_json::from_str(&self.text).unwrap_or_default();
        let kind = problem["type"].as_str().unwrap_or_default();
        kind.rsplit([':', '/']).next().unwrap_or_default().to_owned()
    }
}

impl Customer {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), unavailable: Arc::default() }
    }

    /// Returns the number of replies with status 503 so far.
    pub(crate) fn unavailable(&self) -> usize {
        self.unavailable.load(Ordering::Relaxed)
    }

    /// Orders one unit. Dropping this closes the connection.
    pub(crate) async fn order(&self, shop: SocketAddr, sku: &str, key: &str) -> io::Result<Reply> {
        let request = Request::post(format!("/products/{sku}/orders"))
            .header("idempotency-key", key)
            .header("content-type", "application/json")
            .body(Full::from(r#"{"quantity":1}"#));
        self.send(shop, request.unwrap()).await
    }

    pub(crate) async fn get(&self, shop: SocketAddr, path: &str) -> io::Result<Reply> {
        self.send(shop, Request::get(path).body(Full::default()).unwrap()).await
    }

    /// Orders one unit, and repeats the request at the shops in turn until it is decided. Returns all replies; the last one
    /// is final.
    pub(crate) async fn insist(&self, shops: &[SocketAddr], sku: &str, key: &str) -> Vec<Reply> {
        let begin = Instant::now();
        let mut replies = Vec::new();
        for shop in shops.iter().cycle() {
            replies.extend(self.order(*shop, sku, key).await);
            if replies.last().is_some_and(Reply::is_final) {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "{} is not decided: {:?}", self.name, replies.last());
            tokio::time::sleep(PAUSE).await;
        }
        replies
    }

    async fn send(&self, shop: SocketAddr, mut request: Request<Full<Bytes>>) -> io::Result<Reply> {
        request.headers_mut().insert("host", shop.to_string().parse().unwrap());
        request.headers_mut().insert("x-customer", self.name.parse().unwrap());
        let stream = TcpStream::connect(shop).await?;
        let connection = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = connection.map_err(io::Error::other)?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(io::Error::other)?;
            if response.status() == StatusCode::SERVICE_UNAVAILABLE {
                self.unavailable.fetch_add(1, Ordering::Relaxed);
            }
            let (status, retry) = (response.status(), response.headers().contains_key("retry-after"));
            let body = response.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
            Ok(Reply { status, retry, text: String::from_utf8_lossy(&body).into_owned() })
        };
        // Its end ends the exchange, which may still have to read the last part of the body.
        let connection = async {
            let _ = connection.await;
            std::future::pending().await
        };
        tokio::select! {
            reply = exchange => reply,
            () = connection => unreachable!("it never ends"),
        }
    }
}
