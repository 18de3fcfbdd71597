//! Completions: each operation is answered exactly once, whatever happens to its connection, its runtime and other
//! operations.

use crate::{
    scripted::{Answer, Dial},
    support::{Backed, acquire, connected, fill_calls, meaning, submit},
};
use futures_util::future::join_all;
use lock_core::{
    __private::Answer as Future,
    backend::{Applied, BackendErrorKind as Kind},
};
use lock_redis::client::DialErrorKind;
use std::{
    future::Future as _,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Wake, Waker},
    time::Duration,
};
use tokio::time::{Instant, sleep};

const NOBODY: Dial = Dial::Failed(DialErrorKind::NobodyListens, "Connection refused");

/// Returns operations that were sent, and two that wait behind them.
async fn sent_and_two_queued(backend: &Backed) -> (Vec<Future>, [Future; 2]) {
    (fill_calls(backend).await, ["queued:1", "queued:2"].map(|lock| submit(backend, lock)))
}

#[tokio::test(start_paused = true)]
async fn cut_connection_fails_sent_operations_only() {
    let (client, backend) = connected().await;
    acquire(&backend, "x").await.unwrap();
    client.answer(|_| Answer::Never);
    let (sent, [one, two]) = sent_and_two_queued(&backend).await;
    let begin = Instant::now();
    client.recover();
    client.cut();
    for answer in join_all(sent).await {
        assert_eq!(meaning(&answer), (Kind::Unavailable, Applied::Unknown));
    }
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert!(one.await.is_ok() && two.await.is_ok(), "sent over the next connection");
}

#[tokio::test(start_paused = true)]
async fn queued_operations_wait_300_ms_for_a_connection() {
    let (client, backend) = connected().await;
    acquire(&backend, "x").await.unwrap();
    client.answer(|_| Answer::Never);
    let (sent, [one, two]) = sent_and_two_queued(&backend).await;
    client.server().dial = NOBODY;
    client.cut();
    for answer in join_all(sent).await {
        assert_eq!(meaning(&answer), (Kind::Unavailable, Applied::Unknown));
    }
    let begin = Instant::now();
    sleep(Duration::from_millis(100)).await;
    let later = submit(&backend, "later");
    for queued in [one, two] {
        assert_eq!(meaning(&queued.await), (Kind::Unavailable, Applied::No));
    }
    assert_eq!(begin.elapsed(), Duration::from_millis(300));
    assert_eq!(meaning(&later.await), (Kind::Unavailable, Applied::No));
    assert_eq!(begin.elapsed(), Duration::from_millis(400), "each has its own time limit");
    client.recover();
    sleep(Duration::from_secs(1)).await;
    acquire(&backend, "x").await.expect("the server is back");
    assert_eq!(client.server().count(|asked| asked.arguments.iter().any(|word| word == "later")), 0);
}

/// The client library breaks its contract: it never answers one call, but answers others.
#[tokio::test(start_paused = true)]
async fn operation_that_is_never_answered_ends() {
    let (client, backend) = connected().await;
    acquire(&backend, "x").await.unwrap();
    client.answer(|asked| if asked.name == "PING" { Answer::Usual } else { Answer::Never });
    let pings = async {
        loop {
            sleep(Duration::from_secs(1)).await;
            backend.ping().await.unwrap();
        }
    };
    let begin = Instant::now();
    tokio::select! {
        answer = submit(&backend, "y") => assert_eq!(meaning(&answer).1, Applied::Unknown),
        () = pings => {}
    }
    let waited = begin.elapsed().as_secs();
    assert!((30..=40).contains(&waited), "{waited} s");
    client.recover();
    acquire(&backend, "z").await.expect("the connection stays in use");
    assert_eq!(client.server().dials.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn late_answer_is_delivered() {
    let (client, backend) = connected().await;
    acquire(&backend, "x").await.unwrap();
    client.answer(|_| Answer::Late(Duration::from_millis(1_500)));
    let answers = join_all((0..100).map(|number| submit(&backend, &format!("lock:{number}")))).await;
    assert!(answers.iter().all(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn dropped_backend_answers_its_operations() {
    let (client, backend) = connected().await;
    acquire(&backend, "x").await.unwrap();
    client.answer(|_| Answer::Never);
    let (sent, [one, two]) = sent_and_two_queued(&backend).await;
    drop(backend);
    for answer in join_all(sent).await {
        assert_eq!(meaning(&answer), (Kind::Unavailable, Applied::Unknown));
    }
    for queued in [one, two] {
        assert_eq!(meaning(&queued.await).1, Applied::No);
    }
    sleep(Duration::from_millis(1)).await;
    assert_eq!(client.server().open(), 0, "no open connection is left");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn end_of_the_runtime_answers_all_operations() {
    let (home, other) = (runtime(), runtime());
    let (client, backend) = home.block_on(connected());
    home.block_on(acquire(&backend, "x")).unwrap();
    client.answer(|_| Answer::Never);
    let (sent, [one, two]) = home.block_on(sent_and_two_queued(&backend));
    drop(home);
    for answer in other.block_on(join_all(sent)) {
        assert_eq!(meaning(&answer), (Kind::Unavailable, Applied::Unknown));
    }
    for queued in [one, two] {
        assert_eq!(meaning(&other.block_on(queued)), (Kind::Misconfigured, Applied::No));
    }
    // Awaited outside of any runtime, and inside another one.
    let outside = submit(&backend, "outside");
    assert_eq!(meaning(&other.block_on(outside)), (Kind::Misconfigured, Applied::No));
    let inside = other.block_on(async { submit(&backend, "inside").await });
    assert_eq!(meaning(&inside), (Kind::Misconfigured, Applied::No));
}

/// Operations are submitted outside the connection's runtime; its task sends them.
#[test]
fn operations_come_from_other_runtimes_and_threads() {
    let (home, other) = (runtime(), runtime());
    let (_client, backend) = home.block_on(connected());
    let outside = submit(&backend, "outside");
    let [inside] = other.block_on(async { [submit(&backend, "inside")] });
    assert!(home.block_on(outside).is_ok() && home.block_on(inside).is_ok());
}

/// Submits another operation when woken, like the completion of a lock.
struct Submits {
    backend: Backed,
    answers: Mutex<Vec<Future>>,
}

impl Wake for Submits {
    fn wake(self: Arc<Self>) {
        let answer = submit(&self.backend, "next");
        self.answers.lock().unwrap().push(answer);
    }
}

#[tokio::test(start_paused = true)]
async fn completion_may_submit() {
    let (client, backend) = connected().await;
    acquire(&backend, "x").await.unwrap();
    client.answer(|_| Answer::Late(Duration::from_millis(1)));
    let submits = Arc::new(Submits { backend: backend.clone(), answers: Mutex::default() });
    let waker = Waker::from(submits.clone());
    let mut waiting: Vec<_> =
        (0..40).map(|number| Box::pin(submit(&backend, &format!("{number}")))).collect();
    for answer in &mut waiting {
        assert!(answer.as_mut().poll(&mut Context::from_waker(&waker)).is_pending(), "not in the call");
    }
    sleep(Duration::from_millis(5)).await;
    assert!(join_all(waiting).await.iter().all(Result::is_ok));
    let answers = std::mem::take(&mut *submits.answers.lock().unwrap());
    assert!(!answers.is_empty());
    assert!(join_all(answers).await.iter().all(Result::is_ok));
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("planned panic of a completion");
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_completion_affects_no_other() {
    let (client, backend) = connected().await;
    acquire(&backend, "x").await.unwrap();
    client.answer(|_| Answer::Late(Duration::from_millis(1)));
    let first = submit(&backend, "first");
    let mut panicking = pin!(submit(&backend, "panics"));
    let waker = Waker::from(Arc::new(Panics));
    assert!(panicking.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let others: Vec<_> = (0..5).map(|number| submit(&backend, &format!("{number}"))).collect();
    assert!(first.await.is_ok());
    assert!(join_all(others).await.iter().all(Result::is_ok));
    acquire(&backend, "x").await.expect("the task continues");
}

/// Even an error that is known immediately is not reported inside the call.
#[tokio::test(start_paused = true)]
async fn operation_is_never_answered_in_the_call() {
    let (client, backend) = connected().await;
    acquire(&backend, "x").await.unwrap();
    tokio::task::yield_now().await;
    client.answer(|_| Answer::Error(lock_redis::client::CallError::NotSent("no room".to_owned())));
    let mut answer = pin!(submit(&backend, "x"));
    assert!(answer.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(meaning(&answer.await), (Kind::Unavailable, Applied::No));
}
