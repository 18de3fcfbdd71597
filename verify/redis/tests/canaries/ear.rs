//! Captures all events of `tracing` and all records of `log` in this process. Libraries write to both.

use std::{
    io,
    sync::{Mutex, OnceLock},
};
use tracing_subscriber::filter::LevelFilter;

static HEARD: Mutex<String> = Mutex::new(String::new());

struct Records;

impl log::Log for Records {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("log {} {} {}\n", record.level(), record.target(), record.args());
        HEARD.lock().unwrap().push_str(&line);
    }

    fn flush(&self) {}
}

struct Events;

impl io::Write for Events {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        HEARD.lock().unwrap().push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts capturing. Call once per process.
pub(crate) fn listen() {
    static LISTENS: OnceLock<()> = OnceLock::new();
    LISTENS.get_or_init(|| {
        log::set_logger(&Records).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
        let events = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(|| Events);
        tracing::subscriber::set_global_default(events.finish()).unwrap();
    });
}

pub(crate) fn heard() -> String {
    HEARD.lock().unwrap().clone()
}
