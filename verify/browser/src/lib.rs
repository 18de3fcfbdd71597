//! Drives a headless Chromium over WebDriver, for tests of pages.
//!
//! It needs `chromium` and `chromedriver` on the `PATH` (Debian: `apt-get install chromium chromium-driver`).
//! The `webdriver` crate, and with it fantoccini, has a licence that this workspace does not allow. The protocol is
//! JSON over HTTP, and tests of pages need a dozen of its commands.
//!
//! | module | contains |
//! | --- | --- |
//! | `browser` | [`Browser`]: pages, scripts, clicks, screenshots |
//! | `screen` | the size of the screen and its colour scheme |
//! | `key` | the keyboard |
//! | `looks` | contrast, width, and shifts of the layout |
//! | `record` | requests and console messages of the pages |
//! | `session` | commands and their replies over HTTP |
//! | `driver` | the process of chromedriver |

mod browser;
mod driver;
mod error;
mod key;
mod looks;
mod record;
mod screen;
mod session;

pub use browser::Browser;
pub use error::BrowserError;
pub use key::Key;
pub use screen::{ColorScheme, Device, Screen};
