//! Naming properties. Names are untrusted text, and every valid `LockName` refers to exactly one
//! lock.

use super::{
    Harness,
    contender::{Contender, LONG, must_be_busy, must_be_free},
    listener::Listener,
};
use lock_core::LockName;

/// Texts that break code that splices names into other text, matches them as patterns, truncates
/// them, or counts characters.
const SHAPES: [&str; 10] = [
    "{eu}:42",
    "before{tag}after",
    "a{b}{c}",
    "Größe 数量 🔒",
    "with spaces  and\u{a0}more",
    "*?[a-z]^$",
    "quotes ' \" ` \\n %d %s $1",
    "'); return redis.call('FLUSHALL') --",
    "../../etc/passwd",
    "a:b::c",
];

/// Returns names with hash tags, non-Latin letters, pattern characters, quotes and spaces, and one
/// of maximum length.
fn names(h: &impl Harness) -> Vec<LockName> {
    let mut names: Vec<_> = SHAPES.into_iter().map(|shape| h.name(shape)).collect();
    let start = h.name("longest");
    let padding = "n".repeat(LockName::MAX_BYTES - start.as_str().len());
    names.push(LockName::new(format!("{start}{padding}")).expect("512 bytes are allowed"));
    names
}

/// Names with unusual characters can be locked, inspected, renewed and released.
pub async fn names_of_every_shape_are_locked_and_freed(h: &impl Harness) {
    let backend = h.store().await.backend;
    let (a, b) = (Contender::new(&backend), Contender::new(&backend));
    for name in names(h) {
        a.take(&name, LONG).await;
        must_be_busy(&b.acquire(&name, LONG).await);
        a.must_last(&name, 1, LONG).await;
        a.renew(&name, LONG * 2).await;
        a.must_last(&name, 1, LONG * 2).await;
        a.free(&name).await;
        must_be_free(&backend, &name).await;
    }
}

/// Names with unusual characters can be subscribed to.
pub async fn names_of_every_shape_are_watched(h: &impl Harness) {
    let store = h.store().await;
    let a = Contender::new(&store.backend);
    for name in names(h) {
        let Some(listener) = Listener::watching(&store, &name).await else { return };
        a.take(&name, LONG).await;
        a.free(&name).await;
        listener.must_hear(h, &name, 1).await;
    }
}

/// Names with the same hash tag are on one cluster node, but are different locks.
pub async fn names_with_one_hash_tag_are_different_locks(h: &impl Harness) {
    let backend = h.store().await.backend;
    let tagged = h.name("{eu}");
    let (x, y) = (sibling(&tagged, ":x"), sibling(&tagged, ":y"));
    let (a, b) = (Contender::new(&backend), Contender::new(&backend));
    a.take(&tagged, LONG).await;
    a.take(&x, LONG).await;
    b.take(&y, LONG).await;
    a.free(&x).await;
    a.must_hold(&tagged, 1).await;
    b.must_hold(&y, 1).await;
}

/// Names that differ only in case, in a trailing space or in a suffix are different locks.
pub async fn names_that_look_alike_are_different_locks(h: &impl Harness) {
    let (backend, base) = (h.store().await.backend, h.name("alike"));
    let alike = ["a", "A", "a ", "aa", "ä", "a\u{308}"].map(|suffix| sibling(&base, suffix));
    for name in alike.iter().chain([&base]) {
        Contender::new(&backend).take(name, LONG).await;
    }
}

/// A subscription to a name with pattern characters matches only that name.
pub async fn a_name_is_never_a_pattern(h: &impl Harness) {
    let (store, base) = (h.store().await, h.name("pattern"));
    let (pattern, matched) = (sibling(&base, "*"), sibling(&base, "x"));
    let Some(listener) = Listener::watching(&store, &pattern).await else { return };
    let a = Contender::new(&store.backend);
    a.take(&matched, LONG).await;
    a.free(&matched).await;
    listener.must_not_hear_more(h, &matched, 0).await;
    assert_eq!(listener.count(&pattern), 0, "a release of another name was reported as {pattern}");
    a.take(&pattern, LONG).await;
    a.free(&pattern).await;
    listener.must_hear(h, &pattern, 1).await;
}

fn sibling(name: &LockName, suffix: &str) -> LockName {
    LockName::new(format!("{name}{suffix}")).expect("the suffix forms a valid name")
}
