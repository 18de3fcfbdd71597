//! Orders from stdin, one per line. The end of stdin ends the process, since its controller is gone.

use crate::line::Order;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The orders to this process.
#[derive(Debug)]
pub struct Orders(UnboundedReceiver<Order>);

impl Orders {
    /// Reads orders from stdin. Its end ends the process.
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
            // Immediately and without releasing anything, as if the process were killed.
            std::process::exit(0);
        });
        Self(receiver)
    }

    /// Returns the next order.
    ///
    /// # Cancel safety
    /// No order is lost.
    pub async fn next(&mut self) -> Order {
        match self.0.recv().await {
            Some(order) => order,
            None => std::future::pending().await,
        }
    }

    /// Waits for this order. Drops other orders before it.
    ///
    /// # Cancel safety
    /// Dropped orders are not restored.
    pub async fn wait_for(&mut self, order: &Order) {
        while self.next().await != *order {}
    }
}
