//! Responses and uploads above their limits.

use super::{Site, answer, pay, respond};
use crate::support::{ask, problem};
use axum::body::{Body, Bytes};
use futures_util::stream;
use http::StatusCode;
use lock_tower::BufferRequestLayer;

/// The first client receives the complete response. Retries do not run the handler again.
#[tokio::test(start_paused = true)]
async fn response_above_the_limit_is_sent_once() {
    for (length, known) in [(8, true), (8, false), (9, true), (9, false)] {
        let site = Site::new();
        let app = site.app(site.layer().max_answer(8), move |_| {
            let body = "x".repeat(length);
            let bytes = body.clone().into_bytes().into_iter();
            let frames = stream::iter(bytes.map(|byte| Ok::<_, std::io::Error>(Bytes::from(vec![byte]))));
            let answer = respond(201, if known { Body::from(body) } else { Body::from_stream(frames) });
            async move { answer }
        });
        assert_eq!(answer(&app, pay("k", "")).await, (201, false, "x".repeat(length)));
        let retry = ask(&app, pay("k", "")).await;
        if length == 8 {
            assert_eq!(retry.status(), StatusCode::CREATED);
        } else {
            let json = problem(retry, StatusCode::GONE).await;
            assert_eq!(json["reason"], "answer_not_kept");
            assert!(json["detail"].as_str().unwrap().contains("201"), "{json}");
        }
        assert_eq!(site.runs(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn upload_above_the_limit_takes_no_lock() {
    let site = Site::new();
    let layer = site.layer().buffer(BufferRequestLayer::new().limit(4));
    let app = site.app(layer, async |_| respond(201, ""));
    problem(ask(&app, pay("k", "12345")).await, StatusCode::PAYLOAD_TOO_LARGE).await;
    assert_eq!((site.runs(), site.world.faulty.calls(lock_testkit::Op::Acquire)), (0, 0));
}
