//! The router: its answers, and its errors.

use crate::fleet::{Fleet, secs};
use axum::{
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use serde_json::Value;
use tokio::time::sleep;
use tower_service::Service;

async fn get(app: &mut axum::Router, path: &str) -> (StatusCode, String) {
    let request = Request::get(path).body(Body::empty()).expect("a good request");
    let response = app.call(request).await.expect("a router is infallible");
    let status = response.status();
    let body = to_bytes(response.into_body(), 1 << 20).await.expect("a short body");
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

async fn json(app: &mut axum::Router, path: &str) -> (StatusCode, Value) {
    let (status, text) = get(app, path).await;
    (status, serde_json::from_str(&text).expect("JSON"))
}

#[tokio::test(start_paused = true)]
async fn router_serves_list_history_and_page() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "* * * * *", secs(90)).await;
    let mut app = axum::Router::new().nest_service("/cron", lock_cron::router(running.cron.clone()));
    sleep(secs(130)).await;
    let (status, jobs) = json(&mut app, "/cron/jobs").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&jobs[0]["name"], &jobs[0]["schedule"]), (&"job".into(), &"* * * * *".into()));
    assert_eq!(
        (&jobs[0]["next_runs"][0], &jobs[0]["paused"]),
        (&"2026-01-01T00:03:00Z".into(), &false.into())
    );
    assert_eq!((&jobs[0]["open"][0]["state"], &jobs[0]["open"][0]["node"]), (&"running".into(), &"a".into()));
    let (_, history) = json(&mut app, "/cron/jobs/job/history").await;
    assert_eq!(
        (&history[0]["outcome"], &history[0]["scheduled"]),
        (&"skipped".into(), &"2026-01-01T00:02:00Z".into())
    );
    for path in ["/cron", "/cron/"] {
        assert_eq!(get(&mut app, path).await.0, StatusCode::OK, "{path}");
    }
    assert_eq!(get(&mut app, "/cron/other").await.0, StatusCode::NOT_FOUND);
    assert!(get(&mut app, "/cron").await.1.contains("<title>Jobs</title>"));
}

#[tokio::test(start_paused = true)]
async fn unknown_job_is_404_and_silent_store_is_503() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "* * * * *", secs(1)).await;
    let mut app = lock_cron::router(running.cron.clone());
    let (status, answer) = json(&mut app, "/jobs/jop/history").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(answer["error"].as_str().expect("a text").contains("jop"), "{answer}");
    running.faulty.always_all(lock_testkit::Fault::Hang);
    let (status, body) = json(&mut app, "/jobs").await;
    assert_eq!(
        (status, &body["error"]),
        (StatusCode::SERVICE_UNAVAILABLE, &"the store does not answer".into())
    );
}

#[tokio::test(start_paused = true)]
async fn list_of_many_jobs_costs_no_more_requests() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    for number in 0..50 {
        node.job(&format!("job-{number}"), "* * * * *", secs(1)).register().expect("a good job");
    }
    let mut app = lock_cron::router(node.cron.clone());
    let before = node.faulty.calls(lock_testkit::Op::Controls);
    let (_, jobs) = json(&mut app, "/jobs").await;
    assert_eq!(
        (jobs.as_array().map(Vec::len), &jobs[49]["next_runs"][4]),
        (Some(50), &"2026-01-01T00:05:00Z".into())
    );
    assert_eq!(node.faulty.calls(lock_testkit::Op::Controls) - before, 1);
}

#[tokio::test(start_paused = true)]
async fn names_and_errors_of_a_hostile_job_are_text() {
    const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\"'&/..%2e";
    let fleet = Fleet::new();
    let node = fleet.node(HOSTILE);
    let job =
        node.cron.job(HOSTILE, lock_cron::Schedule::cron("* * * * *").expect("a good schedule"), |_| async {
            Err(HOSTILE.into())
        });
    job.register().expect("a good job");
    let running = node.start();
    sleep(secs(61)).await;
    let mut app = lock_cron::router(running.cron.clone());
    let path: String = HOSTILE.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let (status, history) = json(&mut app, &format!("/jobs/{path}/history")).await;
    assert_eq!(
        (status, &history[0]["detail"], &history[0]["node"]),
        (StatusCode::OK, &HOSTILE.into(), &HOSTILE.into())
    );
    let request = Request::get("/jobs").body(Body::empty()).expect("a good request");
    let response = app.call(request).await.expect("a router is infallible");
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(response.headers()["x-content-type-options"], "nosniff", "no browser takes it for a page");
    let (_, page) = get(&mut app, "/").await;
    assert!(
        !page.contains("innerHTML")
            && !page.contains("insertAdjacentHTML")
            && !page.contains("document.write")
    );
    let request = Request::post("/jobs").body(Body::empty()).expect("a good request");
    let response = app.call(request).await.expect("a router is infallible");
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "it only tells");
}
