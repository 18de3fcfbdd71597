//! The orders, as lines of stdin. Its end ends the process: the process that gives them is gone.

use crate::line::Order;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// What a process is told, line by line.
#[derive(Debug)]
pub struct Orders(UnboundedReceiver<Order>);

impl Orders {
    /// Those that come on stdin. Its end ends the process.
    #[must_use]
    pub fn from_stdin() -> Self {
        let (orders, receiver) = unbounded_channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lines() {
                let Ok(line) = line else { break };
                let Ok(order) = serde_json::from_str(&line) else {
                    eprintln!("error: the order {line:?} is unknown");
                    std::process::exit(2);
                };
                if orders.send(order).is_err() {
                    return;
                }
            }
            // At once, and nothing is released: as if the process was killed.
            std::process::exit(0);
        });
        Self(receiver)
    }

    /// The next one.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Order {
        match self.0.recv().await {
            Some(order) => order,
            None => std::future::pending().await,
        }
    }

    /// Waits for this one; others before it are dropped.
    ///
    /// # Cancel safety
    /// What was dropped is dropped.
    pub async fn wait_for(&mut self, order: &Order) {
        while self.next().await != *order {}
    }
}
