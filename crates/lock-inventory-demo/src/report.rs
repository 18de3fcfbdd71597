//! The result as a person reads it: a table, the worst example, what does not add up, and one sentence.

use crate::{
    domain::{Breach, Catalogue, Evidence, Sku, Verdict, thousands},
    sale::{Plan, STALLED_LEASE, Sale, Strategy, Venue},
};
use comfy_table::{Cell, CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use std::io::{self, Write};

/// How many breaches are listed before the rest is only counted.
const LISTED: usize = 10;

/// Says what is about to happen.
///
/// # Errors
/// That of `out`.
pub fn open(out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    writeln!(
        out,
        "Flash sale: {} orders by {} buyers at {} shops, {} products, seed {}.",
        thousands(plan.demand.orders() as u64),
        thousands(plan.buyers.into()),
        plan.shops,
        plan.catalogue.products().len(),
        plan.seed,
    )?;
    writeln!(out, "{} products are wanted more often than they are there.", plan.demand.contested())?;
    let passes_on = match &plan.venue {
        Venue::Tasks => {
            writeln!(out, "The shops are tasks of this process, and the locks are in its memory.")?;
            "the lock passes on"
        }
        Venue::Processes(redis) => {
            let processes = if plan.shops == 1 { "process" } else { "processes" };
            writeln!(out, "The shops are {} {processes}, and the locks are on {redis}.", plan.shops)?;
            "the lock passes on to another process"
        }
    };
    match plan.demand.stalled().len() {
        0 => Ok(()),
        stalls => writeln!(
            out,
            "With the lock, {stalls} orders stall in their payment for longer than their lease of {STALLED_LEASE:?}:\n\
             {passes_on}, and what they write afterwards must be refused."
        ),
    }
}

/// Prints both sales and judges them.
///
/// # Errors
/// That of `out`.
pub fn close(out: &mut impl Write, plan: &Plan, without: &Sale, with: &Sale) -> io::Result<Verdict> {
    let verdict = Verdict::of(Evidence {
        without: &without.audit,
        with: &with.audit,
        refused: with.refused,
        stalls: plan.demand.stalled().len() as u64,
    });
    writeln!(out, "\n{}", table(without, with))?;
    if let Some(example) = worst(&plan.catalogue, without) {
        writeln!(out, "{example}")?;
    }
    let breaches = &with.audit.breaches;
    for breach in breaches.iter().take(LISTED) {
        writeln!(out, "Breach with the lock: {breach}.")?;
    }
    if breaches.len() > LISTED {
        writeln!(out, "… and {} more.", breaches.len() - LISTED)?;
    }
    writeln!(out, "{verdict}")?;
    Ok(verdict)
}

/// One row of the table, from one sale.
type Value = fn(&Sale) -> String;

fn table(without: &Sale, with: &Sale) -> Table {
    let rows: [(&str, Value); 11] = [
        ("units in stock at start", |sale| count(sale.audit.initial)),
        ("orders answered", |sale| thousands(sale.answered)),
        ("orders accepted", |sale| thousands(sale.audit.orders)),
        ("sold out (refused)", |sale| thousands(sale.sold_out)),
        ("units sold", |sale| count(sale.audit.sold)),
        ("oversold units", |sale| count(sale.audit.oversold)),
        ("stale writes refused", |sale| of_lock(sale, || thousands(sale.refused))),
        ("breaches in the books", |sale| thousands(sale.audit.breaches.len() as u64)),
        ("orders per second", |sale| thousands((sale.answered as f64 / sale.elapsed.as_secs_f64()) as u64)),
        ("wait for the lock, p50", |sale| of_lock(sale, || wait(sale, 0.5))),
        ("wait for the lock, p99", |sale| of_lock(sale, || wait(sale, 0.99))),
    ];
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(["", "without lock", "with lock"]);
    for (name, value) in rows {
        let value = |sale| Cell::new(value(sale)).set_alignment(CellAlignment::Right);
        table.add_row([Cell::new(name), value(without), value(with)]);
    }
    table
}

fn of_lock(sale: &Sale, value: impl FnOnce() -> String) -> String {
    match sale.strategy {
        Strategy::WithoutLock => "–".into(),
        Strategy::WithLock => value(),
    }
}

fn wait(sale: &Sale, quantile: f64) -> String {
    let micros = sale.waits.value_at_quantile(quantile);
    match micros {
        0..1_000 => format!("{micros} µs"),
        _ => format!("{:.1} ms", micros as f64 / 1e3),
    }
}

/// The product of which the sale without the lock sold the most pieces too many.
fn worst(catalogue: &Catalogue, without: &Sale) -> Option<String> {
    let oversold = without.audit.breaches.iter().filter_map(|breach| match breach {
        Breach::Oversold { sku, initial, sold } => Some((sold - initial, sku, initial, sold)),
        _ => None,
    });
    let (_, sku, initial, sold) = oversold.max()?;
    let title = &catalogue.get(&Sku::parse(sku).ok()?)?.title;
    Some(format!("Without the lock, for example: {title} ({sku}), {initial} in stock, {sold} sold."))
}

fn count(pieces: i64) -> String {
    let sign = if pieces < 0 { "-" } else { "" };
    format!("{sign}{}", thousands(pieces.unsigned_abs()))
}
