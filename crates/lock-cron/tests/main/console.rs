//! The routes of the console: the list, a job, the actions, and their errors.

use crate::fleet::{Fleet, secs};
use axum::{
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode, header, request::Parts},
    response::IntoResponse,
};
use lock_core::{LockName, clock::TestClock};
use lock_cron::{Actor, Scheduler, UtcTime};
use lock_ledger::{GroupName, JobDescription, Registration, RunLedger};
use serde_json::{Value, json};
use tokio::time::sleep;
use tower_service::Service;

async fn call(app: &mut axum::Router, request: Request<Body>) -> (StatusCode, HeaderMap, String) {
    let response = app.call(request).await.expect("a router is infallible");
    let (status, headers) = (response.status(), response.headers().clone());
    let body = to_bytes(response.into_body(), 1 << 20).await.expect("a short body");
    (status, headers, String::from_utf8(body.to_vec()).expect("text"))
}

async fn get(app: &mut axum::Router, path: &str) -> (StatusCode, String) {
    let (status, _, text) = call(app, Request::get(path).body(Body::empty()).expect("valid request")).await;
    (status, text)
}

async fn read(app: &mut axum::Router, path: &str) -> (StatusCode, Value) {
    let (status, text) = get(app, path).await;
    (status, serde_json::from_str(&text).expect("JSON"))
}

/// Sends an action as the page does, as the operator `ann`.
async fn act(app: &mut axum::Router, path: &str, body: &str) -> (StatusCode, Value) {
    act_with(app, path, body, &[("content-type", "application/json"), ("sec-fetch-site", "same-origin")])
        .await
}

async fn act_with(
    app: &mut axum::Router,
    path: &str,
    body: &str,
    headers: &[(&str, &str)],
) -> (StatusCode, Value) {
    let mut request = Request::post(path).header(header::HOST, "ops.example:8080").header("x-user", "ann");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (status, _, text) =
        call(app, request.body(Body::from(body.to_owned())).expect("valid request")).await;
    (status, serde_json::from_str(&text).unwrap_or_default())
}

fn with_actions(cron: Scheduler) -> axum::Router {
    lock_cron::router_with_actions(cron, |parts: &Parts| {
        let user = parts.headers.get("x-user").and_then(|user| user.to_str().ok());
        let actor = user.filter(|user| *user == "ann").map(Actor::new);
        async move { actor.ok_or_else(|| (StatusCode::UNAUTHORIZED, "who?").into_response()) }
    })
}

#[tokio::test(start_paused = true)]
async fn list_has_the_state_of_the_group() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "* * * * *", secs(90)).await;
    let mut app = axum::Router::new().nest_service("/cron", lock_cron::router(running.cron.clone()));
    sleep(secs(130)).await;
    let (status, list) = read(&mut app, "/cron/jobs").await;
    assert_eq!(status, StatusCode::OK);
    let row = &list["rows"][0];
    assert_eq!(
        (&row["name"], &row["schedule"], &row["words"]),
        (&"job".into(), &"* * * * *".into(), &"Every minute".into())
    );
    assert_eq!((&row["paused"], &row["recent"][0]), (&false.into(), &"skipped".into()));
    assert_eq!((&row["open"][0]["state"], &row["open"][0]["node"]), (&"running".into(), &"a".into()));
    assert_eq!(list["nodes"], json!([{ "name": "a", "leading": true }]));
    assert_eq!(
        list["counts"],
        json!({ "all": 1, "failing": 0, "overdue": 0, "paused": 0, "running": 1, "unowned": 0 })
    );
    assert_eq!(list["actions"], false);
    let (_, job) = read(&mut app, "/cron/jobs/job").await;
    assert_eq!(job["next"].as_array().map(Vec::len), Some(5));
    assert_eq!(job["next"][0], 1_767_225_780_000_u64, "00:03:00");
    assert_eq!((&job["runs"][0]["skipped"], &job["terms"][1][0]), (&1.into(), &"Overlap".into()));
    for path in ["/cron", "/cron/"] {
        let (status, page) = get(&mut app, path).await;
        assert!(status == StatusCode::OK && page.contains("<title>Jobs</title>"), "{path}");
    }
    assert_eq!(get(&mut app, "/cron/other").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn every_node_shows_the_jobs_of_other_nodes() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "0 2 * * *", secs(1)).await;
    sleep(secs(5)).await;
    let other = fleet.node("without-jobs");
    let mut app = lock_cron::router(other.cron.clone());
    let (_, list) = read(&mut app, "/jobs").await;
    let row = &list["rows"][0];
    assert_eq!(
        (&row["name"], &row["words"], &row["unowned"]),
        (&"job".into(), &"At 02:00".into(), &false.into())
    );
    let (_, job) = read(&mut app, "/jobs/job").await;
    assert_eq!(job["next"].as_array().map(Vec::len), Some(5));
    assert_eq!(job["terms"][1], json!(["Overlap", "skip while another run is open"]), "as it was described");
    running.kill();
    sleep(secs(60)).await;
    let (_, list) = read(&mut app, "/jobs?show=unowned").await;
    assert_eq!((&list["order"], &list["nodes"]), (&json!(["job"]), &json!([])), "no live node has it");
}

#[tokio::test(start_paused = true)]
async fn unknown_terms_of_a_later_version_are_shown() {
    let fleet = Fleet::new();
    let group = GroupName::new("g").expect("valid name");
    let job = LockName::new("job").expect("valid name");
    let registration = Registration { job: job.clone(), schedule: 7 };
    fleet.ledger.register(group.clone(), vec![registration]).await.expect("an answer");
    let description = JobDescription {
        job,
        schedule: "CRON_TZ=Europe/Berlin 30 2 * * *".to_owned(),
        dst: "skip both".to_owned(),
        terms: r#"[["Moon phase", "full", {"exact": true}], ["Overlap", "dance"]]"#.to_owned(),
        alert_after: None,
    };
    fleet.ledger.describe(group, vec![description]).await.expect("an answer");
    let mut app = lock_cron::router(fleet.node("without-jobs").cron);
    let (_, job) = read(&mut app, "/jobs/job").await;
    let rows = job["terms"].as_array().expect("rows").iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows: Vec<_> = rows.map(|row| (text(&row[0]), text(&row[1]))).collect();
    let expected = [
        ("Moon phase", "full"),
        ("Overlap", "dance"),
        ("Time zone", "Europe/Berlin"),
        ("Skipped times", "skipped"),
        ("Repeated times", "in both passes"),
    ];
    assert_eq!(rows, expected.map(|(name, words)| (name.to_owned(), words.to_owned())));
}

/// Adds an instance of the kind `import`, which runs every minute.
async fn add(cron: &Scheduler, id: &str) {
    let minutely = lock_cron::Schedule::cron("* * * * *").expect("valid schedule");
    cron.add("import", id, minutely, &7).await.expect("healthy store");
}

#[tokio::test(start_paused = true)]
async fn instances_come_and_go_with_their_definitions() {
    let fleet = Fleet::new();
    let tool = fleet.node("tool");
    let mut app = lock_cron::router(tool.cron.clone());
    for id in ["1", "2"] {
        add(&tool.cron, id).await;
    }
    let (_, list) = read(&mut app, "/jobs?show=unowned").await;
    assert_eq!((&list["order"], &list["nodes"]), (&json!(["import/1", "import/2"]), &json!([])));
    let row = &list["rows"][0];
    assert_eq!((&row["words"], &row["last"]), (&"Every minute".into(), &Value::Null), "never run");
    assert_eq!(row["next"], 1_767_225_660_000_u64, "00:01:00");
    let node = fleet.node("a");
    let kind = node.cron.kind("import", |_| async {
        sleep(secs(30)).await;
        Ok(())
    });
    kind.register().expect("valid kind");
    let running = node.start();
    sleep(secs(310)).await;
    let (_, list) = read(&mut app, "/jobs").await;
    assert_eq!(
        list["counts"],
        json!({ "all": 2, "failing": 0, "overdue": 0, "paused": 0, "running": 2, "unowned": 0 })
    );
    assert_eq!(list["rows"][0]["recent"][0], "succeeded");
    let mut here = lock_cron::router(running.cron.clone());
    let (_, job) = read(&mut here, "/jobs/import%2F1").await;
    assert_eq!(
        (&job["terms"][1][0], &job["runs"][0]["at"]),
        (&"Overlap".into(), &1_767_225_840_000_u64.into())
    );
    running.cron.remove("import", "1").await.expect("healthy store");
    running.cron.forget("import", "2").await.expect("healthy store");
    sleep(secs(2)).await;
    let (_, list) = read(&mut app, "/jobs").await;
    assert_eq!(list["order"], json!(["import/1"]), "still has an open run");
    sleep(secs(60)).await;
    let (_, list) = read(&mut app, "/jobs").await;
    assert_eq!((&list["order"], &list["counts"]["all"]), (&json!([]), &0.into()));
    assert_eq!(read(&mut app, "/jobs/import%2F1").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn every_node_shows_the_terms_of_other_nodes_kinds() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    let kind = node.cron.kind("import", |_| async { Err("it fails".into()) });
    let kind = kind.overlap(lock_cron::Overlap::QueueOne).pool("heavy", 2).alert_after(secs(200));
    kind.register().expect("valid kind");
    let running = node.start();
    let tool = fleet.node("without-the-kind");
    add(&tool.cron, "1").await;
    sleep(secs(3)).await;
    let mut there = lock_cron::router(tool.cron.clone());
    let (_, of_tool) = read(&mut there, "/jobs/import%2F1").await;
    let (_, of_node) = read(&mut lock_cron::router(running.cron.clone()), "/jobs/import%2F1").await;
    assert_eq!(of_tool["terms"], of_node["terms"]);
    let terms = of_tool["terms"].as_array().expect("rows");
    assert!(terms.contains(&json!(["Overlap", "queue one run"])), "{terms:?}");
    sleep(secs(200)).await;
    let (_, list) = read(&mut there, "/jobs").await;
    assert_eq!((&list["order"], &list["counts"]["overdue"]), (&json!(["import/1"]), &1.into()));
    running.kill();
    sleep(secs(60)).await;
    let (_, job) = read(&mut there, "/jobs/import%2F1").await;
    assert_eq!((&job["terms"], &job["row"]["unowned"]), (&of_tool["terms"], &true.into()));
}

#[tokio::test(start_paused = true)]
async fn changed_instance_has_its_new_schedule() {
    let fleet = Fleet::new();
    let tool = fleet.node("tool");
    let mut app = lock_cron::router(tool.cron.clone());
    add(&tool.cron, "1").await;
    let (_, list) = read(&mut app, "/jobs").await;
    assert_eq!(list["rows"][0]["words"], "Every minute");
    let since = format!("/jobs?since={}", list["version"].as_str().expect("a text"));
    let at = lock_cron::UtcTime::from_millis(1_767_229_200_000);
    tool.cron.once("import", "2", at, &7).await.expect("healthy store");
    sleep(secs(2)).await;
    let (_, list) = read(&mut app, &since).await;
    assert_eq!(
        (list["rows"].as_array().map(Vec::len), &list["rows"][0]["name"]),
        (Some(1), &"import/2".into())
    );
    assert_eq!(list["rows"][0]["next"], 1_767_229_200_000_u64);
    let summer = |gap| {
        let schedule =
            lock_cron::Schedule::cron("CRON_TZ=Europe/Berlin 30 2 29 3 *").expect("valid schedule");
        schedule.on_dst(lock_cron::DstPolicy { gap, fold: lock_cron::Fold::First })
    };
    for (gap, next) in
        [(lock_cron::Gap::RunOnce, 1_774_746_000_000_u64), (lock_cron::Gap::ShiftForward, 1_774_747_800_000)]
    {
        tool.cron.add("import", "1", summer(gap), &7).await.expect("healthy store");
        sleep(secs(2)).await;
        let (_, job) = read(&mut app, "/jobs/import%2F1").await;
        assert_eq!(job["row"]["next"], next, "{gap:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failing_job_is_first_with_its_reason() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    node.job("first", "* * * * *", secs(1)).register().expect("valid job");
    let schedule = lock_cron::Schedule::cron("* * * * *").expect("valid schedule");
    let failing = node.cron.job("second", schedule, |_| async { Err("the bank is closed".into()) });
    failing.retries(lock_cron::Retries::times(1)).register().expect("valid job");
    let running = node.start();
    sleep(secs(150)).await;
    let mut app = lock_cron::router(running.cron.clone());
    let (_, list) = read(&mut app, "/jobs").await;
    assert_eq!(list["order"], json!(["second", "first"]));
    let row = &list["rows"][0];
    assert_eq!((&row["failing"], &row["last"]["detail"]), (&true.into(), &"the bank is closed".into()));
    assert_eq!(row["recent"], json!(["failed", "failed", "failed", "failed"]));
    let (_, job) = read(&mut app, "/jobs/second").await;
    let attempts = job["runs"][1]["attempts"].as_array().expect("attempts");
    assert_eq!(attempts.iter().map(|of| &of["attempt"]).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(row["failing_since"], attempts[1]["ended"], "since the first attempt that failed");
}

#[tokio::test(start_paused = true)]
async fn only_changed_rows_are_sent_again() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    for number in 0..250 {
        node.job(&format!("job-{number:03}"), "0 2 * * *", secs(1)).register().expect("valid job");
    }
    let running = node.start();
    sleep(secs(5)).await;
    let mut app = with_actions(running.cron.clone());
    let (_, list) = read(&mut app, "/jobs").await;
    assert_eq!((list["rows"].as_array().map(Vec::len), &list["found"]), (Some(100), &250.into()));
    let since = format!("/jobs?since={}", list["version"].as_str().expect("a text"));
    sleep(secs(2)).await;
    let (_, list) = read(&mut app, &since).await;
    assert_eq!((&list["rows"], list["order"].as_array().map(Vec::len)), (&json!([]), Some(100)));
    act(&mut app, "/jobs/job-007/resume", "{}").await;
    act(&mut app, "/jobs/job-007/pause", r#"{"note":"a"}"#).await;
    let (_, list) = read(&mut app, &since).await;
    assert_eq!(
        (list["rows"].as_array().map(Vec::len), &list["rows"][0]["name"]),
        (Some(1), &"job-007".into())
    );
    let (_, list) = read(&mut app, "/jobs?q=JOB-24&limit=3&since=another-9").await;
    assert_eq!((&list["order"], &list["found"]), (&json!(["job-240", "job-241", "job-242"]), &10.into()));
    assert_eq!(list["rows"].as_array().map(Vec::len), Some(3), "versions of another console are unknown");
    for query in ["show=other", "limit=0", "limit=1001", "limit=x"] {
        let (status, answer) = read(&mut app, &format!("/jobs?{query}")).await;
        assert_eq!((status, &answer["kind"]), (StatusCode::BAD_REQUEST, &"bad_input".into()), "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn viewers_share_the_reads_of_the_store() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    node.job("job", "* * * * *", secs(1)).register().expect("valid job");
    let mut app = lock_cron::router(node.cron.clone());
    let before = node.faulty.calls(lock_testkit::Op::Summary);
    for _ in 0..20 {
        read(&mut app, "/jobs").await;
    }
    assert_eq!(node.faulty.calls(lock_testkit::Op::Summary) - before, 1);
}

/// A viewer that disconnects during a read does not make the next viewer read at once.
#[tokio::test(start_paused = true)]
async fn disconnecting_viewers_do_not_add_reads() {
    let fleet = Fleet::new();
    let node = fleet.node("a");
    node.job("job", "* * * * *", secs(1)).register().expect("valid job");
    let mut app = lock_cron::router(node.cron.clone());
    node.faulty.always(lock_testkit::Op::Summary, lock_testkit::Fault::Hang);
    let before = node.faulty.calls(lock_testkit::Op::Summary);
    for _ in 0..20 {
        let viewer = tokio::time::timeout(std::time::Duration::from_millis(10), get(&mut app, "/jobs"));
        assert!(viewer.await.is_err());
    }
    assert_eq!(node.faulty.calls(lock_testkit::Op::Summary) - before, 1);
    node.faulty.heal();
    assert_eq!(read(&mut app, "/jobs").await.1["counts"]["all"], 1);
}

#[tokio::test(start_paused = true)]
async fn actions_change_the_fleet() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "0 2 * * *", secs(1)).await;
    sleep(secs(5)).await;
    let mut app = with_actions(running.cron.clone());
    let (status, answer) = act(&mut app, "/jobs/job/run", "{}").await;
    assert_eq!(status, StatusCode::OK);
    sleep(secs(5)).await;
    let (_, job) = read(&mut app, "/jobs/job").await;
    assert_eq!((&job["runs"][0]["run"], &job["runs"][0]["triggered"]), (&answer["run"], &true.into()));
    assert_eq!(act(&mut app, "/jobs/job/pause", r#"{"note":"the bank is closed"}"#).await.0, StatusCode::OK);
    let paused = &running.cron.list().await.expect("healthy store")[0];
    assert_eq!((&*paused.note.actor, &*paused.note.text), ("ann", "the bank is closed"));
    assert!(paused.paused && paused.last_success.is_some());
    let (_, list) = read(&mut app, "/jobs?show=paused").await;
    assert_eq!((&list["rows"][0]["actor"], &list["actions"]), (&"ann".into(), &true.into()));
    act(&mut app, "/jobs/job/resume", "{}").await;
    act(&mut app, "/jobs/job/replace", r#"{"schedule":"0 3 * * *"}"#).await;
    let (_, job) = read(&mut app, "/jobs/job").await;
    let row = &job["row"];
    assert_eq!(
        (&row["paused"], &row["note"], &row["words"]),
        (&false.into(), &"".into(), &"At 03:00".into())
    );
    act(&mut app, "/jobs/job/restore", "{}").await;
    assert_eq!(read(&mut app, "/jobs/job").await.1["row"]["replaced"], false);
}

#[tokio::test(start_paused = true)]
async fn open_run_is_cancelled() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "0 2 * * *", secs(600)).await;
    sleep(secs(5)).await;
    let mut app = with_actions(running.cron.clone());
    let (_, answer) = act(&mut app, "/jobs/job/run", "{}").await;
    sleep(secs(5)).await;
    let (_, job) = read(&mut app, "/jobs/job").await;
    assert_eq!(
        (&job["row"]["open"][0]["run"], job["row"]["open"][0]["cancelled"].as_bool()),
        (&answer["run"], Some(false))
    );
    assert_eq!(act(&mut app, "/jobs/job/cancel", r#"{"run":"x"}"#).await.0, StatusCode::BAD_REQUEST);
    let body = json!({ "run": answer["run"] }).to_string();
    assert_eq!(
        act(&mut app, "/jobs/job/cancel", &body).await,
        (StatusCode::OK, json!({ "cancelled": true }))
    );
    sleep(secs(5)).await;
    let (_, job) = read(&mut app, "/jobs/job").await;
    assert_eq!(job["row"]["open"], json!([]));
    assert_eq!(job["runs"][0]["attempts"][0]["outcome"], "cancelled");
    assert_eq!(
        act(&mut app, "/jobs/job/cancel", &body).await,
        (StatusCode::OK, json!({ "cancelled": false }))
    );
}

#[tokio::test(start_paused = true)]
async fn backfill_is_shown_and_cancelled() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "*/20 * * * *", secs(30)).await;
    let mut app = with_actions(fleet.node("without-jobs").cron);
    sleep(secs(2)).await;
    let begin = TestClock::WALL_AT_START.as_millis();
    let last_hour = UtcTime::from_millis(begin - 3_600_000)..UtcTime::from_millis(begin);
    let id = running.cron.backfill("job", last_hour, 3).await.expect("three instants").to_string();
    sleep(secs(45)).await;
    let (_, list) = read(&mut app, "/jobs").await;
    let (first, last) = (begin - 3_600_000, begin - 1_200_000);
    let half = json!([{ "id": id, "first": first, "last": last, "done": 1, "open": 1, "left": 1 }]);
    assert_eq!(list["rows"][0]["backfills"], half);
    let body = json!({ "backfill": id }).to_string();
    let withdrawn = |cancelled: bool| (StatusCode::OK, json!({ "cancelled": cancelled }));
    let (status, answer) = act(&mut app, "/jobs/jop/cancel-backfill", &body).await;
    assert_eq!((status, &answer["kind"]), (StatusCode::NOT_FOUND, &"unknown_job".into()));
    assert_eq!(act(&mut app, "/jobs/job/cancel-backfill", &body).await, withdrawn(true));
    let (_, job) = read(&mut app, "/jobs/job").await;
    assert_eq!(job["row"]["backfills"], json!([]));
    assert_eq!(job["row"]["open"][0]["backfill"], true, "the open run continues");
    assert_eq!(act(&mut app, "/jobs/job/cancel-backfill", &body).await, withdrawn(false));
}

#[tokio::test(start_paused = true)]
async fn requests_from_other_sites_are_rejected() {
    const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");
    let fleet = Fleet::new();
    let running = fleet.simple("a", "0 2 * * *", secs(1)).await;
    let mut app = with_actions(running.cron.clone());
    for (headers, status) in [
        (vec![], StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (
            vec![("content-type", "text/plain"), ("sec-fetch-site", "same-origin")],
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ),
        (vec![JSON], StatusCode::FORBIDDEN),
        (vec![JSON, ("sec-fetch-site", "same-site")], StatusCode::FORBIDDEN),
        (
            vec![JSON, ("sec-fetch-site", "cross-site"), ("origin", "http://ops.example:8080")],
            StatusCode::FORBIDDEN,
        ),
        (vec![JSON, ("origin", "http://evil.example")], StatusCode::FORBIDDEN),
        (vec![JSON, ("origin", "null")], StatusCode::FORBIDDEN),
        (vec![JSON, ("origin", "http://ops.example:8080")], StatusCode::OK),
        (vec![JSON, ("sec-fetch-site", "same-origin")], StatusCode::OK),
    ] {
        let answer = act_with(&mut app, "/jobs/job/pause", r#"{"note":""}"#, &headers).await;
        assert_eq!(answer.0, status, "{headers:?}");
        let paused = running.cron.list().await.expect("healthy store")[0].paused;
        assert_eq!(paused, status == StatusCode::OK, "{headers:?}");
        running.cron.resume("job").await.expect("healthy store");
    }
}

#[tokio::test(start_paused = true)]
async fn guard_runs_before_the_body_is_parsed() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "0 2 * * *", secs(1)).await;
    let mut app = with_actions(running.cron.clone());
    let request = Request::post("/jobs/job/pause").header("content-type", "application/json");
    let request = request.header("sec-fetch-site", "same-origin").header("x-user", "eve");
    let (status, _, text) =
        call(&mut app, request.body(Body::from("not JSON")).expect("valid request")).await;
    assert_eq!((status, &*text), (StatusCode::UNAUTHORIZED, "who?"));
    let mut read_only = lock_cron::router(running.cron.clone());
    assert_eq!(act(&mut read_only, "/jobs/job/pause", r#"{"note":""}"#).await.0, StatusCode::NOT_FOUND);
    assert!(!running.cron.list().await.expect("healthy store")[0].paused);
}

#[tokio::test(start_paused = true)]
async fn errors_have_a_kind() {
    let fleet = Fleet::new();
    let running = fleet.simple("a", "0 2 * * *", secs(1)).await;
    sleep(secs(5)).await;
    let mut app = with_actions(running.cron.clone());
    let long = json!({ "note": "x".repeat(1001) }).to_string();
    for (path, body, status, kind) in [
        ("/jobs/jop/run", "{}", StatusCode::NOT_FOUND, "unknown_job"),
        ("/jobs/job/explode", "{}", StatusCode::NOT_FOUND, "unknown_action"),
        ("/jobs/job/run", "", StatusCode::BAD_REQUEST, "bad_input"),
        ("/jobs/job/run", "[]", StatusCode::BAD_REQUEST, "bad_input"),
        ("/jobs/job/pause", r#"{"note":7}"#, StatusCode::BAD_REQUEST, "bad_input"),
        ("/jobs/job/pause", &long, StatusCode::BAD_REQUEST, "invalid_options"),
        ("/jobs/job/cancel-backfill", r#"{"backfill":"7"}"#, StatusCode::BAD_REQUEST, "bad_input"),
        ("/jobs/job/replace", "{}", StatusCode::BAD_REQUEST, "bad_input"),
        ("/jobs/job/replace", r#"{"schedule":"0 25 * * *"}"#, StatusCode::BAD_REQUEST, "invalid_schedule"),
    ] {
        let (answered, answer) = act(&mut app, path, body).await;
        assert_eq!((answered, &answer["kind"]), (status, &kind.into()), "{path} {body}: {answer}");
        assert!(answer["error"].as_str().is_some_and(|error| error.len() > 10), "{answer}");
    }
    let (status, answer) = read(&mut app, "/jobs/jop").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(answer["error"].as_str().expect("a text").contains("jop"), "{answer}");
    running.faulty.always_all(lock_testkit::Fault::Hang);
    sleep(secs(2)).await;
    let (status, body) = read(&mut app, "/jobs").await;
    assert_eq!(
        (status, &body["error"]),
        (StatusCode::SERVICE_UNAVAILABLE, &"a request to the store failed: try again later".into())
    );
}

#[tokio::test(start_paused = true)]
async fn names_and_errors_of_a_hostile_job_are_escaped() {
    const HOSTILE: &str = "<script><img src=x onerror=alert(1)>\"'&..%2e";
    let fleet = Fleet::new();
    let node = fleet.node(HOSTILE);
    let schedule = lock_cron::Schedule::cron("* * * * *").expect("valid schedule");
    let job = node.cron.job(HOSTILE, schedule, |_| async { Err(HOSTILE.into()) });
    job.register().expect("valid job");
    let running = node.start();
    sleep(secs(61)).await;
    let mut app = with_actions(running.cron.clone());
    let path: String = HOSTILE.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let (status, job) = read(&mut app, &format!("/jobs/{path}")).await;
    let attempt = &job["runs"][0]["attempts"][0];
    assert_eq!(
        (status, &attempt["detail"], &attempt["node"]),
        (StatusCode::OK, &HOSTILE.into(), &HOSTILE.into())
    );
    assert_eq!(act(&mut app, &format!("/jobs/{path}/run"), "{}").await.0, StatusCode::OK);
    let request = Request::get("/jobs").body(Body::empty()).expect("valid request");
    let (_, headers, _) = call(&mut app, request).await;
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(headers["x-content-type-options"], "nosniff", "not rendered as a page");
    let request = || Request::get("/").body(Body::empty()).expect("valid request");
    let (_, headers, page) = call(&mut app, request()).await;
    let policy = headers["content-security-policy"].to_str().expect("text").to_owned();
    assert!(policy.contains("default-src 'none'") && policy.contains("require-trusted-types-for 'script'"));
    assert!(!page.contains("{{nonce}}") && !policy.contains("unsafe-inline"));
    assert_ne!(call(&mut app, request()).await.1["content-security-policy"], policy, "a nonce is used once");
}
