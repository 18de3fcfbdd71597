//! A process that forks after it has used locks, so that parent and child continue from one state.

use crate::{
    cli::Client,
    line::{Orders, Report},
    node::Failure,
    referee::Witness,
};
use clap::{Parser, Subcommand, builder::TypedValueParser as _, value_parser};
use fork::Fork;
use lock_core::{Lock, LockFactory, LockGuard, LockOptions, Store, backend::ProcessId, clock::BootClock};
use lock_testkit::{Seed, Stream};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    os::unix::net::UnixStream,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinSet,
    time::{sleep, timeout},
};

/// A lease that outlasts a run of a few requests.
const LEASE: Duration = Duration::from_secs(20);
/// The number of tasks of each process that contends.
const TASKS: u64 = 2;

/// Uses locks, forks, and uses locks in both processes.
#[derive(Debug, Clone, Parser)]
#[command(name = "lock-twins", version)]
pub struct Cli {
    /// The client library
    #[arg(long, value_enum, default_value = "fred")]
    pub client: Client,
    /// The server or the quorum
    pub url: String,
    /// The command
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of the process.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Holds two locks, and uses them and their factory in the child. Reports `forked` from the child and then `kept` from
    /// the parent
    Inherit,
    /// Holds a lock in the parent, and tries it in the child. Both have a connection of their own and the process id of
    /// the parent, like copies of a virtual machine, and each reports `twin`
    Copy {
        /// Draws lease ids before the fork: a planted bug
        #[arg(long)]
        drawn_ahead: bool,
    },
    /// Reports `copied`, and contends as two such copies until it is killed. Some holds are extended
    Contend {
        /// The lease in milliseconds
        #[arg(long, value_name = "MS", value_parser = value_parser!(u64).map(Duration::from_millis))]
        lease: Duration,
        /// The address of a `lock-referee` to which each hold is reported
        #[arg(long, value_name = "ADDRESS")]
        referee: SocketAddr,
        /// The seed of the holds
        #[arg(long, value_parser = value_parser!(u64).map(Seed::new))]
        seed: Seed,
        /// The locks
        #[arg(required = true)]
        locks: Vec<String>,
    },
}

/// Runs the command in both processes.
///
/// # Errors
/// The error of a lock or of a system call.
pub fn run(cli: &Cli) -> Result<(), Failure> {
    match &cli.command {
        Command::Inherit => inherit(cli),
        Command::Copy { drawn_ahead } => copy(cli, *drawn_ahead),
        Command::Contend { lease, referee, seed, locks } => contend(cli, *lease, *referee, *seed, locks),
    }
}

/// Returns a runtime that runs on this thread, so that a child has no part of it.
fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Returns a factory that works in the runtime in use, as it does with a given clock.
fn single_threaded(store: Store, lease: Duration) -> Result<LockFactory, Failure> {
    let options = LockOptions::new().lease(lease);
    Ok(LockFactory::builder(store).options(options).clock(Arc::new(BootClock::new())).build()?)
}

fn inherit(cli: &Cli) -> Result<(), Failure> {
    let runtime = runtime()?;
    let (locks, released, dropped) = runtime.block_on(async {
        let locks = single_threaded(cli.client.connect(&cli.url).await?, LEASE)?;
        let released = locks.named("stock:1")?.acquire().await?;
        let dropped = locks.named("stock:2")?.acquire().await?;
        Ok::<_, Failure>((locks, released, dropped))
    })?;
    let Fork::Parent(child) = fork::fork()? else {
        let (own, held) = (self::runtime()?, released.is_held());
        let errors = own.block_on(async {
            drop(dropped);
            let released = released.release().await.map(drop);
            let acquired = locks.named("stock:3")?.acquire().await.map(drop);
            let inspected = locks.inspect("stock:1").await.map(drop);
            let report = locks.shutdown().await;
            let errors = [released, acquired, inspected].map(|result| match result {
                Ok(()) => String::new(),
                Err(error) => format!("{:?}: {error}", error.kind()),
            });
            Ok::<_, Failure>((errors, report.is_clean()))
        })?;
        let (errors, clean) = errors;
        let anew = own.block_on(is_renewed_anew(cli))?;
        Report::Forked { held, errors: errors.to_vec(), clean, anew }.say();
        // Without destructors: the runtime of the parent is not dropped.
        std::process::exit(0);
    };
    fork::waitpid(child)?;
    runtime.block_on(async {
        for guard in [released, dropped] {
            let lease = guard.hold().lease_id().to_string();
            let stored = locks.inspect(guard.name()).await?.stored;
            let kept = guard.is_held() && stored.is_some_and(|stored| stored.lease == lease);
            let end = guard.release().await?;
            Report::Kept { kept, was_held: end.was_held() }.say();
        }
        Ok(())
    })
}

/// Makes a factory in the child, whose keeper is not that of the parent. Returns `true` if it renews a lease.
async fn is_renewed_anew(cli: &Cli) -> Result<bool, Failure> {
    let lease = Duration::from_secs(2);
    let store = cli.client.connect(&cli.url).await?;
    let locks = LockFactory::builder(store).options(LockOptions::new().lease(lease)).build()?;
    let guard = locks.named("stock:4")?.acquire().await?;
    sleep(2 * lease).await;
    let is_held = guard.is_held() && locks.inspect("stock:4").await?.stored.is_some();
    Ok(guard.release().await?.was_held() && is_held)
}

fn copy(cli: &Cli, drawn_ahead: bool) -> Result<(), Failure> {
    let process = ProcessId::random();
    let ahead: Vec<_> = (0..64).map_while(|_| getrandom::u64().ok()).collect();
    let (mut here, mut there) = UnixStream::pair()?;
    let copy = matches!(fork::fork()?, Fork::Child);
    let runtime = runtime()?;
    let store = runtime.block_on(cli.client.connect(&cli.url))?;
    let ahead = Mutex::new(ahead);
    let draw = move || match drawn_ahead {
        true => ahead.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default(),
        false => getrandom::u64().unwrap_or_default(),
    };
    let options = LockOptions::new().lease(LEASE);
    let locks = LockFactory::builder(store).options(options).repeatable(process, draw).build()?;
    let lock = locks.named("stock:1")?;
    if copy {
        // The parent holds the lock.
        there.read_exact(&mut [0])?;
    }
    let guard = runtime.block_on(lock.try_acquire())?;
    let lease = guard.as_ref().map(|guard| guard.hold().lease_id().to_string());
    Report::Twin { copy, lease: lease.unwrap_or_default() }.say();
    if copy {
        there.write_all(&[0])?;
    } else {
        here.write_all(&[0])?;
        here.read_exact(&mut [0])?;
    }
    Ok(())
}

fn contend(
    cli: &Cli,
    lease: Duration,
    referee: SocketAddr,
    seed: Seed,
    names: &[String],
) -> Result<(), Failure> {
    let process = ProcessId::random();
    let warm_up = runtime()?;
    // The server may be in trouble.
    let _ = warm_up.block_on(async {
        let use_once = async {
            let locks = single_threaded(cli.client.connect(&cli.url).await?, lease)?;
            locks.named(&names[0])?.acquire().await?.release().await?;
            locks.shutdown().await;
            Ok::<_, Failure>(())
        };
        timeout(lease, use_once).await
    });
    drop(warm_up);
    let parent = rustix::process::getpid();
    let copy = match fork::fork()? {
        Fork::Child => true,
        Fork::Parent(pid) => {
            Report::Copied { pid: pid.unsigned_abs() }.say();
            false
        }
    };
    if copy {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() != Some(parent) {
            return Ok(());
        }
    }
    let seed = Seed::new(seed.get() ^ u64::from(copy));
    runtime()?.block_on(async {
        // Ends the process with its test.
        let _orders = Orders::from_stdin();
        let store = loop {
            match cli.client.connect(&cli.url).await {
                Ok(store) => break store,
                Err(_) => sleep(lease / 10).await,
            }
        };
        let options = LockOptions::new().lease(lease);
        let builder = LockFactory::builder(store).options(options);
        let locks = builder.repeatable(process, || getrandom::u64().unwrap_or_default()).build()?;
        let witness = Witness::of(referee, lease / 20)?;
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let locks = names.iter().map(|name| locks.named(name)).collect::<Result<Vec<_>, _>>()?;
            let dice = Seed::new(seed.get().rotate_left(8) ^ task).stream();
            tasks.spawn(work(locks, lease, witness.clone(), dice));
        }
        match tasks.join_next().await {
            Some(failure) => Err(failure?),
            None => Ok(()),
        }
    })
}

/// Contends until an acquire fails for good.
async fn work(locks: Vec<Lock>, lease: Duration, witness: Witness, mut dice: Stream) -> Failure {
    loop {
        let lock = &locks[usize::try_from(dice.below(locks.len() as u64)).unwrap_or(0)];
        let granted = match dice.below(8) {
            0 => lock.try_acquire().await,
            // Dropped at a random moment.
            1 => timeout(Duration::from_millis(dice.below(30)), lock.acquire()).await.ok().transpose(),
            _ => lock.acquire_timeout(lease * 2).await.map(Some),
        };
        match granted {
            Ok(Some(guard)) => hold(guard, lease, &witness, &mut dice).await,
            Ok(None) => sleep(Duration::from_millis(1)).await,
            Err(error) if error.is_retryable() || error.is_ambiguous() => {
                sleep(Duration::from_millis(1)).await;
            }
            Err(error) => return error.into(),
        }
    }
}

async fn hold(guard: LockGuard, lease: Duration, witness: &Witness, dice: &mut Stream) {
    let inside = witness.enters(guard.hold());
    if dice.below(10) == 0 {
        // A failure leaves the lease as it is, or extended.
        let _ = guard.extend(lease * 2).await;
    }
    // Usually short, sometimes longer than several renewals.
    let time = if dice.below(20) == 0 { lease * 3 / 2 } else { Duration::from_millis(dice.below(10)) };
    sleep(time).await;
    drop(inside);
    if dice.below(4) == 0 {
        drop(guard);
    } else {
        // The referee judges what has become of the hold.
        let _ = guard.release().await;
    }
}
