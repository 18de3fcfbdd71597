//! The program in a process of its own, and what it leaves behind.

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

/// What hangs is not waited for longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// A run of the program with a directory for temporary files of its own, by which what it leaves is found.
pub(crate) struct Run {
    child: Child,
    stderr: BufReader<ChildStderr>,
    directory: TempDir,
}

/// Killed with the test, also with one that fails.
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

    /// Waits until a line of its progress begins with `word`.
    pub(crate) fn says(&mut self, word: &str) {
        let begins = self.stderr.by_ref().lines().map_while(Result::ok).any(|line| line.starts_with(word));
        assert!(begins, "it ended and never said `{word}`");
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(name, self.child.id());
    }

    /// The shops that it has started, by their logs in its directory.
    pub(crate) fn shops(&self) -> Vec<u32> {
        shops_in(self.directory.path())
    }

    /// Waits until some of its shops are like this, and returns one of them.
    pub(crate) fn until_shop(&self, is: impl Fn(u32) -> bool) -> u32 {
        let begin = Instant::now();
        loop {
            if let Some(shop) = self.shops().into_iter().find(|shop| is(*shop)) {
                return shop;
            }
            assert!(begin.elapsed() < PATIENCE, "no shop is like this");
            sleep(Duration::from_millis(2));
        }
    }

    /// Waits for its end, which must come.
    pub(crate) fn end(mut self) -> Ended {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            sleep(Duration::from_millis(5));
        };
        let mut err = String::new();
        self.stderr.read_to_string(&mut err).unwrap();
        let directory = std::mem::replace(&mut self.directory, tempfile::tempdir().unwrap());
        Ended { status, err, directory }
    }
}

impl Ended {
    /// No shop, no server and no file is left.
    pub(crate) fn leaves_nothing(&self) {
        assert_eq!(shops_in(self.directory.path()), [0; 0]);
        assert_eq!(working_in(self.directory.path()), [0; 0]);
        let files: Vec<_> = fs::read_dir(self.directory.path()).unwrap().collect();
        assert!(files.is_empty(), "{files:?}");
    }

    /// No shop is left, as soon as those that are ending have ended.
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

/// Whether a process is stopped by a signal.
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

/// Servers of its own, by their working directories.
fn working_in(directory: &Path) -> Vec<u32> {
    processes(|process| fs::read_link(process.join("cwd")).is_ok_and(|at| at.starts_with(directory)))
}
