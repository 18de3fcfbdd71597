//! Subscriptions: acknowledged by the server, renewed after a loss, and independent of each other.

use crate::{
    scripted::{Answer, Arrived, Dial, refused},
    support::{Listener, connected, meaning, name},
};
use lock_core::backend::{Applied, BackendErrorKind as Kind, Subscriptions as _};
use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};
use tokio::time::{Instant, sleep};

fn channel(lock: &str) -> String {
    format!("redisson_lock__channel:{{{lock}}}")
}

/// Returns `true` if the command subscribes to the channel of this lock.
fn subscribes(asked: &Arrived, lock: &str) -> bool {
    asked.name == "SUBSCRIBE" && asked.arguments.contains(&channel(lock))
}

fn denies(lock: &'static str) -> impl FnMut(&Arrived) -> Answer {
    move |asked| match subscribes(asked, lock) {
        true => Answer::Error(refused("NOPERM no permissions to access one of the channels")),
        false => Answer::Usual,
    }
}

#[tokio::test(start_paused = true)]
async fn watch_ends_with_the_acknowledgement() {
    let (client, backend) = connected().await;
    let (listener, id) = Listener::attached(&backend);
    client.answer(|asked| match asked.name {
        "SUBSCRIBE" => Answer::Late(Duration::from_millis(70)),
        _ => Answer::Usual,
    });
    let begin = Instant::now();
    backend.subscribe(id, name("x")).await.unwrap();
    assert_eq!(begin.elapsed(), Duration::from_millis(70));
    assert_eq!(client.publish(&channel("x")), 1);
    assert_eq!(listener.take(), ["x"]);
    backend.subscribe(id, name("x")).await.unwrap();
    assert_eq!(begin.elapsed(), Duration::from_millis(70), "already subscribed");
    backend.unsubscribe(id, name("x")).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(client.server().subscribed(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn simultaneous_watches_are_one_request() {
    let (client, backend) = connected().await;
    let (_listener, id) = Listener::attached(&backend);
    client.server().arrived.clear();
    let names: Vec<_> = (0..500).map(|number| name(&format!("x:{number}"))).collect();
    let watches = names.iter().map(|name| backend.subscribe(id, name.clone()));
    for watch in futures_util::future::join_all(watches).await {
        watch.unwrap();
    }
    let server = client.server();
    assert_eq!(server.subscribed().len(), 500);
    assert!(server.count(|asked| asked.name == "SUBSCRIBE") <= 2, "{:?}", server.arrived.len());
}

/// Both names share one channel. Each is woken, and neither ends the other's subscription.
#[tokio::test(start_paused = true)]
async fn name_in_braces_shares_the_channel() {
    let (client, backend) = connected().await;
    let (listener, id) = Listener::attached(&backend);
    backend.subscribe(id, name("a")).await.unwrap();
    backend.subscribe(id, name("{a}")).await.unwrap();
    client.publish(&channel("a"));
    let mut heard = listener.take();
    heard.sort_unstable();
    assert_eq!(heard, ["a", "{a}"]);
    backend.unsubscribe(id, name("a")).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    client.publish(&channel("a"));
    assert_eq!(listener.take(), ["{a}"]);
}

#[tokio::test(start_paused = true)]
async fn reconnect_wakes_all_once_channels_stand() {
    let (client, backend) = connected().await;
    let (listener, id) = Listener::attached(&backend);
    backend.subscribe(id, name("x")).await.unwrap();
    client.cut();
    client.answer(|asked| match asked.name {
        "SUBSCRIBE" => Answer::Late(Duration::from_millis(70)),
        _ => Answer::Usual,
    });
    sleep(Duration::from_millis(150)).await;
    assert_eq!(listener.take(), Vec::<String>::new(), "no subscription yet");
    sleep(Duration::from_millis(200)).await;
    assert_eq!(listener.take(), ["all: Reconnected"]);
    assert_eq!(client.server().subscribed(), [channel("x")]);
    client.publish(&channel("x"));
    assert_eq!(listener.take(), ["x"]);
}

#[tokio::test(start_paused = true)]
async fn dropped_messages_wake_all() {
    let (client, backend) = connected().await;
    let (listener, id) = Listener::attached(&backend);
    backend.subscribe(id, name("x")).await.unwrap();
    client.lag();
    assert_eq!(listener.take(), ["all: Lagged"]);
}

#[tokio::test(start_paused = true)]
async fn panicking_listener_affects_no_other() {
    let (client, backend) = connected().await;
    let (_bad, bad_id) = Listener::panicking(&backend);
    let (good, good_id) = Listener::attached(&backend);
    backend.subscribe(bad_id, name("a")).await.unwrap();
    backend.subscribe(good_id, name("b")).await.unwrap();
    client.publish(&channel("a"));
    client.publish(&channel("b"));
    assert_eq!(good.take(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn panicking_listener_affects_no_other_of_its_name() {
    let (client, backend) = connected().await;
    let (_bad, bad_id) = Listener::panicking(&backend);
    let (good, good_id) = Listener::attached(&backend);
    // The order of two listeners differs by name.
    let names: Vec<_> = (0..16).map(|number| format!("lock:{number}")).collect();
    for lock in &names {
        backend.subscribe(bad_id, name(lock)).await.unwrap();
        backend.subscribe(good_id, name(lock)).await.unwrap();
        client.publish(&channel(lock));
    }
    assert_eq!(good.take(), names);
}

#[tokio::test(start_paused = true)]
async fn refused_channel_does_not_affect_others() {
    let (client, backend) = connected().await;
    let (listener, id) = Listener::attached(&backend);
    client.answer(denies("no"));
    let names: Vec<_> = (0..100).map(|number| name(&format!("x:{number}"))).chain([name("no")]).collect();
    let watches = names.iter().map(|name| backend.subscribe(id, name.clone()));
    let mut answers = futures_util::future::join_all(watches).await;
    assert_eq!(meaning(&answers.remove(100)), (Kind::Denied, Applied::No));
    // The refused channel is found by bisection, so the others wait a little longer.
    for watch in answers {
        watch.unwrap();
    }
    sleep(Duration::from_secs(5)).await;
    assert_eq!(client.server().subscribed().len(), 100);
    listener.take();
    let dials = client.server().dials.len();
    assert!(dials > 2, "later answers might be attributed to the wrong request");
    client.server().arrived.clear();
    // For one minute the refusal is answered locally.
    for _ in 0..10 {
        assert_eq!(meaning(&backend.subscribe(id, name("no")).await), (Kind::Denied, Applied::No));
        sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(client.server().count(|asked| subscribes(asked, "no")), 0);
    assert_eq!((client.server().dials.len(), listener.take().len()), (dials, 0), "no dial and no wake-up");
    client.recover();
    sleep(Duration::from_secs(20)).await;
    backend.subscribe(id, name("no")).await.expect("permissions restored");
    assert_eq!(client.server().dials.len(), dials);
}

/// A busy server also refuses to subscribe.
#[tokio::test(start_paused = true)]
async fn subscription_is_repeated_after_a_busy_reply() {
    let (client, backend) = connected().await;
    let (listener, id) = Listener::attached(&backend);
    backend.subscribe(id, name("x")).await.unwrap();
    client.answer(|asked| match asked.name {
        "SUBSCRIBE" | "PING" => Answer::Error(refused("BUSY Redis is busy running a script.")),
        _ => Answer::Usual,
    });
    client.cut();
    sleep(Duration::from_secs(10)).await;
    listener.take();
    assert_eq!(client.server().subscribed(), Vec::<String>::new());
    client.recover();
    sleep(Duration::from_secs(4)).await;
    assert_eq!(client.server().subscribed(), [channel("x")]);
    assert!(listener.take().contains(&"all: Reconnected".to_owned()), "a message may have been missed");
}

#[tokio::test(start_paused = true)]
async fn unanswered_watch_fails_after_2_s() {
    let (client, backend) = connected().await;
    let (listener, id) = Listener::attached(&backend);
    client.answer(|asked| if asked.name == "SUBSCRIBE" { Answer::Never } else { Answer::Usual });
    let begin = Instant::now();
    let answer = backend.subscribe(id, name("x")).await;
    assert_eq!(meaning(&answer).1, Applied::Unknown);
    assert_eq!(begin.elapsed(), Duration::from_secs(2));
    tokio::task::yield_now().await;
    assert_eq!(listener.take(), ["all: Reconnected"], "waiters try again");
    client.recover();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(client.server().dials.len(), 3, "a late answer might be attributed to the wrong request");
    assert_eq!(client.server().subscribed(), Vec::<String>::new(), "the watch has ended");
}

/// The first subscription is not polled while its batch fails and a second one is acknowledged.
#[tokio::test(start_paused = true)]
async fn late_failure_does_not_undo_a_newer_watch() {
    let (client, backend) = connected().await;
    let (listener, id) = Listener::attached(&backend);
    client.answer(|asked| if asked.name == "SUBSCRIBE" { Answer::End } else { Answer::Usual });
    let mut late = pin!(backend.subscribe(id, name("x")));
    assert!(poll_fn(|context| Poll::Ready(late.as_mut().poll(context).is_pending())).await, "pending");
    let other = backend.subscribe(id, name("y")).await;
    assert_eq!(meaning(&other).1, Applied::Unknown, "the shared batch fails");
    client.recover();
    sleep(Duration::from_secs(2)).await;
    backend.subscribe(id, name("x")).await.expect("a newer watch");
    late.await.expect_err("failed batch");
    sleep(Duration::from_secs(2)).await;
    listener.take();
    client.publish(&channel("x"));
    assert_eq!(listener.take(), ["x"], "the newer watch is woken");
}

/// A factory that ends with its runtime is noticed in no other way.
#[tokio::test(start_paused = true)]
async fn dropped_factory_ends_its_subscriptions() {
    let (client, backend) = connected().await;
    let (listener, id) = Listener::attached(&backend);
    backend.subscribe(id, name("x")).await.unwrap();
    drop(listener);
    sleep(Duration::from_secs(6)).await;
    assert_eq!(client.server().subscribed(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn outage_wakes_all_once() {
    use lock_redis::client::DialErrorKind;
    let (client, backend) = connected().await;
    let (listener, id) = Listener::attached(&backend);
    backend.subscribe(id, name("x")).await.unwrap();
    client.server().dial = Dial::Failed(DialErrorKind::NobodyListens, "Connection refused");
    client.cut();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(listener.take(), ["all: Reconnected"], "the subscriptions are lost");
    client.recover();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(listener.take(), ["all: Reconnected"], "subscribed again");
}
