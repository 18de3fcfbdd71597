//! What happens to my jobs when a node dies?
//!
//! This program starts three processes of itself over one Redis (`REDIS_URL`, or else `redis://127.0.0.1:6379`),
//! kills one that has run the job, and shows the others take over.

use lock_core::LockFactory;
use lock_cron::{Schedule, Scheduler};
use lock_fred::RedisBackend;
use std::{
    env,
    error::Error,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

fn url() -> String {
    env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into())
}

/// The processes of the fleet. Dropping it kills them.
struct Fleet(Vec<(String, Child)>);

impl Drop for Fleet {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// Runs one process of the fleet.
async fn node(name: String) -> Result<(), Box<dyn Error>> {
    let redis = RedisBackend::connect(&url()).await?;
    // The times until a dead leader is replaced and orphans are found. Short for this example; defaults: 10 s, 30 s.
    let lease = Duration::from_secs(2);
    let builder = Scheduler::builder(LockFactory::new(redis.clone()), redis).group("example");
    let cron = builder.leadership_lease(lease).run_lease(lease).build()?;
    let job = cron.job("tick", Schedule::cron("* * * * * *")?, move |run| {
        println!("{name} {}", run.scheduled_at());
        async { Ok(()) }
    });
    job.register()?;
    cron.run_until(std::future::pending()).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(name) = env::args().nth(1) {
        return node(name).await;
    }
    let (say, lines) = mpsc::channel();
    let mut fleet = Fleet(Vec::new());
    for name in ["anna", "bert", "cleo"] {
        let mut child = Command::new(env::current_exe()?).arg(name).stdout(Stdio::piped()).spawn()?;
        let out = BufReader::new(child.stdout.take().ok_or("stdout is a pipe")?);
        let say = say.clone();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| say.send(line)));
        fleet.0.push((name.to_owned(), child));
    }
    let mut killed = String::new();
    for number in 0..5 {
        let line = lines.recv_timeout(Duration::from_secs(60))?;
        let (name, at) = line.split_once(' ').ok_or("a name and a time")?;
        println!("{at}: run by {name}");
        if number == 2 {
            killed = name.to_owned();
            println!("killing {killed}");
            for (_, child) in fleet.0.iter_mut().filter(|(node, _)| *node == killed) {
                child.kill()?;
            }
        }
        assert!(number <= 2 || name != killed, "the node was killed");
    }
    println!("the fleet continues without {killed}");
    Ok(())
}
