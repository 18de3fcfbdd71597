//! Runs rustdoc with unstable options under a stable toolchain; see `lock_public_api::rustdoc`.

use lock_public_api::rustdoc;
use std::process::exit;

fn main() {
    match rustdoc::wrapped(std::env::args_os().skip(1)) {
        Ok(code) => exit(code),
        Err(error) => {
            eprintln!("rustdoc does not start: {error}");
            exit(1)
        }
    }
}
