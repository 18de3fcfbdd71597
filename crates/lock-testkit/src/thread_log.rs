//! What a thread logs through `tracing`, for tests that run beside others.

use std::{
    cell::RefCell,
    io,
    sync::{Arc, Mutex, Once, PoisonError},
};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Layer, filter::dynamic_filter_fn, fmt, layer::SubscriberExt, registry};

thread_local! {
    static LISTENING: RefCell<Option<Listener>> = const { RefCell::new(None) };
}

struct Listener {
    level: LevelFilter,
    text: Arc<Mutex<Vec<u8>>>,
}

/// The lines that this thread logs, from [`ThreadLog::listen`] until it is dropped.
///
/// Tests of one process need one subscriber for all of them: a scoped one (`tracing::subscriber::set_default`) does not
/// see a call site that a thread without a subscriber reaches first, since `tracing` keeps the answer of that thread.
/// So the first call installs a subscriber for the whole process, which listens to the threads that ask for it. The tasks
/// of a `current_thread` runtime log on the thread of their test.
#[derive(Debug)]
pub struct ThreadLog(Arc<Mutex<Vec<u8>>>);

impl ThreadLog {
    /// Listens to this thread, up to `level`.
    ///
    /// # Panics
    /// If this thread is listened to already, or if the process has another global subscriber.
    pub fn listen(level: LevelFilter) -> Self {
        static SUBSCRIBER: Once = Once::new();
        SUBSCRIBER.call_once(|| {
            let listens = |level| {
                LISTENING.with_borrow(|listener| listener.as_ref().is_some_and(|one| level <= one.level))
            };
            let wanted = dynamic_filter_fn(move |metadata, _| listens(*metadata.level()));
            let lines = fmt::layer().with_ansi(false).with_writer(|| Lines).with_filter(wanted);
            tracing::subscriber::set_global_default(registry().with(lines))
                .expect("a process of tests has one subscriber");
        });
        let text = Arc::default();
        LISTENING.with_borrow_mut(|listener| {
            assert!(listener.is_none(), "this thread is listened to already");
            *listener = Some(Listener { level, text: Arc::clone(&text) });
        });
        Self(text)
    }

    /// What was logged until now.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// How many lines have these words.
    pub fn count(&self, words: &str) -> usize {
        self.text().lines().filter(|line| line.contains(words)).count()
    }

    /// Forgets what was logged until now.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for ThreadLog {
    fn drop(&mut self) {
        LISTENING.set(None);
    }
}

/// Writes to the log of the current thread.
struct Lines;

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LISTENING.with_borrow(|listener| {
            if let Some(listener) = listener {
                listener.text.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            }
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
