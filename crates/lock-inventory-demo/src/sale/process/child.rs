//! The side of the shop: one shop, told by its stdin what to sell.

use super::protocol::{Job, LocksOnRedis, Reply, line, parse};
use crate::{
    domain::Order,
    payment::Payments,
    redis::Redis,
    sale::{
        SaleError,
        counter::{Counter, Locks},
        shops, stall,
    },
};
use std::{
    error::Error,
    io::{self, Write},
    iter::successors,
    path::Path,
    process::ExitCode,
    sync::Arc,
};
use tokio::{sync::mpsc, task::JoinSet};

type Failure = Box<dyn Error + Send + Sync>;

/// Is a shop of a sale that another process holds, over the database that it has made, until stdin ends.
pub async fn serve(database: &Path) -> ExitCode {
    let told = match run(database, &mut input()).await {
        Ok(()) => Reply::Closed,
        Err(error) => Reply::Failed(chain(&*error)),
    };
    say(&told);
    match told {
        Reply::Closed => ExitCode::SUCCESS,
        _ => ExitCode::from(2),
    }
}

async fn run(database: &Path, lines: &mut mpsc::UnboundedReceiver<String>) -> Result<(), Failure> {
    let Some(first) = lines.recv().await else { return Ok(()) };
    let Job { shop, seed, locks } = parse(&first)?;
    let redis = match locks {
        Some(LocksOnRedis { url, prefix }) => Some(Redis::join(url, prefix).await?),
        None => None,
    };
    let locks = redis.as_ref().map(Locks::on);
    let payments = Payments::new(seed, stall::none());
    let shop = Arc::new(shops::shop(shop, locks.as_ref(), database, &payments).await?);
    say(&Reply::Ready);
    let mut tasks = JoinSet::new();
    let sold = sell(&shop, lines, &mut tasks).await;
    // What is still under way belongs to a sale that was given up. Its locks are given back by `close`.
    tasks.shutdown().await;
    let closed = shop.close().await;
    sold?;
    Ok(closed?)
}

async fn sell(
    shop: &Arc<Counter>,
    lines: &mut mpsc::UnboundedReceiver<String>,
    tasks: &mut JoinSet<Result<(), SaleError>>,
) -> Result<(), Failure> {
    loop {
        tokio::select! {
            line = lines.recv() => match line {
                None => return Ok(()),
                Some(line) => {
                    let (shop, order) = (Arc::clone(shop), parse::<Order>(&line)?);
                    tasks.spawn(async move {
                        let answer = shop.sell(&order).await?;
                        say(&Reply::Answer { order: order.number, answer });
                        Ok(())
                    });
                }
            },
            Some(ended) = tasks.join_next() => ended??,
        }
    }
}

/// The lines of stdin. A thread reads them, and nobody waits for it: tokio's own stdin would keep a shop that has
/// failed from ending before the next line comes.
fn input() -> mpsc::UnboundedReceiver<String> {
    let (send, receive) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        io::stdin().lines().map_while(Result::ok).try_for_each(|line| send.send(line))
    });
    receive
}

/// Says it in one write. If nobody listens any more, stdin has ended as well, and tells.
fn say(reply: &Reply) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(line(reply).as_bytes()).and_then(|()| out.flush());
}

fn chain(error: &(dyn Error + 'static)) -> String {
    let texts: Vec<_> = successors(Some(error), |&error| error.source()).map(ToString::to_string).collect();
    texts.join(": ")
}
