//! The progress of a sale, on stderr: a bar on a terminal, a few plain lines elsewhere. Results go to stdout.

use crate::domain::thousands;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};

/// The display of one sale.
#[derive(Debug)]
pub(super) enum Progress {
    /// A bar that is drawn in place.
    Bar(ProgressBar),
    /// A line per quarter.
    Lines {
        /// The name of what runs.
        label: &'static str,
        /// The number of orders.
        orders: u64,
    },
}

impl Progress {
    /// Chooses what suits stderr.
    pub(super) fn on_stderr(label: &'static str, orders: u64) -> Self {
        if !stderr().is_terminal() {
            return Self::Lines { label, orders };
        }
        let bar = ProgressBar::with_draw_target(Some(orders), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix:>12} {bar:40} {pos}/{len} orders {elapsed}");
        Self::Bar(bar.with_style(style.expect("the template is a constant")).with_prefix(label))
    }

    /// Shows that so many orders are answered.
    pub(super) fn answered(&self, answered: u64) {
        match self {
            Self::Bar(bar) => bar.set_position(answered),
            Self::Lines { label, orders } => {
                let quarter = |answered: u64| answered * 4 / orders.max(&1);
                if quarter(answered) > quarter(answered.saturating_sub(1)) {
                    eprintln!("{label}: {} of {} orders answered", thousands(answered), thousands(*orders));
                }
            }
        }
    }

    /// Removes the bar: the result comes.
    pub(super) fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
