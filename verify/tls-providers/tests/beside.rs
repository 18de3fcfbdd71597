//! A program that uses TLS of its own beside the library's.

mod server;

use rustls::{ClientConfig, RootCertStore};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_and_library_each_use_their_provider() {
    // With two providers in the tree, rustls asks every program to choose its own.
    #[cfg(feature = "other")]
    rustls::crypto::aws_lc_rs::default_provider().install_default().unwrap();
    // Panics if the program's provider is ambiguous.
    let _ = ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    server::lock_over_tls().await;
}
