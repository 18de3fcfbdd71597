//! The referee: a separate process that records who holds which lock under which token and until when, and judges
//! once all have disconnected.
//!
//! [`Witness`]es in the holders' processes report to it in lines over TCP. So it keeps the reports of a holder that was
//! killed, and a suspended holder cannot retract its belief.

use crate::{
    line::{Order, Orders, Report, ViolationKind, json},
    node::Failure,
};
use lock_core::{FencingToken, Hold, LockName, clock::Moment};
use lock_testkit::{History, Violation};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinHandle;

/// Returns the boot-time clock in µs. All processes of a machine share it, and steps of the wall clock do not affect
/// it.
#[must_use]
pub fn boot() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_nsec.unsigned_abs() / 1_000
}

/// A longer time between two readings of a clock, in µs, means that the process was suspended in between.
const SUSPENDED_AFTER: u64 = 1_000;

/// A line of a witness. `hold` is unique per hold of a connection; times are those of [`boot`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are named for what they are")]
pub enum Testimony {
    /// The holder has entered, and its hold is valid until `until`.
    Enter { hold: u64, name: String, lease: String, token: u64, part: Option<Part>, from: u64, until: u64 },
    /// The hold is now valid until `until`.
    Extend { hold: u64, until: u64 },
    /// The holder leaves.
    Exit { hold: u64, at: u64 },
    /// A lease of this name was released by force between these times; without an answer, any lease of the name may have been.
    Forced { name: String, lease: Option<String>, from: u64, until: u64 },
}

/// The part of a pool that a permit is. Permits may be valid together up to the limit, in any order of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The weight of the permit.
    pub weight: u32,
    /// The limit of the pool.
    pub limit: u32,
}

/// The connection of one process to the referee. Clones share it.
#[derive(Debug, Clone)]
pub struct Witness {
    said: Arc<Mutex<TcpStream>>,
    holds: Arc<AtomicU64>,
    often: Duration,
}

impl Witness {
    /// Connects to the referee at this address, to which it then reports every `often` until when a hold is valid.
    ///
    /// # Errors
    /// If the referee cannot be reached.
    pub fn of(referee: SocketAddr, often: Duration) -> io::Result<Self> {
        let mut stream = TcpStream::connect(referee)?;
        stream.set_nodelay(true)?;
        // From here on, the referee waits for the disconnection before it judges.
        stream.read_exact(&mut [0])?;
        Ok(Self { said: Arc::new(Mutex::new(stream)), holds: Arc::default(), often })
    }

    /// Reports that the holder has entered, and repeatedly until when its hold is valid. Must be called in a runtime.
    #[must_use]
    pub fn enters(&self, hold: Hold) -> Inside {
        self.takes(hold, None)
    }

    /// Does the same for a permit, which is a part of its pool unless it excludes all others.
    #[must_use]
    pub fn takes(&self, hold: Hold, part: Option<Part>) -> Inside {
        let number = self.holds.fetch_add(1, Ordering::Relaxed);
        // In this order, a hold that ends in between is reported as never valid.
        let (from, until) = (boot(), valid_until(&hold));
        let left = Arc::new(AtomicBool::new(false));
        // The names of pools are reserved.
        let name = hold.name().as_str().trim_start_matches("distlock:").to_owned();
        let lease = hold.lease_id().to_string();
        let token = hold.fencing_token().get();
        self.say(&left, &Testimony::Enter { hold: number, name, lease, token, part, from, until });
        let watching = {
            let (this, left) = (self.clone(), left.clone());
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(this.often).await;
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

/// Everything that witnesses have said.
#[derive(Debug, Default)]
struct Record {
    holds: Vec<Window>,
    forced: Vec<Forced>,
}

/// A hold as its holder saw it.
#[derive(Debug)]
struct Window {
    name: LockName,
    lease: String,
    token: FencingToken,
    part: Option<Part>,
    from: u64,
    until: u64,
}

#[derive(Debug)]
struct Forced {
    name: LockName,
    lease: Option<String>,
    from: u64,
    until: u64,
}

impl Forced {
    /// Returns `true` if it may have ended the lease of this hold.
    fn ends(&self, hold: &Window) -> bool {
        match &self.lease {
            Some(lease) => *lease == hold.lease,
            None => self.name == hold.name && hold.from <= self.until && self.from <= hold.until,
        }
    }
}

impl Record {
    /// Returns a text for each permit of a pool whose holder entered while the weights of the valid ones exceeded the limit.
    fn excesses(&self) -> Vec<String> {
        let mut permits: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for hold in self.holds.iter().filter(|hold| hold.from < hold.until) {
            if let Some(part) = hold.part {
                permits.entry(&hold.name).or_default().push((hold, part));
            }
        }
        let mut found = Vec::new();
        for (name, mut permits) in permits {
            permits.sort_by_key(|(hold, _)| hold.from);
            let mut valid: Vec<(&Window, Part)> = Vec::new();
            for (hold, part) in permits {
                valid.retain(|(earlier, _)| earlier.until > hold.from);
                valid.push((hold, part));
                let used: u64 = valid.iter().map(|(_, part)| u64::from(part.weight)).sum();
                if used > u64::from(part.limit) {
                    found.push(format!("{name}: {used} permits of {} are valid: {valid:?}", part.limit));
                }
            }
        }
        found
    }

    /// Returns the holds without the time after a forced release of their lease: their holders may believe in it until their next
    /// renewal, and may hand it on. Also returns the number of holds that are left out because they began after that.
    fn history(&self) -> (History, usize) {
        let (history, mut left_out) = (History::new(), 0);
        for hold in self.holds.iter().filter(|hold| hold.part.is_none()) {
            let forced =
                self.forced.iter().filter(|forced| forced.ends(hold)).map(|forced| forced.from).min();
            let until = forced.map_or(hold.until, |forced| hold.until.min(forced));
            if forced.is_some_and(|forced| forced <= hold.from) {
                left_out += 1;
                continue;
            }
            let [from, until] = [hold.from, until].map(Moment::from_micros);
            history.granted(&hold.name, hold.token, from, until);
        }
        (history, left_out)
    }
}

fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports `listening`. At each order `judge`, once all witnesses have disconnected, reports each `violation` and then
/// the `verdict`.
///
/// # Errors
/// If no port is available.
///
/// # Cancel safety
/// Dropping it ends the judging. Listening ends with the process.
pub async fn preside(orders: &mut Orders) -> Result<(), Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Report::Listening { address: listener.local_addr()? }.say();
    let (record, present) = (Arc::new(Mutex::default()), Arc::new(AtomicUsize::new(0)));
    {
        let (record, present) = (record.clone(), present.clone());
        std::thread::spawn(move || {
            for mut witness in listener.incoming().flatten() {
                present.fetch_add(1, Ordering::SeqCst);
                let _ = witness.write_all(b"\n");
                let (record, present) = (record.clone(), present.clone());
                std::thread::spawn(move || {
                    hear(&record, witness);
                    present.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
    }
    loop {
        orders.wait_for(&Order::Judge).await;
        while present.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let ((history, left_out), excesses, permits) = {
            let record = lock(&record);
            let permits = record.holds.iter().filter(|hold| hold.part.is_some()).count();
            (record.history(), record.excesses(), permits)
        };
        let found = history.check();
        let (windows, violations) = (history.windows().len() + permits, found.len() + excesses.len());
        for text in excesses {
            Report::Violation { kind: ViolationKind::Overlap, text }.say();
        }
        for violation in &found {
            let kind = match violation {
                Violation::Overlap { .. } => ViolationKind::Overlap,
                Violation::TokenFell { .. } => ViolationKind::TokenFell,
                Violation::TokenRepeated { .. } => ViolationKind::TokenRepeated,
            };
            Report::Violation { kind, text: violation.to_string() }.say();
        }
        Report::Verdict { windows, left_out, violations }.say();
    }
}

/// Records the testimony of one witness. A line cut short by the end of its process does not count.
fn hear(record: &Mutex<Record>, witness: TcpStream) {
    let mut holds = HashMap::new();
    let mut lines = BufReader::new(witness);
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|read| read > 0) && line.ends_with('\n') {
        write_down(&mut lock(record), &mut holds, &line)
            .unwrap_or_else(|| panic!("invalid testimony: {line:?}"));
        line.clear();
    }
}

/// `holds` are the positions of the witness's holds in the record.
fn write_down(record: &mut Record, holds: &mut HashMap<u64, usize>, line: &str) -> Option<()> {
    match serde_json::from_str(line).ok()? {
        Testimony::Enter { hold, name, lease, token, part, from, until } => {
            let (name, token) = (LockName::new(name).ok()?, FencingToken::new(token));
            holds.insert(hold, record.holds.len());
            record.holds.push(Window { name, lease, token, part, from, until });
        }
        Testimony::Extend { hold, until } => {
            let window = record.holds.get_mut(*holds.get(&hold)?)?;
            window.until = window.until.max(until);
        }
        Testimony::Exit { hold, at } => {
            let window = record.holds.get_mut(*holds.get(&hold)?)?;
            window.until = window.until.min(at);
        }
        Testimony::Forced { name, lease, from, until } => {
            record.forced.push(Forced { name: LockName::new(name).ok()?, lease, from, until });
        }
    }
    Some(())
}
