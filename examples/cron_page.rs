//! How do I see my jobs and their runs?
//!
//! `lock_cron::router` is an axum router with a page of all jobs of the group and the same data as JSON. Nest it behind
//! your authentication. `lock_cron::router_with_actions` also runs, pauses and resumes jobs.

use lock_core::{LockFactory, MemoryBackend};
use lock_cron::{MemoryLedger, Schedule, Scheduler};
use std::{env, error::Error, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::{sleep, timeout},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = LockFactory::new(MemoryBackend::new());
    let cron = Scheduler::builder(locks, MemoryLedger::new()).node("example").build()?;
    let job = cron.job("hello", Schedule::cron("* * * * * *")?, |_| async { Ok(()) });
    job.register()?;

    let app = axum::Router::new().nest_service("/cron", lock_cron::router(cron.clone()));
    // With `PORT` set, it runs until it is stopped: open http://127.0.0.1:<port>/cron
    let port = env::var("PORT").ok().map(|port| port.parse()).transpose()?;
    let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0))).await?;
    let at = listener.local_addr()?;
    let server = tokio::spawn(async move { axum::serve(listener, app).await });

    let (stop, stopped) = oneshot::channel::<()>();
    let scheduler = cron.clone();
    let jobs = tokio::spawn(async move { scheduler.run_until(async { drop(stopped.await) }).await });
    if port.is_some() {
        println!("open http://{at}/cron");
        server.await??;
        return Ok(());
    }
    let first_run = async {
        while cron.history("hello", 1).await?.is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
        Ok::<_, lock_cron::CronError>(())
    };
    timeout(Duration::from_secs(60), first_run).await??;
    for path in ["/cron/jobs", "/cron/jobs/hello"] {
        println!("{path}: {}", get(at, path).await?);
    }
    drop(stop);
    jobs.await??;
    server.abort();
    Ok(())
}

async fn get(at: std::net::SocketAddr, path: &str) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(at).await?;
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.split_once("\r\n\r\n").ok_or("an answer with a body")?.1.to_owned())
}
