//! The terms of a job in words.

use crate::{
    options::{Jitter, Misfire, OnOrphan, Overlap, Placement},
    schedule::times::friendly,
    terms::JobTerms,
};
use serde_json::{Value, json};
use std::time::Duration;

pub(super) fn terms(terms: &JobTerms) -> Value {
    let rows = [
        ("Runs on", place(terms)),
        ("Overlap", overlap(terms.overlap)),
        ("Missed runs", misfire(terms.misfire)),
        ("Grace", terms.grace.map_or_else(|| "half the distance to the next run".to_owned(), friendly)),
        ("Retries", retries(terms)),
        ("Node dies", orphan(terms.on_orphan)),
        ("Timeout", terms.timeout.map_or_else(|| "none".to_owned(), friendly)),
        ("Jitter", jitter(terms.jitter)),
    ];
    rows.iter().map(|(name, words)| json!([name, words])).collect()
}

fn place(terms: &JobTerms) -> String {
    match terms.placement {
        Placement::Spread => "any node",
        Placement::Leader => "the leader",
    }
    .to_owned()
}

fn overlap(overlap: Overlap) -> String {
    match overlap {
        Overlap::Skip => "skip while another run is open".to_owned(),
        Overlap::QueueOne => "queue one run".to_owned(),
        Overlap::CancelPrevious => "cancel the previous run".to_owned(),
        Overlap::Allow { max } => format!("up to {max} runs at once"),
    }
}

fn misfire(misfire: Misfire) -> String {
    match misfire {
        Misfire::Skip => "skip".to_owned(),
        Misfire::FireOnce => "run the latest".to_owned(),
        Misfire::FireAll { max } => format!("run the latest {max}"),
    }
}

fn retries(terms: &JobTerms) -> String {
    let retries = &terms.retries;
    match retries.max {
        0 => "none".to_owned(),
        max => format!("up to {max}, the first after {}", friendly(retries.initial_delay)),
    }
}

fn orphan(on_orphan: OnOrphan) -> String {
    match on_orphan {
        OnOrphan::Skip => "do not run again".to_owned(),
        OnOrphan::Retry { max } => format!("run again, up to {max} times"),
    }
}

fn jitter(jitter: Jitter) -> String {
    let up_to = |max: Duration, kind: &str| format!("{kind}, up to {}", friendly(max));
    match jitter {
        Jitter::None => "none".to_owned(),
        Jitter::Fixed(max) => up_to(max, "fixed by the name"),
        Jitter::Random(max) => up_to(max, "random"),
    }
}
