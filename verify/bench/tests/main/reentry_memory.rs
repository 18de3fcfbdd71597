//! A lock that was re-entered once needs no more memory afterwards, although it stays held.

use allocation_counter::measure;
use lock_core::{LockFactory, MemoryBackend};
use tokio::runtime::Builder;

#[test]
fn hold_keeps_no_room_for_reentries() {
    const LOCKS: usize = 1_000;
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    let locks = LockFactory::new(MemoryBackend::new());
    let guards = runtime.block_on(async {
        let mut guards = Vec::with_capacity(LOCKS);
        for number in 0..LOCKS {
            let lock = locks.named(format!("held:{number}")).expect("valid name");
            guards.push(lock.acquire().await.expect("acquired"));
        }
        guards
    });
    let counted = measure(|| {
        runtime.block_on(async {
            for guard in &guards {
                let again = guard.reenter().await.expect("re-entered");
                again.release().await.expect("released");
            }
        });
    });
    let each = counted.bytes_current / i64::try_from(LOCKS).expect("a small number");
    // An emptied `BTreeMap` would keep a leaf of about 1 KB.
    assert!(each < 300, "each held lock keeps {each} bytes after a re-entry");
    drop(guards);
}
