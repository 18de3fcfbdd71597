//! A group of 5,000 jobs.

use crate::past::{Past, group};
use lock_browser::{Browser, Screen};
use lock_core::{LockFactory, LockName, MemoryBackend};
use lock_cron::{RunLedger, Scheduler};
use lock_ledger::{JobDescription, Registration};

/// Returns the processor time of this process, without the browser.
fn processor_millis() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    ticks * 10
}

#[tokio::test]
async fn five_thousand_jobs_are_read_in_pages_and_by_their_changes() {
    let past = Past::new();
    let names: Vec<_> = (0..5000).map(|n| LockName::new(format!("job-{n:04}")).unwrap()).collect();
    let register = |job: &LockName| Registration { job: job.clone(), schedule: 1 };
    past.ledger.register(group(), names.iter().map(register).collect()).await.unwrap();
    let describe = |job: &LockName| JobDescription {
        job: job.clone(),
        schedule: "*/15 2 * * MON-FRI".to_owned(),
        dst: String::new(),
        terms: String::new(),
        alert_after: None,
    };
    past.ledger.describe(group(), names.iter().map(describe).collect()).await.unwrap();
    let locks = LockFactory::new(MemoryBackend::new());
    let cron = Scheduler::builder(locks, past.ledger.clone()).group("billing").build().unwrap();
    let (address, serving) = crate::fixture::serve(lock_cron::router(cron)).await;
    let browser = Browser::start().await.unwrap();
    browser.set_screen(Screen::LAPTOP).await.unwrap();
    browser.open(&format!("http://{address}/cron")).await.unwrap();
    browser.wait_for("document.querySelectorAll('#jobs tr').length === 100").await.unwrap();
    let paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime";
    browser.wait_for(paint).await.unwrap();
    println!("first paint after {} ms", browser.value(paint).await.unwrap());
    let sizes = "performance.getEntriesByType('resource').filter(of => of.name.includes('/jobs')).map(of => of.encodedBodySize)";
    browser.wait_for(&format!("{sizes}.length >= 3")).await.unwrap();
    let sizes: Vec<u64> = serde_json::from_value(browser.value(sizes).await.unwrap()).unwrap();
    println!("bytes of the answers: {sizes:?}");
    assert!(sizes[0] < 100_000 && sizes[1..].iter().all(|bytes| *bytes < 4_000), "{sizes:?}");
    if std::env::var_os("LOCK_LONG").is_some() {
        let (before, began) = (processor_millis(), std::time::Instant::now());
        tokio::time::sleep(std::time::Duration::from_secs(20)).await;
        let share = (processor_millis() - before) as f64 / began.elapsed().as_secs_f64();
        println!("{share:.1} ms of processor time a second, with the ledger in memory");
    }
    browser.click("#more").await.unwrap();
    browser.wait_for("document.querySelectorAll('#jobs tr').length === 200").await.unwrap();
    serving.abort();
}
