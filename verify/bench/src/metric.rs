//! The figures of a measurement.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The figures of one contestant in one round.
pub(crate) type Figures = BTreeMap<Metric, f64>;

/// A kind of figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Metric {
    Rate,
    CycleP50,
    WaitP50,
    WaitP99,
    WaitP999,
    WaitMax,
    TaskBalance,
    ShareMin,
    ShareMax,
    SectionShare,
    HandoverP50,
    HandoverP99,
    ClientCpu,
    ServerCpu,
    ServerLoad,
    ServerLimit,
    VoluntarySwitches,
    InvoluntarySwitches,
    Allocations,
    AllocatedBytes,
    HeapBytes,
    ResidentBytes,
    CommandRate,
    CommandRateBefore,
    RenewalClientCpu,
    RenewalServerCpu,
    RequestTime,
}

impl Metric {
    /// Returns the heading of the column.
    pub(crate) fn heading(self) -> &'static str {
        match self {
            Self::Rate => "cycles/s",
            Self::CycleP50 => "p50 µs",
            Self::WaitP50 => "wait p50 ms",
            Self::WaitP99 => "wait p99 ms",
            Self::WaitP999 => "wait p99.9 ms",
            Self::WaitMax => "wait max ms",
            Self::TaskBalance => "slowest / fastest task",
            Self::ShareMin => "least % of a process",
            Self::ShareMax => "most % of a process",
            Self::SectionShare => "sections / wall",
            Self::HandoverP50 => "handover p50 µs",
            Self::HandoverP99 => "handover p99 µs",
            Self::ClientCpu => "client CPU µs",
            Self::ServerCpu => "Redis CPU µs",
            Self::ServerLoad => "Redis busy %",
            Self::ServerLimit => "cycles/s for one Redis",
            Self::VoluntarySwitches => "voluntary switches",
            Self::InvoluntarySwitches => "involuntary switches",
            Self::Allocations => "allocations",
            Self::AllocatedBytes => "KB allocated",
            Self::HeapBytes => "heap B each",
            Self::ResidentBytes => "resident B each",
            Self::CommandRate => "commands/s",
            Self::CommandRateBefore => "commands/s without waiters",
            Self::RenewalClientCpu => "client CPU µs/renewal",
            Self::RenewalServerCpu => "Redis CPU µs/renewal",
            Self::RequestTime => "µs/request",
        }
    }

    /// Formats a value in the unit of the heading. Values are in seconds or bytes, or are ratios.
    pub(crate) fn text(self, value: f64) -> String {
        match self {
            Self::Rate | Self::ServerLimit | Self::HeapBytes | Self::ResidentBytes => grouped(value),
            Self::CycleP50 if value < 100e-6 => format!("{:.2}", value * 1e6),
            Self::CycleP50 | Self::HandoverP50 | Self::HandoverP99 => format!("{:.0}", value * 1e6),
            Self::WaitP50 | Self::WaitP99 | Self::WaitP999 | Self::WaitMax => format!("{:.2}", value * 1e3),
            Self::TaskBalance | Self::SectionShare => format!("{value:.2}"),
            Self::ShareMin | Self::ShareMax | Self::ServerLoad => format!("{:.0}", value * 100.0),
            Self::ClientCpu | Self::ServerCpu | Self::RenewalClientCpu | Self::RenewalServerCpu => {
                format!("{:.1}", value * 1e6)
            }
            Self::RequestTime => format!("{:.2}", value * 1e6),
            Self::VoluntarySwitches
            | Self::InvoluntarySwitches
            | Self::CommandRate
            | Self::CommandRateBefore => format!("{value:.1}"),
            Self::Allocations => format!("{value:.0}"),
            Self::AllocatedBytes => format!("{:.1}", value / 1e3),
        }
    }
}

/// Formats a whole number with commas between groups of three digits.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        let texts = [0.4, 999.0, 1_000.0, 1_234_567.0, -1_000.0, -100.0].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567", "-1,000", "-100"]);
    }
}
