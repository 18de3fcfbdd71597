//! The accept loop.

use super::{
    connection,
    control::{Open, ProxyControl},
};
use std::{sync::Arc, time::Duration};
use tokio::{net::TcpListener, select, time::sleep};

/// Accepts connections until the proxy ends. Open connections are then dropped with the runtime.
pub(super) async fn accept(listener: std::net::TcpListener, control: Arc<ProxyControl>) {
    let listener = TcpListener::from_std(listener).expect("failed to register the listener");
    loop {
        let accepted = select! {
            biased;
            () = control.until(|switches| switches.ended) => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((client, _)) = accepted else {
            sleep(Duration::from_millis(10)).await; // possibly a temporary error, such as too many open files
            continue;
        };
        let (refuse, cuts, target) = {
            let switches = control.switches.borrow();
            (switches.refuse, switches.cuts, switches.target)
        };
        if !refuse {
            let open = Open::new(control.clone(), cuts);
            tokio::spawn(connection::serve(client, target, control.clone(), open));
        }
    }
}
