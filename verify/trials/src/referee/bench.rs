//! The work of the referee: recording testimonies, and judging.

use super::Testimony;
use crate::{
    line::{Order, Report},
    node::{Failure, Orders},
};
use lock_core::{FencingToken, LockName, clock::Moment};
use lock_testkit::{History, HoldKey};
use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

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
    let (history, present) = (Arc::new(History::new()), Arc::new(AtomicUsize::new(0)));
    {
        let (history, present) = (history.clone(), present.clone());
        std::thread::spawn(move || {
            for mut witness in listener.incoming().flatten() {
                present.fetch_add(1, Ordering::SeqCst);
                let _ = witness.write_all(b"\n");
                let (history, present) = (history.clone(), present.clone());
                std::thread::spawn(move || {
                    hear(&history, witness);
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
        let found = history.check();
        for violation in &found {
            Report::Violation { text: violation.to_string() }.say();
        }
        Report::Verdict { windows: history.windows().len(), violations: found.len() }.say();
    }
}

/// Records the testimony of one witness. A line cut short by the end of its process does not count.
fn hear(history: &History, witness: TcpStream) {
    let mut holds: HashMap<u64, HoldKey> = HashMap::new();
    let mut lines = BufReader::new(witness);
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|read| read > 0) && line.ends_with('\n') {
        write_down(history, &mut holds, &line).unwrap_or_else(|| panic!("invalid testimony: {line:?}"));
        line.clear();
    }
}

fn write_down(history: &History, holds: &mut HashMap<u64, HoldKey>, line: &str) -> Option<()> {
    match serde_json::from_str(line).ok()? {
        Testimony::Enter { hold, name, token, from, until } => {
            let (name, token) = (LockName::new(name).ok()?, FencingToken::new(token));
            let (from, until) = (Moment::from_micros(from), Moment::from_micros(until));
            holds.insert(hold, history.granted(&name, token, from, until));
        }
        Testimony::Extend { hold, until } => {
            history.extended(*holds.get(&hold)?, Moment::from_micros(until));
        }
        Testimony::Exit { hold, at } => history.ended(*holds.get(&hold)?, Moment::from_micros(at)),
    }
    Some(())
}
