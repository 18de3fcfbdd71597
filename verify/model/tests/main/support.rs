//! Runs searches and reports their results.

use lock_model::{Config, LockModel, tell};
use stateright::{Checker, HasDiscoveries, Model};
use std::{
    fmt::Debug,
    hash::Hash,
    time::{Duration, Instant},
};

pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

type Path<M> = Vec<(<M as Model>::State, Option<<M as Model>::Action>)>;

/// The result of a search.
pub(crate) struct Found<M: Model = LockModel> {
    pub(crate) states: usize,
    /// The broken promises, each with a path to it.
    pub(crate) broken: Vec<(&'static str, Path<M>)>,
    /// The interesting states that were seen.
    pub(crate) seen: Vec<&'static str>,
}

impl Found {
    #[track_caller]
    pub(crate) fn nothing(&self, name: &str, config: &Config) {
        for (law, path) in &self.broken {
            let (steps, text) = tell(config, path.clone());
            println!("{name}: {law}, after {steps} steps:\n{text}");
        }
        let broken: Vec<_> = self.broken.iter().map(|(law, _)| law).collect();
        assert!(broken.is_empty(), "{name} breaks {broken:?}");
    }
}

/// Searches breadth-first, until a promise is broken or this many states have been visited.
pub(crate) fn search(name: &str, config: &Config, most: usize) -> Found {
    search_model(name, LockModel::new(config.clone()), 'I', most)
}

/// The same for any model whose promises begin with this letter.
pub(crate) fn search_model<M>(name: &str, model: M, promises: char, most: usize) -> Found<M>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let begun = Instant::now();
    let checker = model
        .checker()
        .threads(2)
        .target_state_count(most)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let (mut broken, mut seen) = (Vec::new(), Vec::new());
    for (what, path) in checker.discoveries() {
        if what.starts_with(promises) {
            broken.push((what, path.into_vec()));
        } else {
            seen.push(what);
        }
    }
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    let took = begun.elapsed().as_secs_f64();
    let all = if checker.state_count() < most { "all" } else { "the first" };
    println!("{name}: {all} {states} distinct states, depth {depth}, {took:.1} s");
    Found { states, broken, seen }
}

/// Returns the shortest path to a broken promise, and the promise.
pub(crate) fn shortest(config: &Config, most: usize) -> Option<(&'static str, Path<LockModel>)> {
    let mut best: Option<(&'static str, Path<LockModel>)> = None;
    loop {
        // A path of n steps has n + 1 states, and the checker does not inspect those at the maximum depth.
        let bound = best.as_ref().map_or(usize::MAX, |(_, path)| path.len());
        let checker = LockModel::new(config.clone())
            .checker()
            .target_state_count(most)
            .target_max_depth(bound)
            .finish_when(HasDiscoveries::AnyFailures)
            .spawn_bfs()
            .join();
        let broken = checker.discoveries().into_iter().filter(|(what, _)| what.starts_with('I'));
        let found =
            broken.map(|(law, path)| (law, path.into_vec())).min_by_key(|(law, path)| (path.len(), *law));
        match found {
            Some((law, path)) if path.len() < bound => best = Some((law, path)),
            _ => return best,
        }
    }
}

/// Returns `true` if long runs are enabled.
pub(crate) fn long() -> bool {
    std::env::var_os("LOCK_LONG").is_some()
}
