//! What the referee does: it writes down what it hears, and judges.

use crate::{
    line::say,
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

/// Says `listening <address>`, and at each order `judge`, once all witnesses have left: `violation …` for each, and
/// `verdict windows=<n> violations=<n>`.
///
/// # Errors
/// If there is no port.
///
/// # Cancel safety
/// Dropping it ends the judging, not the listening, which ends with the process.
pub async fn preside(orders: &mut Orders) -> Result<(), Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    say(format_args!("listening {}", listener.local_addr()?));
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
        orders.wait_for("judge").await;
        while present.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let found = history.check();
        for violation in &found {
            say(format_args!("violation {violation}"));
        }
        say(format_args!("verdict windows={} violations={}", history.windows().len(), found.len()));
    }
}

/// Writes down what one witness says. A line that was cut off with its process was never said.
fn hear(history: &History, witness: TcpStream) {
    let mut holds: HashMap<u64, HoldKey> = HashMap::new();
    let mut lines = BufReader::new(witness);
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|read| read > 0) && line.ends_with('\n') {
        write_down(history, &mut holds, &line)
            .unwrap_or_else(|| panic!("a witness speaks clearly: {line:?}"));
        line.clear();
    }
}

fn write_down(history: &History, holds: &mut HashMap<u64, HoldKey>, line: &str) -> Option<()> {
    let mut words = line.split_ascii_whitespace();
    let what = words.next()?;
    let name = if what == "enter" { words.next() } else { None };
    let mut number = || words.next()?.parse::<u64>().ok();
    let hold = number()?;
    match what {
        "enter" => {
            let (name, token) = (LockName::new(name?).ok()?, FencingToken::new(number()?));
            let (from, until) = (Moment::from_micros(number()?), Moment::from_micros(number()?));
            holds.insert(hold, history.granted(&name, token, from, until));
        }
        "extend" => history.extended(*holds.get(&hold)?, Moment::from_micros(number()?)),
        "exit" => history.ended(*holds.get(&hold)?, Moment::from_micros(number()?)),
        _ => return None,
    }
    Some(())
}
