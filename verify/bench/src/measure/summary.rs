//! The figures of the cycles of one run.

use super::Section;
use crate::metric::{Figures, Metric};
use std::collections::BTreeMap;

/// Computes the figures of sections, which are sorted by name and time. The window lasts from `start` to `end`.
pub(crate) fn summarize(
    sections: &[Section],
    start: u64,
    end: u64,
    processes: usize,
    tasks: usize,
) -> Figures {
    let mut figures = Figures::new();
    let wall = seconds(end - start);
    let inside: Vec<&Section> = sections.iter().filter(|s| (start..end).contains(&s.leave)).collect();
    figures.insert(Metric::Rate, inside.len() as f64 / wall);
    let work = sections.iter().map(|s| s.leave.clamp(start, end) - s.enter.clamp(start, end)).sum();
    figures.insert(Metric::SectionShare, seconds(work) / wall);

    // A wait that began before the window or ended after it counts in full. Otherwise the longest waits would be
    // missing.
    let touching = || sections.iter().filter(|s| s.asked < end && s.enter >= start);
    let mut cycles: Vec<u64> = touching().map(|s| s.done - s.asked).collect();
    add_percentile(&mut figures, Metric::CycleP50, &mut cycles, 0.5);
    let mut waits: Vec<u64> = touching().map(|s| s.enter - s.asked).collect();
    for (metric, part) in
        [(Metric::WaitP50, 0.5), (Metric::WaitP99, 0.99), (Metric::WaitP999, 0.999), (Metric::WaitMax, 1.0)]
    {
        add_percentile(&mut figures, metric, &mut waits, part);
    }
    let mut handovers = handovers(sections, start, end);
    add_percentile(&mut figures, Metric::HandoverP50, &mut handovers, 0.5);
    add_percentile(&mut figures, Metric::HandoverP99, &mut handovers, 0.99);

    let by_task = count(inside.iter().map(|s| (s.process, s.task)));
    let slowest =
        if by_task.len() < processes * tasks { 0 } else { by_task.values().copied().min().unwrap_or(0) };
    let fastest = by_task.values().copied().max().unwrap_or(0);
    figures.insert(Metric::TaskBalance, slowest as f64 / fastest.max(1) as f64);
    let by_process = count(inside.iter().map(|s| s.process));
    let share = |count: usize| count as f64 / inside.len().max(1) as f64;
    let least =
        if by_process.len() < processes { 0 } else { by_process.values().copied().min().unwrap_or(0) };
    figures.insert(Metric::ShareMin, share(least));
    figures.insert(Metric::ShareMax, share(by_process.values().copied().max().unwrap_or(0)));
    figures
}

/// Returns the hand-over times: from the end of a section to the start of the next one, if that belongs to another
/// process that was already waiting.
fn handovers(sections: &[Section], start: u64, end: u64) -> Vec<u64> {
    let pairs = sections.windows(2).map(|pair| (pair[0], pair[1]));
    let handed_over = pairs.filter(|(first, second)| {
        let waited = second.asked < first.leave && (start..end).contains(&first.leave);
        first.name == second.name && first.process != second.process && waited
    });
    handed_over.map(|(first, second)| second.enter - first.leave).collect()
}

fn add_percentile(figures: &mut Figures, metric: Metric, values: &mut [u64], part: f64) {
    if values.is_empty() {
        return;
    }
    values.sort_unstable();
    let rank = ((values.len() - 1) as f64 * part).round() as usize;
    figures.insert(metric, seconds(values[rank]));
}

fn count<K: Ord>(keys: impl Iterator<Item = K>) -> BTreeMap<K, usize> {
    let mut counts = BTreeMap::new();
    for key in keys {
        *counts.entry(key).or_default() += 1;
    }
    counts
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_only_cover_the_window() {
        let section = |process, task, asked, enter, leave| Section {
            process,
            task,
            name: 0,
            token: 0,
            asked,
            enter,
            leave,
            done: leave,
        };
        let sections = [
            section(0, 0, 0, 10, 50), // before the window
            section(0, 0, 90, 100, 150),
            section(1, 0, 110, 160, 190),
            section(0, 0, 155, 195, 250), // ends after it
        ];
        let figures = summarize(&sections, 100, 200, 2, 1);
        let nanos = |metric| (figures[&metric] * 1e9).round();
        assert_eq!(figures[&Metric::Rate], 2.0 / 100e-9);
        assert_eq!(figures[&Metric::SectionShare], 0.85);
        assert_eq!(nanos(Metric::WaitMax), 50.0);
        assert_eq!(nanos(Metric::HandoverP99), 10.0);
        assert_eq!(nanos(Metric::HandoverP50), 10.0);
        assert_eq!(figures[&Metric::TaskBalance], 1.0);
        assert_eq!(figures[&Metric::ShareMax], 0.5);
    }
}
