//! Builds again when a migration is added: `sqlx::migrate!` alone would not notice, and embed the old set.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
