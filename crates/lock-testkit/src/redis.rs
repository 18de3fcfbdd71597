//! A `redis-server` of one's own: on a free port, in a temporary directory, gone when dropped.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// How long a server may take to answer its first `PING`.
const START: Duration = Duration::from_secs(20);

/// A running server without persistence. Dropping it kills the process and removes its directory.
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    port: u16,
    directory: PathBuf,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    /// If there is no `redis-server`, with a sentence how to get it; or if it does not answer, with its log.
    #[must_use]
    pub fn start() -> Self {
        // Somebody else may take the port between the look and the start.
        for _ in 0..5 {
            if let Some(server) = Self::try_start(free_port()) {
                return server;
            }
        }
        panic!("five redis-servers in a row did not start; the last log is above");
    }

    fn try_start(port: u16) -> Option<Self> {
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("lock-testkit-{}-{number}", std::process::id()));
        fs::create_dir_all(&directory).expect("a temporary directory can be made");
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--logfile", "redis.log", "--dir"])
            .arg(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("redis-server does not start ({error}): install it, for example `apt-get install redis-server`")
            });
        let mut server = Self { child, port, directory };
        let begin = Instant::now();
        while begin.elapsed() < START {
            if server.ping() {
                return Some(server);
            }
            if matches!(server.child.try_wait(), Ok(Some(_))) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        eprintln!("{}", fs::read_to_string(server.directory.join("redis.log")).unwrap_or_default());
        None
    }

    /// The address, as `redis://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn ping(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let mut answer = [0; 7];
        stream.set_read_timeout(Some(Duration::from_secs(1))).is_ok()
            && stream.write_all(b"PING\r\n").is_ok()
            && stream.read_exact(&mut answer).is_ok()
            && &answer == b"+PONG\r\n"
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port of this machine can be bound");
    listener.local_addr().expect("a bound socket has an address").port()
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
