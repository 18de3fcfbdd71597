//! Books that a wrong program has written.

use crate::support::{Stage, order};
use lock_inventory_demo::audit::{Audit, Books, Breach};
use std::process::Command;

const TWO: &str = r#"{"quantity":2}"#;

/// Sells units at a lower price, changes the books by hand, and returns the rules that are broken.
async fn breaches(shop: &'static str, provider: &'static str) -> Vec<Breach> {
    let stage = Stage::with_units(5).await;
    sqlx::raw_sql("update products set price_cents = 700").execute(stage.store.pool()).await.unwrap();
    assert_eq!(order(&stage.shop(), "ann", "1", TWO).await.status, 201);
    stage.audit().await;
    sqlx::raw_sql(shop).execute(stage.store.pool()).await.unwrap();
    sqlx::raw_sql(provider).execute(stage.provider.database().pool()).await.unwrap();
    Audit::of(&Books::read(&stage.store, &stage.provider).await.unwrap()).breaches
}

#[tokio::test]
async fn order_that_is_not_what_was_asked_for_is_found() {
    let found = breaches("update orders set quantity = 3; update products set stock = 2", "").await;
    assert!(matches!(&found[..], [Breach::Intent { .. }]), "more units: {found:?}");
    let found = breaches("update orders set cents = 800", "update charges set cents = 800").await;
    assert!(matches!(&found[..], [Breach::Intent { .. }]), "another price: {found:?}");
}

#[tokio::test]
async fn open_intent_excuses_no_more_than_its_own_amount() {
    let open = "delete from orders; update products set stock = 5; update intents set state = 'open'";
    assert_eq!(breaches(open, "").await, []);
    let found = breaches(open, "update charges set cents = 9000").await;
    assert!(matches!(&found[..], [Breach::Money { charged: 9000, .. }]), "{found:?}");
}

#[test]
fn audit_of_the_wrong_database_does_not_pass() {
    let folder = tempfile::tempdir().unwrap();
    let audit = Command::new(env!("CARGO_BIN_EXE_lock-inventory-demo"))
        .arg("audit")
        .env_remove("SHOP_DATABASE")
        .env_remove("SHOP_PAYMENTS")
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(!audit.status.success(), "{audit:?}");
    assert!(String::from_utf8_lossy(&audit.stderr).contains("SHOP_DATABASE"), "{audit:?}");
}
