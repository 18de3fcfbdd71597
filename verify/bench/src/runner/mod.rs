//! Runs the cases of a workload in rounds and turns, and collects the figures of each turn.

mod measurement;
mod session;
mod worker;

pub(crate) use self::{measurement::Measurement, session::Placement};

use crate::{
    Result,
    contestants::Contestant,
    metric::{Figures, Metric},
};

/// A comparison under one load.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// Title of the series, shared by the neighbouring cases of the same series.
    pub(crate) series: Option<&'static str>,
    pub(crate) label: String,
    pub(crate) measurement: Measurement,
    pub(crate) contestants: Vec<Contestant>,
    pub(crate) rounds: usize,
    /// Figures that tables show.
    pub(crate) columns: Vec<Metric>,
    /// Figures that are compared with another contestant in the same round.
    pub(crate) ratios: Vec<Ratio>,
}

/// A figure relative to the same figure of another contestant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ratio {
    pub(crate) metric: Metric,
    pub(crate) to: Contestant,
}

/// The figures of one contestant, by round.
#[derive(Debug)]
pub(crate) struct Samples {
    pub(crate) contestant: Contestant,
    pub(crate) rounds: Vec<Figures>,
}

impl Case {
    /// Runs all rounds. Contestants take turns, and each round starts with a different one.
    ///
    /// Fails at the first contestant that violates exclusion or the order of tokens, loses a lock, or hangs.
    pub(crate) fn run(&self) -> Result<Vec<Samples>> {
        let built_in = self.contestants.iter().copied().filter(|contestant| contestant.is_built_in());
        let mut samples: Vec<Samples> =
            built_in.map(|contestant| Samples { contestant, rounds: Vec::new() }).collect();
        for round in 0..self.rounds {
            let turns = samples.len();
            for turn in 0..turns {
                let Samples { contestant, rounds } = &mut samples[(turn + round) % turns];
                let figures = self.measurement.figures(*contestant, round).map_err(|error| {
                    format!("{}, {}, round {}: {error}", self.label, contestant.label(), round + 1)
                })?;
                rounds.push(figures);
            }
        }
        Ok(samples)
    }
}
