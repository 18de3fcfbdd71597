//! Triggers a rebuild when a migration is added. `sqlx::migrate!` alone would not notice it and would embed the old
//! set.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
