//! Batches: when operations share a call, and how the failure of one operation or of the call affects the others.

use crate::{
    scripted::{Answer, Arrived, Scripted, in_one_text, refused, text},
    support::{
        Backed, acquire, acquisition, connected, fill_calls, meaning, release_request, renewal, submit,
    },
};
use futures_util::future::join_all;
use lock_core::backend::{
    AcquireMode, AcquireRequest, Acquired, Applied, Backend, BackendError, BackendErrorKind as Kind,
    BackendExt as _, Released, Renewed, Reply as Answered,
};
use lock_redis::client::Reply;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const WAY: Duration = Duration::from_millis(10);
const READ_ONLY: &str = "READONLY You can't write against a read only replica.";

/// Delays the call for `first`, so that later operations gather. `answers` answers everything else.
fn gather(client: &Scripted, mut answers: impl FnMut(&Arrived) -> Answer + Send + 'static) {
    client.answer(move |asked| match asked.arguments.get(2).is_some_and(|key| key == "first") {
        true => Answer::Late(WAY),
        false => answers(asked),
    });
}

/// Returns the replies to acquires that share a call.
async fn acquire_together(
    client: &Scripted,
    backend: &Backed,
    locks: &[String],
) -> Vec<Result<Answered<Acquired>, BackendError>> {
    client.server().arrived.clear();
    let (first, answers) =
        tokio::join!(acquire(backend, "first"), join_all(locks.iter().map(|lock| acquire(backend, lock))));
    first.expect("the first is valid");
    answers
}

fn locks(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("lock:{number}")).collect()
}

/// Returns the sizes of the calls that arrived, in order.
fn calls(client: &Scripted) -> Vec<usize> {
    let server = client.server();
    let size = |asked: &Arrived| if asked.runs("batch") { asked.batched().len() } else { 1 };
    server.arrived.iter().map(size).collect()
}

/// Connects a backend whose server knows all scripts.
async fn warm() -> (Scripted, Backed) {
    let (client, backend) = connected().await;
    gather(&client, |_| Answer::Usual);
    acquire_together(&client, &backend, &locks(2)).await;
    acquire(&backend, "x").await.unwrap();
    (client, backend)
}

#[tokio::test(start_paused = true)]
async fn operations_under_way_together_share_a_call() {
    let (client, backend) = warm().await;
    let answers = acquire_together(&client, &backend, &locks(10)).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(calls(&client), [1, 10], "later operations wait for the first");
    let tokens: Vec<_> = answers
        .into_iter()
        .map(|answer| match answer.unwrap().outcome {
            Acquired::Granted { first, .. } => first,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(tokens.is_sorted(), "each has its own answer: {tokens:?}");
}

#[tokio::test(start_paused = true)]
async fn enough_operations_do_not_wait() {
    let (client, backend) = warm().await;
    let begin = Instant::now();
    let answers = acquire_together(&client, &backend, &locks(100)).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(begin.elapsed(), WAY);
    let calls = calls(&client);
    assert_eq!(calls.iter().sum::<usize>(), 101);
    assert!(calls.len() <= 6 && calls.iter().all(|size| *size <= 32), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn lone_operation_has_its_own_script() {
    let (client, backend) = warm().await;
    client.server().arrived.clear();
    for _ in 0..10 {
        acquire(&backend, "x").await.unwrap();
    }
    assert_eq!(client.server().count(|asked| asked.runs("acquire")), 10);
    assert_eq!(client.server().arrived.len(), 10);
}

/// One failure of each kind. Each is only reported to its own operation.
#[tokio::test(start_paused = true)]
async fn failed_item_does_not_fail_its_neighbours() {
    let (client, backend) = warm().await;
    let now = || Reply::Integer(1_767_225_600_000_000);
    let list = |words: &[&str]| {
        Reply::List([now()].into_iter().chain(words.iter().map(|word| text(word))).collect())
    };
    let replies = vec![
        Reply::List(vec![now(), text("granted"), Reply::Integer(7), Reply::Integer(9), Reply::Integer(0)]),
        Reply::List(vec![now(), text("busy"), Reply::Integer(1_500)]),
        list(&["late"]),
        list(&["refused", "WRONGTYPE Operation against a key holding the wrong kind of value"]),
        // Failed midway.
        list(&["error", "ERR value is not an integer or out of range"]),
        list(&["error", "@user_script: 9: -OOM command not allowed when used memory > 'maxmemory'."]),
        list(&["error", "unknown word"]),
        list(&["gone"]),
        list(&["renewed"]),
        list(&["error", "WRONGTYPE Operation against a key holding the wrong kind of value"]),
        list(&["gone"]),
        list(&["late"]),
        Reply::List(vec![now(), text("gone"), Reply::Integer(1)]),
        Reply::List(vec![now(), text("released"), Reply::Integer(3)]),
    ];
    gather(&client, move |_| Answer::Reply(in_one_text(replies.clone())));
    let (first, acquires, reentry, renewals, releases) = tokio::join!(
        acquire(&backend, "first"),
        join_all(locks(7).iter().map(|lock| backend.acquire(acquisition(lock)))),
        backend.acquire(AcquireRequest { mode: AcquireMode::Reenter { depth: 2 }, ..acquisition("inner") }),
        backend.renew(["a", "b", "c", "d"].map(renewal).to_vec()),
        join_all(["e", "f"].map(|lock| backend.release(release_request(lock)))),
    );
    first.unwrap();
    assert!(matches!(acquires[0].as_ref().unwrap().outcome, Acquired::Granted { .. }));
    assert!(matches!(acquires[1].as_ref().unwrap().outcome, Acquired::Busy { .. }));
    assert_eq!(acquires[2].as_ref().unwrap().outcome, Acquired::Late);
    assert_eq!(meaning(&acquires[3]), (Kind::WrongType, Applied::No));
    assert_eq!(meaning(&acquires[4]), (Kind::Protocol, Applied::Unknown));
    assert_eq!(meaning(&acquires[5]), (Kind::Unavailable, Applied::No));
    assert_eq!(meaning(&acquires[6]), (Kind::Protocol, Applied::Unknown));
    assert_eq!(reentry.unwrap().outcome, Acquired::Gone);
    assert_eq!(renewals[0].as_ref().unwrap().outcome, Renewed::Renewed);
    assert_eq!(meaning(&renewals[1]), (Kind::WrongType, Applied::No));
    assert_eq!(renewals[2].as_ref().unwrap().outcome, Renewed::Gone);
    assert_eq!(renewals[3].as_ref().unwrap().outcome, Renewed::Late);
    assert_eq!(releases[0].as_ref().unwrap().outcome, Released::Gone { held_by_other: true });
    assert_eq!(releases[1].as_ref().unwrap().outcome, Released::Released { listeners: Some(3) });
}

#[tokio::test(start_paused = true)]
async fn batch_reply_of_another_length_is_unknown_for_all() {
    let (client, backend) = warm().await;
    for reply in ["1\nlate", "1\nlate\nlate\nlate\nlate", "1\nlate\nlate\nrefused", "late\nlate\nlate", ""] {
        client.recover();
        acquire(&backend, "x").await.unwrap();
        gather(&client, move |_| Answer::Reply(text(reply)));
        let locks = locks(3);
        let together = join_all(locks.iter().map(|lock| acquire(&backend, lock)));
        let (first, answers) = tokio::join!(acquire(&backend, "first"), together);
        for answer in answers {
            assert_eq!(meaning(&answer), (Kind::Protocol, Applied::Unknown), "{reply}");
        }
        assert!(first.is_err(), "the connection ended");
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_batch_script_is_sent_as_text_once() {
    let (client, backend) = warm().await;
    for (forgets, names) in [(true, vec!["EVALSHA", "EVAL"]), (false, vec!["EVALSHA"])] {
        gather(&client, |_| Answer::Usual);
        acquire(&backend, "x").await.unwrap();
        if forgets {
            client.server().forget_scripts();
            acquire(&backend, "x").await.unwrap();
        }
        let answers = acquire_together(&client, &backend, &locks(5)).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        let server = client.server();
        let batches: Vec<_> = server
            .arrived
            .iter()
            .filter(|asked| asked.arguments[1] == "10")
            .map(|asked| asked.name)
            .collect();
        assert_eq!(batches, names);
    }
}

/// The server checks the permissions for all keys of a script before running it.
#[tokio::test(start_paused = true)]
async fn denied_key_does_not_fail_the_batch() {
    let (client, backend) = warm().await;
    gather(&client, |asked| match asked.arguments.iter().any(|argument| argument == "lock:1") {
        true => Answer::Error(refused("NOPERM No permissions to access a key")),
        false => Answer::Usual,
    });
    let answers = acquire_together(&client, &backend, &locks(3)).await;
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    assert_eq!(meaning(&answers[1]), (Kind::Denied, Applied::No));
    assert_eq!(calls(&client), [1, 3, 1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn refused_batch_is_sent_one_by_one() {
    for error in ["OOM command not allowed when used memory > 'maxmemory'.", READ_ONLY] {
        let (client, backend) = warm().await;
        gather(&client, move |asked| match asked.runs("batch") {
            true => Answer::Error(refused(error)),
            false => Answer::Usual,
        });
        let answers = acquire_together(&client, &backend, &locks(4)).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        assert_eq!(calls(&client), [1, 4, 1, 1, 1, 1]);
        sleep(Duration::from_millis(300)).await;
        let dials = client.server().dials.len();
        assert_eq!(
            dials,
            if error == READ_ONLY { 4 } else { 2 },
            "connections to a replica are replaced: {error}"
        );
    }
}

/// Operations that may have been executed are not sent again.
#[tokio::test(start_paused = true)]
async fn failed_batch_is_unknown_for_all() {
    let (client, backend) = warm().await;
    gather(&client, |asked| match asked.runs("batch") {
        true => Answer::Error(refused("ERR Error running script: stack overflow")),
        false => Answer::Usual,
    });
    for answer in acquire_together(&client, &backend, &locks(3)).await {
        assert_eq!(meaning(&answer), (Kind::Protocol, Applied::Unknown));
    }
    assert_eq!(calls(&client), [1, 3]);
}

#[tokio::test(start_paused = true)]
async fn unwanted_operations_are_not_sent() {
    let (client, backend) = warm().await;
    client.server().arrived.clear();
    let first = submit(&backend, "first");
    let (a, b) = (submit(&backend, "a"), submit(&backend, "b"));
    drop(a);
    assert!(first.await.is_ok() && b.await.is_ok());
    assert_eq!(calls(&client), [1, 1]);
    let server = client.server();
    assert!(!server.arrived.iter().any(|asked| asked.arguments.iter().any(|argument| argument == "a")));
}

/// An operation whose time ends while it waits is certainly not executed. One that was late from
/// the beginning is sent, because the reply reports the server's clock.
#[tokio::test(start_paused = true)]
async fn operations_whose_time_ended_in_the_queue_are_not_sent() {
    let (client, backend) = warm().await;
    client.answer(|_| Answer::Late(WAY));
    let sent = fill_calls(&backend).await;
    client.answer(|_| Answer::Usual);
    let now = backend.server_now(&acquisition("x").name).unwrap();
    let until = |not_after| AcquireRequest { not_after, ..acquisition("short") };
    let (short, late) = tokio::join!(
        backend.acquire(until(now + WAY * 3 / 4)),
        backend.acquire(AcquireRequest {
            name: acquisition("late").name,
            ..until(lock_core::clock::UtcTime::from_micros(1))
        }),
    );
    assert!(join_all(sent).await.iter().all(Result::is_ok));
    assert_eq!(meaning(&short), (Kind::Timeout, Applied::No));
    late.expect("the server decides");
    let server = client.server();
    let sent =
        |lock: &str| server.arrived.iter().any(|asked| asked.arguments.iter().any(|word| word == lock));
    assert!(!sent("short") && sent("late"));
}

#[tokio::test(start_paused = true)]
async fn every_batch_sets_the_clock() {
    let (client, backend) = warm().await;
    client.answer(|_| Answer::Usual);
    client.server().ahead = Duration::from_secs(60);
    acquire_together(&client, &backend, &locks(3)).await;
    let estimate = backend.server_now(&acquisition("any").name).unwrap().as_micros();
    assert_eq!(estimate, client.server().now());
}

#[tokio::test(start_paused = true)]
async fn many_renewals_are_sent_in_small_batches() {
    let (client, backend) = warm().await;
    backend.renew(vec![renewal("x")]).await;
    client.server().arrived.clear();
    let items: Vec<_> = (0..500).map(|number| renewal(&format!("lock:{number}"))).collect();
    let answers = backend.renew(items).await;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().outcome == Renewed::Renewed));
    let calls = calls(&client);
    assert_eq!(calls.iter().sum::<usize>(), 500);
    assert!(calls.len() <= 20 && calls.iter().all(|size| *size <= 32), "{calls:?}");
}
