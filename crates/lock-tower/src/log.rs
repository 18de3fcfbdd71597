//! Limits for log lines, so that their number does not depend on the number of requests.

use lock_core::__private::lock;
use std::{collections::BTreeSet, sync::Mutex, time::Duration};
use tokio::time::Instant;

/// The shortest time between two lines about the same outage.
const INTERVAL: Duration = Duration::from_secs(10);

/// The mistakes that were logged, each once for a route. They are as many as the routes of the application allow.
#[derive(Debug, Default)]
pub(crate) struct LoggedMistakes(Mutex<BTreeSet<(String, Option<String>)>>);

impl LoggedMistakes {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeSet::new()))
    }

    /// Returns `true` if this mistake has not been logged for this route. Its text must not depend on the request.
    pub(crate) fn is_new(&self, mistake: &str, route: Option<&str>) -> bool {
        lock(&self.0).insert((mistake.to_owned(), route.map(str::to_owned)))
    }
}

/// A line about an outage, which is logged at most once in ten seconds.
#[derive(Debug, Default)]
pub(crate) struct OutageLine(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    last: Option<Instant>,
    left_out: u64,
}

impl OutageLine {
    /// Returns the number of lines left out since the last one, or `None` if this one is left out too.
    pub(crate) fn due(&self) -> Option<u64> {
        let (mut lines, now) = (lock(&self.0), Instant::now());
        if lines.last.is_some_and(|last| now.duration_since(last) < INTERVAL) {
            lines.left_out += 1;
            return None;
        }
        lines.last = Some(now);
        Some(std::mem::take(&mut lines.left_out))
    }
}
