//! Drives a headless Chromium over WebDriver, for tests of pages.
//!
//! It needs `chromium` and `chromedriver` on the `PATH` (Debian: `apt-get install chromium chromium-driver`).
//! The `webdriver` crate, and with it fantoccini, has a licence that this workspace does not allow. The protocol is
//! JSON over HTTP, and tests of pages need a dozen of its commands.
//!
//! | module | contains |
//! | --- | --- |
//! | `browser` | [`Browser`]: pages, scripts, clicks, screenshots; contrast, width, and shifts of the layout |
//! | `session` | the process of chromedriver, commands and their replies over HTTP |

mod browser;
mod session;

pub use browser::{Browser, ColorScheme, Device, Key, Screen};

use std::io;

/// The reason why a browser did not execute a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrowserError {
    /// A program could not be started.
    #[error("{program} could not be started: install chromium and chromium-driver")]
    Start {
        /// The program.
        program: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Chromedriver ended without naming its port.
    #[error("chromedriver ended before it listened: {0}")]
    NoPort(String),
    /// Chromedriver could not be reached.
    #[error("chromedriver does not reply")]
    Unreachable(#[from] hyper_util::client::legacy::Error),
    /// The reply was cut off.
    #[error("the reply of chromedriver broke off")]
    BrokenReply(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The command failed.
    #[error("{command}: {error}: {message}")]
    Refused {
        /// The command.
        command: String,
        /// The kind of error, as named by WebDriver.
        error: String,
        /// Its text.
        message: String,
    },
    /// The reply is not valid for this command.
    #[error("{command}: unexpected reply {reply}")]
    Unexpected {
        /// The command.
        command: String,
        /// The reply.
        reply: String,
    },
    /// The condition did not become true.
    #[error("not true within {seconds} s: {condition}")]
    NotTrue {
        /// The condition.
        condition: String,
        /// The waiting time in seconds.
        seconds: u64,
    },
    /// A file could not be written.
    #[error("a file could not be written")]
    File(#[from] io::Error),
}
