//! A lock that was re-entered or extended once needs no more memory afterwards, although it stays held.

use allocation_counter::measure;
use lock_core::{LockFactory, MemoryBackend};
use std::time::Duration;

#[test]
fn extended_hold_keeps_no_room_for_reentries() {
    const LOCKS: usize = 1_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let locks = LockFactory::new(MemoryBackend::new());
    let settle = || tokio::time::sleep(Duration::from_millis(100));
    let guards = runtime.block_on(async {
        let mut guards = Vec::with_capacity(LOCKS);
        for n in 0..LOCKS {
            guards.push(locks.named(&*format!("held:{n}")).unwrap().acquire().await.unwrap());
        }
        settle().await;
        guards
    });
    let info = measure(|| {
        runtime.block_on(async {
            for guard in &guards {
                guard.extend(Duration::from_secs(30)).await.unwrap();
            }
            settle().await;
        });
    });
    let each = info.bytes_current / i64::try_from(LOCKS).unwrap();
    // An emptied `BTreeMap` would keep a leaf of about 1 KB.
    assert!(each < 300, "{each} bytes per held lock stay allocated after one extension");
    drop(guards);
}
