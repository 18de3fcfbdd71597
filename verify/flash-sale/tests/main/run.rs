//! The program in a separate process, and checks for leftover processes and files.

use crate::program::command;
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Time limit for every wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// A run of the program with a separate temporary directory, which identifies leftover processes
/// and files.
pub(crate) struct Run {
    child: Child,
    stderr: BufReader<ChildStderr>,
    directory: TempDir,
}

/// Kills the child process at the end of the test, even if the test fails.
impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A run that has ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) err: String,
    directory: TempDir,
}

impl Run {
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut command = command(arguments);
        command.env("TMPDIR", directory.path()).envs(environment.iter().copied());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr, directory }
    }

    /// Waits until a progress line begins with `word`.
    pub(crate) fn says(&mut self, word: &str) {
        let begins = self.stderr.by_ref().lines().map_while(Result::ok).any(|line| line.starts_with(word));
        assert!(begins, "the run ended without printing `{word}`");
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(name, self.child.id());
    }

    /// Returns the shops of the run, identified by their logs in the directory.
    pub(crate) fn shops(&self) -> Vec<u32> {
        shops_in(self.directory.path())
    }

    /// Waits until a shop of the run satisfies `is`, and returns it.
    pub(crate) fn until_shop(&self, is: impl Fn(u32) -> bool) -> u32 {
        let begin = Instant::now();
        loop {
            if let Some(shop) = self.shops().into_iter().find(|shop| is(*shop)) {
                return shop;
            }
            assert!(begin.elapsed() < PATIENCE, "no shop satisfies the condition");
            sleep(Duration::from_millis(2));
        }
    }

    /// Waits for the end of the run, and fails after the time limit.
    pub(crate) fn end(mut self) -> Ended {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < PATIENCE, "the process does not exit");
            sleep(Duration::from_millis(5));
        };
        let mut err = String::new();
        self.stderr.read_to_string(&mut err).unwrap();
        let directory = std::mem::replace(&mut self.directory, tempfile::tempdir().unwrap());
        Ended { status, err, directory }
    }
}

impl Ended {
    /// Asserts that no shop, server or file is left.
    pub(crate) fn leaves_nothing(&self) {
        assert_eq!(shops_in(self.directory.path()), [0; 0]);
        assert_eq!(working_in(self.directory.path()), [0; 0]);
        let files: Vec<_> = fs::read_dir(self.directory.path()).unwrap().collect();
        assert!(files.is_empty(), "{files:?}");
    }

    /// Waits until no shop is left, because shops may still be exiting.
    pub(crate) fn leaves_no_shop(&self) {
        let begin = Instant::now();
        while !shops_in(self.directory.path()).is_empty() {
            assert!(begin.elapsed() < PATIENCE, "{:?}", shops_in(self.directory.path()));
            sleep(Duration::from_millis(5));
        }
    }
}

pub(crate) fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

/// Returns `true` if the process is suspended by a signal.
pub(crate) fn is_stopped(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
}

fn processes(is: impl Fn(&Path) -> bool) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter(|process| is(&process.path()))
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .collect()
}

fn shops_in(directory: &Path) -> Vec<u32> {
    processes(|process| {
        let arguments = fs::read_to_string(process.join("cmdline")).unwrap_or_default();
        arguments.contains("--headless")
            && fs::read_link(process.join("fd/2")).is_ok_and(|log| log.starts_with(directory))
    })
}

/// Returns the run's private servers, identified by their working directories.
fn working_in(directory: &Path) -> Vec<u32> {
    processes(|process| fs::read_link(process.join("cwd")).is_ok_and(|at| at.starts_with(directory)))
}
