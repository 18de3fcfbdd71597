//! Notes on holds: part of the card, and shown by `inspect`.

use super::{FIRST, Scene};
use crate::support::{millis, secs};
use lock_core::{ReleaseOutcome, inspect::ProcessCard};

#[tokio::test(start_paused = true)]
async fn inspect_shows_the_latest_note() {
    let scene = Scene::new();
    let guard = scene.shop.named("x").unwrap().acquire().await.unwrap();
    let _unnoted = scene.shop.named("y").unwrap().acquire().await.unwrap();
    guard.note("41 %");
    guard.hold().note("42 %\n");
    tokio::time::sleep(FIRST + millis(1)).await;
    assert_eq!(scene.other.inspect("x").await.unwrap().note(), Some("42 %\\n"));
    assert_eq!(scene.other.inspect("y").await.unwrap().note(), None);

    guard.note("99 %");
    tokio::time::sleep(secs(1) + millis(1)).await;
    assert_eq!(scene.other.inspect("x").await.unwrap().note(), Some("99 %"));
}

#[tokio::test(start_paused = true)]
async fn notes_are_written_at_most_once_per_second() {
    let scene = Scene::new();
    let guard = scene.shop.named("x").unwrap().acquire().await.unwrap();
    tokio::time::sleep(FIRST + millis(1)).await;
    assert_eq!(scene.cards.writes(), 1);
    for percent in 0..1000 {
        guard.note(format!("{percent}"));
        tokio::time::sleep(millis(10)).await;
    }
    let writes = scene.cards.writes();
    assert!((10..=11).contains(&writes), "within 10 s: {writes}");
    tokio::time::sleep(secs(1)).await;
    assert_eq!(scene.other.inspect("x").await.unwrap().note(), Some("999"));
}

/// The successor of a hand-off has the same lease, and must not appear with the note of its predecessor.
#[tokio::test(start_paused = true)]
async fn note_ends_with_its_hold() {
    let scene = Scene::new();
    let lock = scene.shop.named("x").unwrap();
    let lock = lock.with_options(lock.options().hand_off(1, secs(10))).unwrap();
    // A lease is only handed over if somebody waited when it was granted.
    let foreign = scene.other.named("x").unwrap().acquire().await.unwrap();
    let [first, second] = [lock.acquire(), lock.acquire()].map(tokio::spawn);
    tokio::time::sleep(millis(1)).await;
    foreign.release().await.unwrap();
    let guard = first.await.unwrap().unwrap();
    let ended = guard.hold();
    guard.note("42 %");
    tokio::time::sleep(secs(1)).await;
    assert_eq!(scene.other.inspect("x").await.unwrap().note(), Some("42 %"));
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::HandedOn);
    let successor = second.await.unwrap().unwrap();
    assert_eq!(successor.hold().lease_id(), ended.lease_id());
    tokio::time::sleep(secs(20)).await;
    let inspection = scene.other.inspect("x").await.unwrap();
    assert_eq!(inspection.note(), None);
    assert!(inspection.process.expect("the card is there").notes.is_empty());

    successor.note("1 %");
    ended.note("43 %");
    tokio::time::sleep(secs(2)).await;
    assert_eq!(scene.other.inspect("x").await.unwrap().note(), Some("1 %"));
}

#[tokio::test(start_paused = true)]
async fn number_and_length_of_notes_are_bounded() {
    let scene = Scene::new();
    let mut guards = Vec::new();
    for number in 0..200 {
        let guard = scene.shop.named(format!("x:{number}")).unwrap().acquire().await.unwrap();
        guard.note("n".repeat(100_000));
        guards.push(guard);
    }
    tokio::time::sleep(secs(2)).await;
    let card = scene.stored(&scene.shop).await.unwrap();
    assert_eq!(card.notes.len(), ProcessCard::MAX_NOTES);
    assert!(card.notes.values().all(|note| note.len() == ProcessCard::MAX_TEXT_CHARS));

    drop(guards);
    let guard = scene.shop.named("later").unwrap().acquire().await.unwrap();
    tokio::time::sleep(secs(20)).await;
    guard.note("42 %");
    tokio::time::sleep(secs(1) + millis(1)).await;
    assert_eq!(scene.other.inspect("later").await.unwrap().note(), Some("42 %"), "old notes make room");
}
