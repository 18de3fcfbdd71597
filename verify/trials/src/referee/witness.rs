//! The reports of holders to the referee.

use super::boot;
use crate::line::json;
use lock_core::Hold;
use serde::{Deserialize, Serialize};
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinHandle;

/// A longer time between two readings of a clock, in µs, means that the process was suspended in between.
const SUSPENDED_AFTER: u64 = 1_000;

/// A line of a witness. `hold` is unique per hold of a connection; times are those of [`boot`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are named for what they are")]
pub enum Testimony {
    /// The holder has entered, and its hold is valid until `until`.
    Enter { hold: u64, name: String, lease: String, token: u64, from: u64, until: u64 },
    /// The hold is now valid until `until`.
    Extend { hold: u64, until: u64 },
    /// The holder leaves.
    Exit { hold: u64, at: u64 },
    /// A lease of this name was released by force between these times; without an answer, any lease of the name may have been.
    Forced { name: String, lease: Option<String>, from: u64, until: u64 },
}

/// The connection of one process to the referee. Clones share it.
#[derive(Debug, Clone)]
pub struct Witness {
    said: Arc<Mutex<TcpStream>>,
    holds: Arc<AtomicU64>,
}

impl Witness {
    /// Connects to the referee at this address.
    ///
    /// # Errors
    /// If the referee cannot be reached.
    pub fn of(referee: SocketAddr) -> io::Result<Self> {
        let mut stream = TcpStream::connect(referee)?;
        stream.set_nodelay(true)?;
        // From here on, the referee waits for the disconnection before it judges.
        stream.read_exact(&mut [0])?;
        Ok(Self { said: Arc::new(Mutex::new(stream)), holds: Arc::default() })
    }

    /// Reports that the holder has entered, and every `often` until when its hold is valid. Must be called in a
    /// runtime.
    #[must_use]
    pub fn enters(&self, hold: Hold, often: Duration) -> Inside {
        let number = self.holds.fetch_add(1, Ordering::Relaxed);
        // In this order, a hold that ends in between is reported as never valid.
        let (from, until) = (boot(), valid_until(&hold));
        let left = Arc::new(AtomicBool::new(false));
        let (name, lease) = (hold.name().to_string(), hold.lease_id().to_string());
        let token = hold.fencing_token().get();
        self.say(&left, &Testimony::Enter { hold: number, name, lease, token, from, until });
        let watching = {
            let (this, left) = (self.clone(), left.clone());
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(often).await;
                    if !hold.is_held() {
                        return;
                    }
                    this.say(&left, &Testimony::Extend { hold: number, until: valid_until(&hold) });
                }
            })
        };
        Inside { witness: self.clone(), number, left, watching }
    }

    /// Reports a forced release, called at `from` and answered just now. Without a lease, its outcome is unknown.
    pub fn forced(&self, name: &str, lease: Option<String>, from: u64) {
        let forced = Testimony::Forced { name: name.to_owned(), lease, from, until: boot() };
        self.say(&AtomicBool::new(false), &forced);
    }

    /// Sends a testimony, unless the hold was left already.
    fn say(&self, left: &AtomicBool, testimony: &Testimony) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if !left.load(Ordering::Relaxed) {
            // Without the referee nothing is judged, and its trial fails.
            let _ = said.write_all(format!("{}\n", json(testimony)).as_bytes());
        }
    }

    fn leaves(&self, left: &AtomicBool, number: u64) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        left.store(true, Ordering::Relaxed);
        let exit = Testimony::Exit { hold: number, at: boot() };
        let _ = said.write_all(format!("{}\n", json(&exit)).as_bytes());
    }
}

/// A hold that was reported to the referee. Dropping it reports that the holder leaves; drop it before the guard.
#[derive(Debug)]
pub struct Inside {
    witness: Witness,
    number: u64,
    left: Arc<AtomicBool>,
    watching: JoinHandle<()>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.watching.abort();
        self.witness.leaves(&self.left, self.number);
    }
}

/// Returns the time until which the holder believes it holds the lock, or zero if it does not.
fn valid_until(hold: &Hold) -> u64 {
    loop {
        let (before, held, remaining, after) = (boot(), hold.is_held(), hold.remaining(), boot());
        if !held {
            return 0;
        }
        if after - before < SUSPENDED_AFTER {
            return after + u64::try_from(remaining.as_micros()).unwrap_or(u64::MAX / 2);
        }
    }
}
