//! One lock per parsed value, regardless of the client's spelling.

use super::{Sku, json, layer};
use crate::support::{World, ask, get, text};
use axum::{
    Form, Json, Router,
    body::Body,
    extract::{Path, Query},
    routing::{get as on_get, post},
};
use http::Request;
use lock_core::{LockKey, LockName};
use lock_testkit::{Seed, Stream};
use lock_tower::{KeyTemplate, LockHandle, Locked, LockedExt};
use std::collections::BTreeSet;
use uuid::Uuid;

#[derive(serde::Deserialize, LockKey)]
#[lock_key("item:{id}")]
struct Item {
    id: Uuid,
}

fn app(world: &World) -> Router {
    let layer = || layer(world);
    let typed = KeyTemplate::template("stock:{sku}").typed::<u64>("sku");
    let by_path = |Locked(Path(_), lock): Locked<Path<Sku>>| async move { lock.name().to_string() };
    let by_query = |Locked(Query(_), lock): Locked<Query<Sku>>| async move { lock.name().to_string() };
    let by_form = |Locked(Form(_), lock): Locked<Form<Sku>>| async move { lock.name().to_string() };
    let items = |Locked(Path(_), lock): Locked<Path<Item>>| async move { lock.name().to_string() };
    let items_by_json = |Locked(Json(_), lock): Locked<Json<Item>>| async move { lock.name().to_string() };
    let by_template = |lock: LockHandle| async move { lock.name().to_string() };
    Router::new()
        .route("/path/{sku}", on_get(by_path).layer(layer()))
        .route("/query", on_get(by_query).layer(layer()))
        .route("/form", post(by_form).layer(layer()))
        .route("/items/{id}", on_get(items).layer(layer()))
        .route("/items", post(items_by_json).layer(layer()))
        .route("/template/{sku}", on_get(by_template).locked(&world.layer(), typed))
}

/// Percent-encodes some characters, including all with a meaning in a URI.
fn encoded(text: &str, seed: &mut Stream) -> String {
    let byte = |byte: u8| match byte.is_ascii_alphanumeric() && seed.below(3) > 0 {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Writes a number with optional leading zeros and a sign.
fn number(value: u64, seed: &mut Stream) -> String {
    let sign = if seed.below(2) == 0 { "+" } else { "" };
    let zeros = "0".repeat(usize::try_from(seed.below(4)).unwrap());
    format!("{sign}{zeros}{value}")
}

/// Writes a UUID in one of its formats, in mixed case.
fn uuid(value: Uuid, seed: &mut Stream) -> String {
    let text = match seed.below(4) {
        0 => value.hyphenated().to_string(),
        1 => value.simple().to_string(),
        2 => value.braced().to_string(),
        _ => return value.urn().to_string(),
    };
    let mixed = |c: char| if seed.below(2) == 0 { c.to_ascii_uppercase() } else { c };
    text.chars().map(mixed).collect()
}

#[tokio::test(start_paused = true)]
async fn all_spellings_of_a_value_share_one_lock() {
    let world = World::new();
    let app = app(&world);
    let mut seed = Seed::new(0x5BE1_1001).stream();
    let (mut values, mut names, mut spellings) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let rounds = if std::env::var_os("LOCK_LONG").is_some() { 10_000 } else { 500 };
    for round in 0..rounds {
        let id = seed.below(50);
        let (name, spelled, request) = if round % 6 < 4 {
            let spelled = number(id, &mut seed);
            let sent = encoded(&spelled, &mut seed);
            let request = match round % 6 {
                0 => get(&format!("/path/{sent}")),
                1 => get(&format!("/query?sku={sent}")),
                2 => get(&format!("/template/{sent}")),
                _ => Request::post("/form")
                    .header("content-type", "application/x-www-form-urlencoded")
                    .body(Body::from(format!("sku={sent}")))
                    .unwrap(),
            };
            (LockName::of(("stock", id)), spelled, request)
        } else {
            let id = Uuid::from_u128(u128::from(id) * 0xABCD_EF01_2345);
            let spelled = uuid(id, &mut seed);
            let request = match round % 6 {
                4 => get(&format!("/items/{}", encoded(&spelled, &mut seed))),
                _ => json("/items", format!("{{\"id\":\"{spelled}\"}}")),
            };
            (LockName::of(("item", id)), spelled, request)
        };
        let name = name.unwrap().to_string();
        assert_eq!(text(ask(&app, request).await).await, name, "{spelled}");
        values.insert((round % 6 < 4, id));
        names.insert(name);
        spellings.insert(spelled);
    }
    assert_eq!(names.len(), values.len());
    assert!(spellings.len() > 2 * names.len(), "{} spellings of {} values", spellings.len(), names.len());
    world.settle().await;
    world.assert_nothing_left();
}
