//! One shop process, seen from here: orders go in, answers come out, and when it ends everybody who waits is told why.

use super::protocol::{Job, Reply, line, parse};
use crate::{
    domain::{Answer, Order, OrderNumber},
    sale::SaleError,
};
use std::{
    collections::HashMap,
    env, io,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::{Mutex as AsyncMutex, oneshot, watch},
    time::{sleep, timeout},
};

/// How long a process may take to open or to close: beyond every time-out that it has itself.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the system may take to bury a process whose stdout has ended.
const BURIAL: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// A shop in another process.
#[derive(Debug)]
pub(in crate::sale) struct ShopProcess {
    number: u32,
    child: Mutex<Child>,
    /// None when it was told to close.
    input: AsyncMutex<Option<ChildStdin>>,
    /// Who waits for an answer; none when no more will come.
    asked: Mutex<Option<HashMap<OrderNumber, oneshot::Sender<Answer>>>>,
    phase: watch::Sender<Phase>,
}

#[derive(Debug, Clone)]
enum Phase {
    Opening,
    Open,
    Closed,
    Ended(ProcessEnd),
}

impl ShopProcess {
    /// Starts this program again, as a shop that waits for its job.
    pub(super) fn spawn(number: u32, database: &Path) -> Result<Arc<Self>, SaleError> {
        let mut command = Command::new(env::current_exe().map_err(SaleError::Spawn)?);
        command.arg("--shop-process").arg(database);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // Ctrl-C on a terminal goes to a whole group. We alone take it, and let the shops give back their locks.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().map_err(SaleError::Spawn)?;
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("stdout is piped"));
        let process = Arc::new(Self {
            number,
            child: Mutex::new(child),
            input: AsyncMutex::new(input),
            asked: Mutex::default(),
            phase: watch::Sender::new(Phase::Opening),
        });
        *process.asked() = Some(HashMap::new());
        tokio::spawn(Arc::clone(&process).listen(output));
        Ok(process)
    }

    /// Gives it its job, and waits until it can sell.
    pub(super) async fn open(&self, job: &Job) -> Result<(), SaleError> {
        // If it cannot be written to, it has ended: the phase says why.
        let _ = self.write(&line(job)).await;
        self.reaches(|phase| matches!(phase, Phase::Open)).await
    }

    pub(in crate::sale) async fn sell(&self, order: &Order) -> Result<Answer, SaleError> {
        match self.ask(order).await {
            Some(answer) => Ok(answer),
            None => {
                self.reaches(|_| false).await?;
                Err(self.ended(ProcessEnd::Silent))
            }
        }
    }

    async fn ask(&self, order: &Order) -> Option<Answer> {
        let (tell, told) = oneshot::channel();
        self.asked().as_mut()?.insert(order.number, tell);
        self.write(&line(order)).await.ok()?;
        told.await.ok()
    }

    /// Tells it to close, and waits until it has given back all locks.
    pub(in crate::sale) async fn close(&self) -> Result<(), SaleError> {
        self.input.lock().await.take();
        self.reaches(|phase| matches!(phase, Phase::Closed)).await
    }

    /// Tells it to close, without waiting. While somebody writes to it, it cannot be told: try again.
    pub(super) fn hang_up(&self) {
        if let Ok(mut input) = self.input.try_lock() {
            input.take();
        }
    }

    /// Whether it has ended; with a word that it must, if it has not.
    pub(super) fn is_gone(&self, kill: bool) -> bool {
        let mut child = self.child();
        if kill {
            let _ = child.start_kill();
        }
        // An error means that it is no longer ours to wait for.
        !matches!(child.try_wait(), Ok(None))
    }

    async fn write(&self, line: &str) -> io::Result<()> {
        let mut input = self.input.lock().await;
        let input = input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(line.as_bytes()).await
    }

    async fn reaches(&self, phase: impl Fn(&Phase) -> bool) -> Result<(), SaleError> {
        let mut phases = self.phase.subscribe();
        let reached = phases.wait_for(|now| matches!(now, Phase::Ended(_)) || phase(now));
        match timeout(PATIENCE, reached).await {
            Ok(Ok(now)) => match &*now {
                Phase::Ended(why) => Err(self.ended(why.clone())),
                _ => Ok(()),
            },
            // Its sender is in `self`.
            Ok(Err(_)) | Err(_) => Err(self.ended(ProcessEnd::Silent)),
        }
    }

    fn ended(&self, why: ProcessEnd) -> SaleError {
        SaleError::Process { shop: self.number, why }
    }

    /// Passes on what it says, until it says no more.
    async fn listen(self: Arc<Self>, output: ChildStdout) {
        let mut lines = BufReader::new(output).lines();
        let end = loop {
            let Ok(Some(line)) = lines.next_line().await else { break self.buried().await };
            match parse(&line) {
                Ok(Reply::Ready) => drop(self.phase.send_replace(Phase::Open)),
                Ok(Reply::Answer { order, answer }) => {
                    let buyer = self.asked().as_mut().and_then(|asked| asked.remove(&order));
                    // A buyer who has left is one of a sale that was given up.
                    let _ = buyer.map(|buyer| buyer.send(answer));
                }
                Ok(Reply::Closed) => break Phase::Closed,
                Ok(Reply::Failed(why)) => break Phase::Ended(ProcessEnd::Failed(why)),
                Err(_) => break Phase::Ended(ProcessEnd::NotUnderstood),
            }
        };
        // The reason first: who is told that no answer comes looks for it.
        self.phase.send_replace(end);
        self.asked().take();
    }

    async fn buried(&self) -> Phase {
        let status = async {
            loop {
                if let Ok(Some(status)) = self.child().try_wait() {
                    return status;
                }
                sleep(LOOK).await;
            }
        };
        Phase::Ended(ProcessEnd::Died(timeout(BURIAL, status).await.ok()))
    }

    fn asked(&self) -> MutexGuard<'_, Option<HashMap<OrderNumber, oneshot::Sender<Answer>>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a shop process did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessEnd {
    /// It ended without a word: it crashed, or was killed.
    #[error("{}", died(.0.as_ref()))]
    Died(Option<ExitStatus>),
    /// It said why.
    #[error("{0}")]
    Failed(String),
    /// It said something that is not understood.
    #[error("it said something else than a shop says: run the sale again with one build of the program")]
    NotUnderstood,
    /// It says nothing.
    #[error("it said nothing for {PATIENCE:?}: is it stopped?")]
    Silent,
}

fn died(status: Option<&ExitStatus>) -> String {
    match status {
        Some(status) => {
            format!("it was killed or crashed ({status}): run the sale again, nothing of it is left")
        }
        None => "it closed its output and goes on: run the sale again".to_owned(),
    }
}
