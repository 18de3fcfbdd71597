//! The work of the referee: recording testimonies, and judging.

use super::Testimony;
use crate::{
    line::{Order, Report, ViolationKind},
    node::{Failure, Orders},
};
use lock_core::{FencingToken, LockName, clock::Moment};
use lock_testkit::{History, Violation};
use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

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
    /// Returns the holds without the time after a forced release of their lease: their holders may believe in it until their next
    /// renewal, and may hand it on. Also returns the number of holds that are left out because they began after that.
    fn history(&self) -> (History, usize) {
        let (history, mut left_out) = (History::new(), 0);
        for hold in &self.holds {
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
        let (history, left_out) = lock(&record).history();
        let found = history.check();
        for violation in &found {
            let kind = match violation {
                Violation::Overlap { .. } => ViolationKind::Overlap,
                Violation::TokenFell { .. } => ViolationKind::TokenFell,
                Violation::TokenRepeated { .. } => ViolationKind::TokenRepeated,
            };
            Report::Violation { kind, text: violation.to_string() }.say();
        }
        Report::Verdict { windows: history.windows().len(), left_out, violations: found.len() }.say();
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
        Testimony::Enter { hold, name, lease, token, from, until } => {
            let (name, token) = (LockName::new(name).ok()?, FencingToken::new(token));
            holds.insert(hold, record.holds.len());
            record.holds.push(Window { name, lease, token, from, until });
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
