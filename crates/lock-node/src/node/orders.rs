//! The orders, as lines of stdin. Its end ends the process: whoever drives it is gone.

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

pub(super) struct Orders(UnboundedReceiver<String>);

impl Orders {
    pub(super) fn from_stdin() -> Self {
        let (orders, receiver) = unbounded_channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lines() {
                let Ok(line) = line else { break };
                if orders.send(line).is_err() {
                    return;
                }
            }
            // At once, and nothing is released: as if the process was killed.
            std::process::exit(0);
        });
        Self(receiver)
    }

    pub(super) async fn next(&mut self) -> String {
        match self.0.recv().await {
            Some(order) => order,
            None => std::future::pending().await,
        }
    }

    pub(super) async fn wait_for(&mut self, order: &str) {
        while self.next().await != order {}
    }
}
