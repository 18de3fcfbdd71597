//! What a holder says to the referee.

use super::boot;
use crate::line::json;
use lock_core::{Hold, LockGuard};
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

/// A longer time between two readings of a clock means that the process stood still meanwhile.
const STOOD_STILL: u64 = 1_000;

/// A line of a witness. `hold` is a number of its own for each hold of a connection, times are those of [`boot`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are named for what they are")]
pub enum Testimony {
    /// The holder is inside, and its hold is valid until then.
    Enter { hold: u64, name: String, token: u64, from: u64, until: u64 },
    /// The hold is valid until then.
    Extend { hold: u64, until: u64 },
    /// The holder leaves.
    Exit { hold: u64, at: u64 },
}

/// The connection of one process to the referee. Clones share it.
#[derive(Debug, Clone)]
pub struct Witness {
    said: Arc<Mutex<TcpStream>>,
    holds: Arc<AtomicU64>,
}

impl Witness {
    /// Goes to the referee that listens here.
    ///
    /// # Errors
    /// If it does not.
    pub fn of(referee: SocketAddr) -> io::Result<Self> {
        let mut stream = TcpStream::connect(referee)?;
        stream.set_nodelay(true)?;
        // From here on the referee waits for it to leave, before it judges.
        stream.read_exact(&mut [0])?;
        Ok(Self { said: Arc::new(Mutex::new(stream)), holds: Arc::default() })
    }

    /// Says that the holder is inside, and every `often` until when its hold is valid. Needs a runtime, on which it
    /// watches.
    #[must_use]
    pub fn enters(&self, guard: &LockGuard, often: Duration) -> Inside {
        let hold = guard.hold();
        let number = self.holds.fetch_add(1, Ordering::Relaxed);
        // This order: what is said of a hold that ends meanwhile is that it was never valid.
        let (from, until) = (boot(), valid_until(&hold));
        let left = Arc::new(AtomicBool::new(false));
        let (name, token) = (hold.name().to_string(), hold.fencing_token().get());
        self.say(&left, &Testimony::Enter { hold: number, name, token, from, until });
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

    /// Of a hold that was left nothing more is said.
    fn say(&self, left: &AtomicBool, testimony: &Testimony) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if !left.load(Ordering::Relaxed) {
            // A referee that is gone judges nothing, and its trial fails.
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

/// A hold that the referee knows of. Dropping it says that the holder leaves: before the guard is.
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

/// Until when the holder believes to hold: the beginning of time, if it does not.
fn valid_until(hold: &Hold) -> u64 {
    loop {
        let (before, held, remaining, after) = (boot(), hold.is_held(), hold.remaining(), boot());
        if !held {
            return 0;
        }
        if after - before < STOOD_STILL {
            return after + u64::try_from(remaining.as_micros()).unwrap_or(u64::MAX / 2);
        }
    }
}
