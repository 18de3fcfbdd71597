//! A worker that builds a lock name from parts gets the route's lock.

use crate::support::{World, ask, get, text};
use axum::{Router, routing::any};
use lock_core::{__private::escape_part, LockName};
use lock_testkit::Seed;
use lock_tower::{KeyTemplate, LockHandle};

async fn which(lock: LockHandle) -> String {
    lock.name().to_string()
}

/// Characters of every kind and encoded length: separators, braces, controls, spaces and non-Latin
/// letters.
const CHARS: [char; 24] = [
    'a', 'Z', '7', '-', '_', '.', '~', ':', '/', '%', '{', '}', '?', '#', '+', ' ', '\n', '\0', '\u{80}',
    'ß', 'İ', '本', '\u{301}', '🦀',
];

#[tokio::test(start_paused = true)]
async fn templates_and_parts_produce_the_same_name() {
    let world = World::new();
    let path = world.layer().key("stock:{house}:{sku}");
    let query = world.layer().key(KeyTemplate::of("stock").query("house").query("sku"));
    let app = Router::new()
        .route("/houses/{house}/skus/{sku}", any(which).layer(path))
        .route("/query", any(which).layer(query));

    let mut seed = Seed::new(0x51D0_0001).stream();
    let mut part = || -> String {
        let length = 1 + seed.below(9);
        (0..length).map(|_| CHARS[usize::try_from(seed.below(CHARS.len() as u64)).unwrap()]).collect()
    };
    // The client encodes every byte with a meaning in a URI.
    let sent = |part: &str| escape_part(part.as_bytes()).collect::<String>().replace('.', "%2E");
    for round in 0..5_000 {
        let (house, sku) = (part(), part());
        let name = LockName::of(("stock", &house, &sku)).unwrap();
        let uri = match round % 2 {
            0 => format!("/houses/{}/skus/{}", sent(&house), sent(&sku)),
            _ => format!("/query?house={}&sku={}", sent(&house), sent(&sku)),
        };
        assert_eq!(text(ask(&app, get(&uri)).await).await, name.as_str(), "{house:?} {sku:?}");
        assert_eq!(LockName::of(("stock",)).unwrap().part(house).unwrap().part(sku).unwrap(), name);
    }
}
