//! Tests of the balancer with small servers: the server order, dead servers, and possibly delivered
//! requests.

use axum::{Router, body::Body, extract::State, routing::any};
use bytes::Bytes;
use flash_sale::{
    balancer::{Balancer, Servers},
    http_client::HttpClient,
};
use futures_util::{StreamExt, stream};
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use lock_testkit::unused_address;
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::Notify,
};

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind(ANY).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, router).into_future());
    address
}

/// Starts a server that responds with this text.
async fn saying(text: &'static str) -> SocketAddr {
    serve(Router::new().fallback(any(move || async move { text }))).await
}

async fn balancer(servers: &[(&str, SocketAddr)]) -> Balancer {
    let servers = servers.iter().map(|(name, address)| ((*name).to_owned(), *address));
    Balancer::start(ANY, Servers::of(servers)).await.unwrap()
}

fn client(balancer: &Balancer) -> HttpClient<Full<Bytes>> {
    HttpClient::new(balancer.address())
}

async fn get(client: &HttpClient<Full<Bytes>>) -> (StatusCode, String) {
    let request = Request::get("/products?all=1").body(Full::default()).unwrap();
    let (head, body) = client.send(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status, String::from_utf8(body.to_vec()).unwrap())
}

fn counts(balancer: &Balancer) -> Vec<u64> {
    balancer.servers().shares().into_iter().map(|share| share.requests).collect()
}

#[tokio::test]
async fn requests_are_distributed_round_robin() {
    let servers = [("a", saying("a").await), ("b", saying("b").await), ("c", saying("c").await)];
    let balancer = balancer(&servers).await;
    let client = client(&balancer);
    let mut answers = String::new();
    for _ in 0..6 {
        answers += &get(&client).await.1;
    }
    assert_eq!(answers, "abcabc");
    assert_eq!(counts(&balancer), [2, 2, 2]);
}

#[tokio::test]
async fn dead_server_is_skipped_until_it_has_another_address() {
    let balancer = balancer(&[("a", saying("a").await), ("dead", unused_address())]).await;
    let client = client(&balancer);
    for _ in 0..10 {
        assert_eq!(get(&client).await, (StatusCode::OK, "a".to_owned()));
    }
    assert_eq!(counts(&balancer), [10, 0]);
    balancer.servers().set("dead".into(), saying("alive").await);
    get(&client).await;
    get(&client).await;
    assert_eq!(counts(&balancer), [11, 1]);
}

#[tokio::test]
async fn request_without_a_server_is_refused() {
    let balancer = balancer(&[("dead", unused_address())]).await;
    let (status, body) = get(&client(&balancer)).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body.contains("urn:problem-type:shop:no-server"), "{body}");
}

#[tokio::test]
async fn possibly_delivered_request_is_not_resent() {
    let listener = TcpListener::bind(ANY).await.unwrap();
    let address = listener.local_addr().unwrap();
    let arrived = Arc::new(AtomicU32::new(0));
    // This server reads the request and closes the connection.
    tokio::spawn({
        let arrived = Arc::clone(&arrived);
        async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 4096]).await;
                arrived.fetch_add(1, SeqCst);
                let _ = stream.shutdown().await;
            }
        }
    });
    let balancer = balancer(&[("closes", address), ("other", saying("other").await)]).await;
    let (status, body) = get(&client(&balancer)).await;
    assert_eq!(status, StatusCode::BAD_GATEWAY, "{body}");
    assert_eq!(arrived.load(SeqCst), 1);
    assert_eq!(counts(&balancer), [1, 0]);
}

#[tokio::test]
async fn bodies_stream_in_both_directions() {
    // The server echoes the request body in parts.
    let echo = |body: Body| async move { Body::from_stream(body.into_data_stream()) };
    let balancer = balancer(&[("echo", serve(Router::new().fallback(any(echo))).await)]).await;
    let go_on = Arc::new(Notify::new());
    let parts = stream::unfold((0, Arc::clone(&go_on)), |(part, go_on)| async move {
        if part == 1 {
            go_on.notified().await;
        }
        (part < 2).then(|| (Ok::<_, std::io::Error>(Bytes::from(format!("part {part}"))), (part + 1, go_on)))
    });
    let client = HttpClient::<Body>::new(balancer.address());
    let request = Request::post("/").body(Body::from_stream(parts)).unwrap();
    let mut answer = client.send(request).await.unwrap().into_body().into_data_stream();
    assert_eq!(
        answer.next().await.unwrap().unwrap(),
        "part 0",
        "the response must start before the request has ended"
    );
    go_on.notify_one();
    assert_eq!(answer.next().await.unwrap().unwrap(), "part 1");
    assert!(answer.next().await.is_none());
}

#[tokio::test]
async fn hop_by_hop_headers_are_not_forwarded() {
    let show = |State(()): State<()>, headers: http::HeaderMap| async move {
        let names: Vec<_> = headers.keys().map(|name| name.as_str().to_owned()).collect();
        (
            [(header::CONNECTION, "x-private"), (header::HeaderName::from_static("x-private"), "1")],
            names.join(" "),
        )
    };
    let balancer = balancer(&[("show", serve(Router::new().fallback(any(show)).with_state(())).await)]).await;
    let request = Request::get("/")
        .header(header::CONNECTION, "x-mine")
        .header("x-mine", "1")
        .header("idempotency-key", "k")
        .body(Full::<Bytes>::default())
        .unwrap();
    let (head, body) = client(&balancer).send(request).await.unwrap().into_parts();
    assert!(!head.headers.contains_key("x-private"));
    let names = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    assert!(!names.contains("x-mine") && names.contains("idempotency-key"), "{names}");
    assert!(names.contains("x-forwarded-for"), "{names}");
}
