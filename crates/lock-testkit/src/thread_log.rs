//! Capture of one thread's `tracing` output, for tests that run in parallel.

use std::{
    cell::RefCell,
    io,
    sync::{Arc, Mutex, Once, PoisonError},
};
use tracing::{Metadata, level_filters::LevelFilter};
use tracing_subscriber::{
    filter::dynamic_filter_fn,
    fmt::{self, MakeWriter, format::FmtSpan},
    layer::SubscriberExt,
    registry,
};

thread_local! {
    static LISTENING: RefCell<Option<Listener>> = const { RefCell::new(None) };
}

struct Listener {
    level: LevelFilter,
    spans: bool,
    text: Arc<Mutex<Vec<u8>>>,
}

/// The lines logged by the current thread, from [`ThreadLog::listen`] until this is dropped.
///
/// All tests in a process share one subscriber. A scoped one (`tracing::subscriber::set_default`)
/// misses call sites that a thread without a subscriber reaches first, because `tracing` caches
/// their interest. The first call therefore installs a global subscriber, which captures the
/// threads that requested it. The tasks of a `current_thread` runtime log on their test's thread.
#[derive(Debug)]
pub struct ThreadLog(Arc<Mutex<Vec<u8>>>);

impl ThreadLog {
    /// Captures the events of this thread, up to `level`.
    ///
    /// # Panics
    /// Panics if this thread is already captured, or if the process has another global subscriber.
    pub fn listen(level: LevelFilter) -> Self {
        Self::start(level, false)
    }

    /// Captures the events of this thread and the end of each span: a line with its fields and `close`.
    ///
    /// # Panics
    /// Panics under the same conditions as [`listen`](Self::listen).
    pub fn listen_with_spans(level: LevelFilter) -> Self {
        Self::start(level, true)
    }

    fn start(level: LevelFilter, spans: bool) -> Self {
        static SUBSCRIBER: Once = Once::new();
        SUBSCRIBER.call_once(|| {
            let listens = |level| {
                LISTENING.with_borrow(|listener| listener.as_ref().is_some_and(|one| level <= one.level))
            };
            // Filter globally instead of per layer: a span that only its layer rejects is not
            // disabled.
            let wanted = dynamic_filter_fn(move |metadata, _| listens(*metadata.level()));
            let lines = fmt::layer().with_ansi(false).with_span_events(FmtSpan::CLOSE).with_writer(ToThread);
            tracing::subscriber::set_global_default(registry().with(wanted).with(lines))
                .expect("another global subscriber is already set");
        });
        let text = Arc::default();
        LISTENING.with_borrow_mut(|listener| {
            assert!(listener.is_none(), "this thread's log is already captured");
            *listener = Some(Listener { level, spans, text: Arc::clone(&text) });
        });
        Self(text)
    }

    /// Returns everything logged so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Returns the number of lines that contain `words`.
    pub fn count(&self, words: &str) -> usize {
        self.text().lines().filter(|line| line.contains(words)).count()
    }

    /// Discards everything logged so far.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for ThreadLog {
    fn drop(&mut self) {
        LISTENING.set(None);
    }
}

/// Writes to the current thread's log.
struct ToThread;

impl<'a> MakeWriter<'a> for ToThread {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        Lines { is_span: false }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Lines {
        Lines { is_span: metadata.is_span() }
    }
}

/// A writer for one event, or for the end of one span.
struct Lines {
    is_span: bool,
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LISTENING.with_borrow(|listener| {
            if let Some(listener) = listener.as_ref().filter(|one| one.spans || !self.is_span) {
                listener.text.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            }
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
