//! Replies that do not fit their requests, as after a reply that was lost or arrived twice.

use crate::{
    scripted::{Answer, Arrived, BEGIN, Scripted, text},
    support::{Backed, acquire, acquisition, connected, meaning, name, release_request, renewal},
};
use lock_core::{
    FencingToken,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Applied, Backend, BackendErrorKind as Kind, BackendExt as _,
        Released,
    },
};
use lock_redis::client::Reply;
use std::time::Duration;
use tokio::time::sleep;

const UNKNOWN: (Kind, Applied) = (Kind::Protocol, Applied::Unknown);

/// Sets the reply to every script.
fn answer_scripts(client: &Scripted, reply: Reply) {
    client.answer(move |asked: &Arrived| match asked.name {
        "EVALSHA" | "EVAL" => Answer::Reply(reply.clone()),
        _ => Answer::Usual,
    });
}

/// Checks that the connection for requests, and no other, was replaced, and that it works.
async fn assert_replaced(client: &Scripted, backend: &Backed) {
    client.recover();
    let dials = client.server().dials.len();
    acquire(backend, "x").await.expect("another connection");
    assert_eq!(client.server().dials.len(), dials + 1);
}

#[tokio::test(start_paused = true)]
async fn number_that_is_no_time_of_the_server_is_no_success() {
    let (client, backend) = connected().await;
    let hour = 3_600_000_000;
    let begin = BEGIN.cast_signed();
    let numbers = [0, 1, 2, -1, begin - hour, begin + hour, 999_999_999_999_999, 1 << 53, i64::MAX];
    for number in numbers {
        let reentry = AcquireRequest { mode: AcquireMode::Reenter { depth: 2 }, ..acquisition("x") };
        answer_scripts(&client, Reply::Integer(number));
        assert_eq!(meaning(&acquire(&backend, "x").await), UNKNOWN, "{number}");
        assert_replaced(&client, &backend).await;
        answer_scripts(&client, Reply::Integer(number));
        assert_eq!(meaning(&backend.acquire(reentry).await), UNKNOWN, "{number}");
        assert_replaced(&client, &backend).await;
        answer_scripts(&client, Reply::Integer(number));
        assert_eq!(meaning(&backend.renew(vec![renewal("x")]).await.remove(0)), UNKNOWN, "{number}");
        assert_replaced(&client, &backend).await;
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_that_no_script_grants_are_no_grant() {
    let (client, backend) = connected().await;
    let granted = |parts: &[i64]| {
        let head = [text(&BEGIN.to_string()), text("granted")];
        Reply::List(head.into_iter().chain(parts.iter().copied().map(Reply::Integer)).collect())
    };
    for parts in [&[7, 6, 0][..], &[7, 1_008, 0], &[7, i64::MAX, 0], &[-1, 7, 0], &[1 << 53; 3], &[7, 7], &[]]
    {
        answer_scripts(&client, granted(parts));
        assert_eq!(meaning(&acquire(&backend, "x").await), UNKNOWN, "{parts:?}");
        assert_replaced(&client, &backend).await;
    }
    // The numbers of a counter that Redisson created are small.
    answer_scripts(&client, granted(&[7, 1_007, 1]));
    let (first, last) = (FencingToken::new(7), FencingToken::new(1_007));
    assert_eq!(acquire(&backend, "x").await.unwrap().outcome, Acquired::Granted { first, last });
}

/// With a floor, a grant has tokens.
#[tokio::test(start_paused = true)]
async fn time_alone_is_no_grant_above_a_floor() {
    let (client, backend) = connected().await;
    answer_scripts(&client, Reply::Integer(BEGIN.cast_signed()));
    let floor = Some(FencingToken::new(5));
    let mode = AcquireMode::New { reserve: 0, floor };
    assert_eq!(meaning(&backend.acquire(AcquireRequest { mode, ..acquisition("x") }).await), UNKNOWN);
}

/// A release is two commands with small numbers as replies. One of them arrives twice.
#[tokio::test(start_paused = true)]
async fn replies_out_of_step_are_no_grants() {
    for twice in ["HDEL", "PUBLISH"] {
        let (client, backend) = connected().await;
        acquire(&backend, "x").await.unwrap();
        client.answer(move |asked: &Arrived| if asked.name == twice { Answer::Twice } else { Answer::Usual });
        backend.release(release_request("x")).await.unwrap();
        // Both are sent before the first is answered.
        client.answer(|_| Answer::Late(Duration::from_millis(1)));
        let (first, second) = tokio::join!(acquire(&backend, "y"), acquire(&backend, "z"));
        assert_eq!(meaning(&first), UNKNOWN, "this is the reply to the release");
        assert_eq!(meaning(&second), (Kind::Unavailable, Applied::Unknown), "this is the reply to the first");
        assert_replaced(&client, &backend).await;
    }
}

/// A release that gets the reply to another request is not certain.
#[tokio::test(start_paused = true)]
async fn release_accepts_only_replies_to_its_commands() {
    let (client, backend) = connected().await;
    acquire(&backend, "x").await.unwrap();
    for (command, number) in [("HDEL", 2), ("HDEL", BEGIN), ("PUBLISH", BEGIN), ("PUBLISH", 1 << 32)] {
        client.answer(move |asked: &Arrived| match asked.name == command {
            true => Answer::Reply(Reply::Integer(number.cast_signed())),
            false => Answer::Usual,
        });
        assert_eq!(meaning(&backend.release(release_request("x")).await), UNKNOWN, "{command}");
        assert_replaced(&client, &backend).await;
    }
}

#[tokio::test(start_paused = true)]
async fn step_of_the_clock_is_believed_on_the_next_connection() {
    let (client, backend) = connected().await;
    for ahead in [Duration::from_secs(3_600), Duration::ZERO] {
        client.server().ahead = ahead;
        let refused = acquire(&backend, "x").await;
        assert_eq!(meaning(&refused), UNKNOWN);
        assert!(refused.unwrap_err().to_string().contains("the server's clock"));
        assert_replaced(&client, &backend).await;
        let estimate = backend.server_now(&name("any")).unwrap().as_micros();
        assert_eq!(estimate, client.server().now());
    }
}

/// A lease that ended with the step is gone, and its release says so.
#[tokio::test(start_paused = true)]
async fn step_of_the_clock_hides_no_loss() {
    let (client, backend) = connected().await;
    acquire(&backend, "x").await.unwrap();
    client.server().ahead = Duration::from_secs(3_600);
    let now = i64::try_from(client.server().now()).unwrap();
    let gone = move || Reply::List(vec![Reply::Integer(now), text("gone"), Reply::Integer(0)]);
    client.answer(move |asked: &Arrived| match asked.name {
        "HDEL" => Answer::Reply(Reply::Integer(0)),
        "EVALSHA" | "EVAL" => Answer::Reply(gone()),
        _ => Answer::Usual,
    });
    let released = backend.release(release_request("x")).await.unwrap();
    assert_eq!(released.outcome, Released::Gone { held_by_other: false });
    assert_replaced(&client, &backend).await;
}

/// A reply may take long without being wrong.
#[tokio::test(start_paused = true)]
async fn quiet_connection_keeps_the_trust() {
    let (client, backend) = connected().await;
    sleep(Duration::from_secs(3_600)).await;
    client.answer(|_| Answer::Late(Duration::from_millis(1_500)));
    acquire(&backend, "x").await.unwrap();
    assert_eq!(client.server().dials.len(), 2);
}
