//! The progress of a long command on stderr, as lines with a spinner below them on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget};
use std::{
    io::{IsTerminal, stderr},
    time::Duration,
};

/// The progress display of a long command.
#[derive(Debug)]
pub(super) struct Say {
    spinner: Option<ProgressBar>,
}

impl Say {
    pub(super) fn on_stderr() -> Self {
        let spinner = stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { spinner }
    }

    pub(super) fn line(&self, line: &str) {
        match &self.spinner {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }
}

impl Drop for Say {
    fn drop(&mut self) {
        if let Some(bar) = &self.spinner {
            bar.finish_and_clear();
        }
    }
}
