//! Decides how the sources of lock-core are compiled here: under the explorer, and with its hooks for simulations.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=shuttle");
    println!("cargo::rustc-cfg=feature=\"unstable-model\"");
    println!(
        "cargo::rustc-check-cfg=cfg(feature, values(\"unstable-model\", \"otel\", \"cancellation-token\"))"
    );
}
