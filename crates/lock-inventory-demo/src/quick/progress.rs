//! The progress of a sale on stderr, as a bar on a terminal and as a few plain lines otherwise.
//! Results go to stdout.

use crate::domain::thousands;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};

/// The progress display of a sale.
#[derive(Debug)]
pub(super) enum Progress {
    /// A bar that is updated in place.
    Bar(ProgressBar),
    /// A line for each quarter.
    Lines {
        /// Name of the sale.
        label: &'static str,
        /// Number of orders.
        orders: u64,
    },
}

impl Progress {
    /// Chooses the display for stderr.
    pub(super) fn on_stderr(label: &'static str, orders: u64) -> Self {
        if !stderr().is_terminal() {
            return Self::Lines { label, orders };
        }
        let bar = ProgressBar::with_draw_target(Some(orders), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix:>12} {bar:40} {pos}/{len} orders {elapsed}");
        Self::Bar(bar.with_style(style.expect("the constant template is valid")).with_prefix(label))
    }

    /// Shows the number of completed orders.
    pub(super) fn answered(&self, answered: u64) {
        match self {
            Self::Bar(bar) => bar.set_position(answered),
            Self::Lines { label, orders } => {
                let quarter = |answered: u64| answered * 4 / orders.max(&1);
                if quarter(answered) > quarter(answered.saturating_sub(1)) {
                    eprintln!("{label}: {} of {} orders completed", thousands(answered), thousands(*orders));
                }
            }
        }
    }

    /// Removes the bar before the result is printed.
    pub(super) fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
