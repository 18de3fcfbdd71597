//! The printed result: two tables, the worst example, inconsistencies, the verdict, and next steps.

use super::{Plan, Sale, Throughput, stall::STALLED_LEASE};
use crate::domain::{Breach, Catalogue, Evidence, Sku, Verdict, thousands};
use comfy_table::{Cell, CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use std::io::{self, Write};

/// Maximum number of broken invariants that are listed. The rest is only counted.
const LISTED: usize = 10;

/// Prints a description of the planned sales.
pub(super) fn open(out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    let options = &plan.options;
    writeln!(
        out,
        "Flash sale: {} orders by {} buyers at {} shops, {} products, seed {}.",
        thousands(plan.demand.orders() as u64),
        thousands(options.buyers.into()),
        options.shops,
        plan.catalogue.products().len(),
        options.seed,
    )?;
    writeln!(out, "The stock is in a temporary SQLite database, and the locks are in {}.", options.locks)?;
    writeln!(out, "The demand for {} products exceeds their stock.", plan.demand.contested())?;
    match options.stalls {
        0 => Ok(()),
        stalls => writeln!(
            out,
            "With the lock, {stalls} orders stall during payment for longer than their lease of {} ms. Other \
             shops acquire\ntheir locks, and the late writes must be refused.",
            STALLED_LEASE.as_millis(),
        ),
    }
}

/// Prints the sales and the throughput, and returns the verdict.
pub(super) fn close(
    out: &mut impl Write,
    plan: &Plan,
    without: &Sale,
    with: &Sale,
    throughput: &Throughput,
) -> io::Result<Verdict> {
    let verdict = Verdict::of(Evidence {
        without: &without.audit,
        with: &with.audit,
        refused: with.refused,
        stalls: plan.options.stalls.into(),
    });
    writeln!(out, "\n{}", table(without, with))?;
    writeln!(
        out,
        "The longest waits are for the most popular products. A product's orders are paid for one after the other, \
         about {:.1} ms\neach, and up to {} buyers wait in its queue.",
        throughput.section.as_secs_f64() * 1e3,
        thousands(plan.options.buyers.into()),
    )?;
    writeln!(out, "\n{}", speed(throughput))?;
    if let Some(example) = worst(&plan.catalogue, without) {
        writeln!(out, "{example}")?;
    }
    let breaches = &with.audit.breaches;
    for breach in breaches.iter().take(LISTED) {
        writeln!(out, "Broken invariant with the lock: {breach}.")?;
    }
    if breaches.len() > LISTED {
        writeln!(out, "… and {} more.", breaches.len() - LISTED)?;
    }
    writeln!(out, "{verdict}\n\n{NEXT}")?;
    Ok(verdict)
}

const NEXT: &str = "\
A single row in a single database needs no lock: the conditional update is correct without one. (Here it also keeps a
reservation during the payment, which is more work for the database.) A lock is useful if the critical section spans several
systems, like the stock and the payment here, and it is only safe with the fencing token.

Next: `serve` starts several shops with a dashboard, `all --quick` runs every scenario in real processes, and `--help` lists
all commands.";

/// Returns the throughput table, with the possible throughput for comparison.
fn speed(throughput: &Throughput) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(["throughput", "orders per second", "ratio"]);
    let section = throughput.section.as_secs_f64();
    let rows = [
        (
            "one product, lock",
            throughput.hot,
            format!("{:.2} of the limit, 1 / {:.1} ms", throughput.hot_share(), section * 1e3),
        ),
        ("100 products, lock", throughput.spread, format!("{:.2} of conditional", throughput.spread_share())),
        ("100 products, conditional", throughput.conditional, String::new()),
    ];
    for (name, per_second, share) in rows {
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row([Cell::new(name), right(thousands(per_second as u64)), right(share)]);
    }
    table
}

/// A function that returns a sale's value for one row of the table.
type Value = fn(&Sale) -> String;

fn table(without: &Sale, with: &Sale) -> Table {
    let rows: [(&str, Value); 11] = [
        ("units in stock at start", |sale| count(sale.audit.supplied)),
        ("orders completed", |sale| thousands(sale.answered)),
        ("orders accepted", |sale| thousands(sale.audit.orders)),
        ("sold out (refused)", |sale| thousands(sale.sold_out)),
        ("units sold", |sale| count(sale.audit.sold)),
        ("oversold units", |sale| count(sale.audit.oversold)),
        ("stale writes refused", |sale| of_lock(sale, || thousands(sale.refused))),
        ("broken invariants", |sale| thousands(sale.audit.breaches.len() as u64)),
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
    match sale.strategy.needs_lock() {
        false => "–".into(),
        true => value(),
    }
}

fn wait(sale: &Sale, quantile: f64) -> String {
    let micros = sale.waits.value_at_quantile(quantile);
    match micros {
        0..1_000 => format!("{micros} µs"),
        _ => format!("{:.1} ms", micros as f64 / 1e3),
    }
}

/// Returns a sentence about the most oversold product in the sale without the lock.
fn worst(catalogue: &Catalogue, without: &Sale) -> Option<String> {
    let oversold = without.audit.breaches.iter().filter_map(|breach| match breach {
        Breach::Oversold { sku, supplied, sold } => Some((sold - supplied, sku, supplied, sold)),
        _ => None,
    });
    let (_, sku, supplied, sold) = oversold.max()?;
    let title = &catalogue.get(&Sku::parse(sku).ok()?)?.title;
    Some(format!("Without the lock, for example: {title} ({sku}), {supplied} in stock, {sold} sold."))
}

fn count(pieces: i64) -> String {
    let sign = if pieces < 0 { "-" } else { "" };
    format!("{sign}{}", thousands(pieces.unsigned_abs()))
}
