//! The cycles of all tasks: the file in which a process passes them to its parent, the check of every run, and their figures.

use crate::{
    Result,
    metric::{Figures, Metric},
};
use std::{collections::BTreeMap, fmt, fs, path::Path};

const BYTES: usize = 7 * 8;

/// One cycle of a task. Times are readings of the monotonic clock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section {
    /// Number of the process, in the order of start. The file does not contain it.
    pub(crate) process: u64,
    pub(crate) task: u64,
    pub(crate) name: u64,
    /// Fencing token; 0 if the library has none.
    pub(crate) token: u64,
    /// Time before the acquire.
    pub(crate) asked: u64,
    /// Time after the acquire.
    pub(crate) enter: u64,
    /// Time before the release.
    pub(crate) leave: u64,
    /// Time after the release.
    pub(crate) done: u64,
}

/// Writes the records of one process.
pub(crate) fn write(path: &Path, sections: &[Section]) -> Result<()> {
    let mut bytes = Vec::with_capacity(sections.len() * BYTES);
    for section in sections {
        let Section { process: _, task, name, token, asked, enter, leave, done } = *section;
        for field in [task, name, token, asked, enter, leave, done] {
            bytes.extend(field.to_le_bytes());
        }
    }
    Ok(fs::write(path, bytes)?)
}

/// Reads the records of one process.
pub(crate) fn read(path: &Path, process: u64) -> Result<Vec<Section>> {
    let bytes = fs::read(path)?;
    let (records, rest) = bytes.as_chunks::<BYTES>();
    if !rest.is_empty() {
        return Err(format!("{} ends in the middle of a record", path.display()).into());
    }
    let section = |record: &[u8; BYTES]| {
        let mut fields = record.as_chunks::<8>().0.iter().map(|field| u64::from_le_bytes(*field));
        let mut next = || fields.next().unwrap_or_default();
        let [task, name, token, asked, enter, leave, done] = std::array::from_fn(|_| next());
        Section { process, task, name, token, asked, enter, leave, done }
    };
    Ok(records.iter().map(section).collect())
}

/// A violated guarantee of a lock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// The second section started before the first one ended.
    Overlap(Box<[Section; 2]>),
    /// The token of the second section is not above that of the first.
    Token(Box<[Section; 2]>),
}

/// Checks the sections of all processes, and sorts them by name and time.
pub(crate) fn check(sections: &mut [Section]) -> std::result::Result<(), Violation> {
    sections.sort_unstable_by_key(|section| (section.name, section.enter, section.leave, section.token));
    for pair in sections.windows(2) {
        let both @ [first, second] = [pair[0], pair[1]];
        if first.name != second.name {
            continue;
        }
        if second.enter < first.leave {
            return Err(Violation::Overlap(both.into()));
        }
        if first.token > 0 && second.token <= first.token {
            return Err(Violation::Token(both.into()));
        }
    }
    Ok(())
}

impl std::error::Error for Violation {}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (broken, [first, second]) = match self {
            Self::Overlap(both) => ("EXCLUSION VIOLATED: two tasks held one lock at once", &**both),
            Self::Token(both) => ("TOKEN ORDER VIOLATED: the later section has no higher token", &**both),
        };
        write!(f, "{broken}: {first:?}, {second:?}")
    }
}

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

    fn section(process: u64, name: u64, token: u64, enter: u64, leave: u64) -> Section {
        Section { process, task: 0, name, token, asked: 0, enter, leave, done: leave + 1 }
    }

    #[test]
    fn consecutive_sections_are_accepted_in_any_record_order() {
        let mut sections = [section(1, 0, 8, 20, 30), section(0, 0, 7, 10, 20), section(0, 1, 1, 15, 25)];
        assert_eq!(check(&mut sections), Ok(()));
    }

    #[test]
    fn overlap_of_two_processes_is_found() {
        let (first, second) = (section(0, 0, 7, 10, 20), section(1, 0, 8, 19, 30));
        assert_eq!(check(&mut [second, first]), Err(Violation::Overlap([first, second].into())));
    }

    #[test]
    fn token_that_does_not_rise_is_found() {
        let (first, second) = (section(0, 0, 7, 10, 20), section(1, 0, 7, 20, 30));
        assert_eq!(check(&mut [first, second]), Err(Violation::Token([first, second].into())));
    }

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
