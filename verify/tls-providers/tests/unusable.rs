//! A program whose default provider cannot encrypt anything.

mod server;

use rustls::crypto::{CryptoProvider, aws_lc_rs};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn library_does_not_use_the_default_provider_of_the_process() {
    let useless = CryptoProvider { cipher_suites: Vec::new(), ..aws_lc_rs::default_provider() };
    useless.install_default().unwrap();
    server::lock_over_tls().await;
}
