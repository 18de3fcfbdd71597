//! nginx in a directory of its own, with the configuration that compose.yaml uses.

use lock_testkit::unused_address;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    fs,
    net::{SocketAddr, TcpStream},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};
use tempfile::TempDir;

const CONFIGURATION: &str = include_str!("../../nginx.conf");

/// A running nginx. Dropping this ends all its processes.
pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    master: Child,
    home: TempDir,
}

/// A line of the log: a request, and what each shop that nginx tried received of it.
#[derive(Debug)]
pub(crate) struct Proxied {
    pub(crate) request: String,
    pub(crate) shops: Vec<SocketAddr>,
    pub(crate) bytes_sent: Vec<u64>,
}

impl Proxied {
    /// Returns the shops that received at least a part of the request.
    pub(crate) fn receivers(&self) -> Vec<SocketAddr> {
        let tries = self.shops.iter().zip(&self.bytes_sent);
        tries.filter(|(_, bytes)| **bytes > 0).map(|(shop, _)| *shop).collect()
    }
}

impl Nginx {
    /// Starts an nginx in front of `shops`, and returns once it accepts connections.
    pub(crate) fn start(shops: &[SocketAddr]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let address = unused_address();
        let file = written(&home, &configuration(&home, shops, address));
        let master = Command::new("nginx")
            .args(["-p", "."])
            .arg("-c")
            .arg(file)
            .args(["-g", "daemon off;"])
            .current_dir(home.path())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("nginx not found on the PATH");
        let mut nginx = Self { address, master, home };
        while TcpStream::connect(nginx.address).is_err() {
            assert!(nginx.master.try_wait().unwrap().is_none(), "nginx ended: its complaint is above");
            std::thread::sleep(Duration::from_millis(20));
        }
        nginx
    }

    /// Returns the requests so far.
    pub(crate) fn log(&self) -> Vec<Proxied> {
        let log = fs::read_to_string(self.home.path().join("access.log")).unwrap();
        let line = |line: &str| {
            let fields: Vec<_> = line.split('|').collect();
            let [request, shops, sent] = fields[..] else { panic!("{line}") };
            Proxied {
                request: request.to_owned(),
                shops: shops.split(", ").filter_map(|shop| shop.parse().ok()).collect(),
                bytes_sent: sent.split(", ").filter_map(|bytes| bytes.parse().ok()).collect(),
            }
        };
        // The last line may still be written.
        log.split_inclusive('\n').filter_map(|text| text.strip_suffix('\n')).map(line).collect()
    }

    /// Validates the configuration without starting nginx, with `shops` instead of the containers.
    pub(crate) fn check(shops: &[SocketAddr]) -> Output {
        let home = tempfile::tempdir().unwrap();
        let file = written(&home, &configuration(&home, shops, unused_address()));
        Command::new("nginx")
            .args(["-t", "-p", "."])
            .arg("-c")
            .arg(file)
            .current_dir(home.path())
            .output()
            .expect("nginx not found on the PATH")
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.master.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.master.wait();
    }
}

/// Returns the configuration with local addresses and directories.
fn configuration(home: &TempDir, shops: &[SocketAddr], address: SocketAddr) -> String {
    let (own, container): (Vec<_>, Vec<_>) =
        CONFIGURATION.lines().partition(|line| !line.trim().starts_with("server shop-"));
    assert!(container.len() == 3 && own.len() > 3, "expected the shops of compose.yaml");
    let options = container[0].split_once(":8080").unwrap().1;
    let shops: String = shops.iter().map(|shop| format!("server {shop}{options}\n")).collect();
    let replaced = [
        ("zone shops 64k;", format!("zone shops 64k;\n{shops}")),
        ("listen 8080;", format!("listen {address};")),
        (
            "access_log /dev/stdout shops;",
            "log_format test '$request|$upstream_addr|$upstream_bytes_sent';\naccess_log /tmp/access.log test;".into(),
        ),
        // The last one: it also applies to the log.
        ("/tmp/", format!("{}/", home.path().display())),
    ];
    replaced.iter().fold(own.join("\n"), |text, (from, to)| {
        assert!(text.contains(from), "the file does not contain {from}");
        text.replace(from, to)
    })
}

fn written(home: &TempDir, text: &str) -> PathBuf {
    let file = home.path().join("nginx.conf");
    fs::write(&file, text).unwrap();
    file
}
