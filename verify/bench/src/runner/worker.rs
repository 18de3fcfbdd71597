//! A process that does a job, as seen by its parent; the other side is [`child`](crate::child).

use crate::{
    Result,
    order::{Answer, Order},
};
use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// A process that executes an order. It is killed when this value is dropped.
pub(super) struct Worker {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts this program as a child process.
    pub(super) fn start(order: &Order) -> Result<Self> {
        let program = env::current_exe()?;
        let mut child = Command::new(program)
            .args(["child", &serde_json::to_string(order)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a child has no pipes".into());
        };
        Ok(Self { child, orders, answers: BufReader::new(answers) })
    }

    /// Waits until the process is ready.
    pub(super) fn wait_until_ready(&mut self) -> Result<()> {
        match self.line()?.as_str() {
            "ready" => Ok(()),
            other => Err(format!("a child printed {other:?} before it was ready").into()),
        }
    }

    /// Sends the instant at which measuring starts to the process.
    pub(super) fn start_at(&mut self, instant: u64) -> Result<()> {
        Ok(writeln!(self.orders, "{instant}")?)
    }

    /// Waits for the answer.
    pub(super) fn answer(&mut self) -> Result<Answer> {
        Ok(serde_json::from_str(&self.line()?)?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err("a child ended without an answer; its error is above".into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
