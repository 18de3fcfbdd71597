//! Tests of the dashboard's routes: allowed requests and actions.

use axum::{Router, body::Body, http::Request};
use flash_sale::dashboard::{
    Action, Actions, Feed, LoadInfo, Publisher, Reach, Request as Requested, ServerAction, Snapshot, Totals,
    router,
};
use futures_util::StreamExt;
use std::net::IpAddr;
use tokio::sync::mpsc;
use tower::ServiceExt;

fn snapshot(place: &str) -> Snapshot {
    Snapshot {
        since: 1,
        place: place.into(),
        note: None,
        strategy: "fenced".into(),
        strategies: Vec::new(),
        load: LoadInfo { on: false, per_second: 40 },
        totals: Totals::default(),
        servers: Vec::new(),
        products: Vec::new(),
        jobs: Vec::new(),
        leader: None,
        log: Vec::new(),
    }
}

fn dashboard(place: &str, ip: &str) -> (Router, Publisher, mpsc::Receiver<Requested>) {
    let (publisher, feed): (Publisher, Feed) = Publisher::new(&snapshot(place));
    let (actions, requests) = Actions::channel();
    (router(feed, actions, Reach::of(ip.parse::<IpAddr>().unwrap())), publisher, requests)
}

/// Returns the status of a request with these headers.
async fn status(router: &Router, method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(r#"{"strategy":"none"}"#)).unwrap();
    router.clone().oneshot(request).await.unwrap().status().as_u16()
}

const JSON: (&str, &str) = ("content-type", "application/json");
const HOST: (&str, &str) = ("host", "127.0.0.1:8080");

#[tokio::test]
async fn foreign_host_is_refused_on_loopback() {
    let (router, _publisher, _requests) = dashboard("", "127.0.0.1");
    for host in ["127.0.0.1:8080", "localhost:8080", "[::1]:8080", "127.0.0.2"] {
        assert_eq!(status(&router, "GET", "/state", &[("host", host)]).await, 200, "{host}");
    }
    for host in ["shop.example:8080", "127.0.0.1.example", "localhost.example", "192.0.2.1", ""] {
        assert_eq!(status(&router, "GET", "/state", &[("host", host)]).await, 403, "{host}");
    }
    assert_eq!(status(&router, "GET", "/", &[]).await, 403);
    let (router, _publisher, _requests) = dashboard("", "192.0.2.1");
    assert_eq!(status(&router, "GET", "/state", &[("host", "shop.example")]).await, 200);
}

#[tokio::test]
async fn actions_are_refused_from_another_origin() {
    let (router, _publisher, mut requests) = dashboard("", "127.0.0.1");
    let refused: [(&[(&str, &str)], u16); 8] = [
        (&[HOST, JSON], 403),
        (&[HOST, JSON, ("origin", "http://evil.example")], 403),
        (&[HOST, JSON, ("origin", "http://127.0.0.1:9")], 403),
        (&[HOST, JSON, ("origin", "null")], 403),
        (&[HOST, JSON, ("sec-fetch-site", "cross-site"), ("origin", "http://127.0.0.1:8080")], 403),
        (&[HOST, JSON, ("sec-fetch-site", "same-site")], 403),
        (&[HOST, ("content-type", "text/plain"), ("sec-fetch-site", "same-origin")], 415),
        (&[HOST, ("sec-fetch-site", "same-origin")], 415),
    ];
    for (headers, expected) in refused {
        assert_eq!(status(&router, "POST", "/strategy", headers).await, expected, "{headers:?}");
    }
    assert!(requests.try_recv().is_err(), "an action was executed");
}

#[tokio::test]
async fn actions_from_the_own_page_are_accepted() {
    let (router, _publisher, mut requests) = dashboard("", "127.0.0.1");
    let taken = tokio::spawn(async move {
        let mut actions = Vec::new();
        while let Some(Requested { action, reply }) = requests.recv().await {
            actions.push(action);
            let _ = reply.send(Ok(()));
        }
        actions
    });
    let own = [HOST, JSON, ("sec-fetch-site", "same-origin")];
    let older = [HOST, JSON, ("origin", "http://127.0.0.1:8080")];
    assert_eq!(status(&router, "POST", "/strategy", &own).await, 204);
    assert_eq!(status(&router, "POST", "/servers/shop-2/pause", &older).await, 204);
    assert_eq!(status(&router, "POST", "/servers/shop-2/dance", &own).await, 404);
    assert_eq!(status(&router, "POST", "/load", &own).await, 422, "the body does not contain `on`");
    assert_eq!(status(&router, "GET", "/strategy", &own).await, 405);
    drop(router);
    let pause = Action::Server("shop-2".into(), ServerAction::Pause);
    assert_eq!(taken.await.unwrap(), [Action::Strategy("none".into()), pause]);
}

#[tokio::test]
async fn page_is_complete_and_its_json_is_escaped() {
    let (router, _publisher, _requests) = dashboard("</script><script>alert(1)</script>", "127.0.0.1");
    let request = Request::get("/").header("host", "127.0.0.1").body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let page = std::str::from_utf8(&body).unwrap();
    assert!(
        !page.contains("alert(1)</script>") && !page.contains("{{"),
        "a placeholder or an unescaped character is left"
    );
    let nonce = policy.split("script-src 'nonce-").nth(1).and_then(|rest| rest.split('\'').next()).unwrap();
    assert_eq!(page.matches(&format!("nonce=\"{nonce}\"")).count(), 3);
}

#[tokio::test]
async fn stream_begins_with_the_latest_snapshot_and_ends_with_the_publisher() {
    let (router, publisher, _requests) = dashboard("first", "127.0.0.1");
    let request = Request::get("/events").header("host", "127.0.0.1").body(Body::empty()).unwrap();
    let mut events = router.oneshot(request).await.unwrap().into_body().into_data_stream();
    let mut next =
        async || events.next().await.map(|event| String::from_utf8(event.unwrap().to_vec()).unwrap());
    assert!(next().await.unwrap().starts_with("retry:"));
    assert!(next().await.unwrap().contains(r#""place":"first""#));
    publisher.publish(&snapshot("second"));
    assert!(next().await.unwrap().contains(r#""place":"second""#));
    drop(publisher);
    assert_eq!(next().await, None);
}
