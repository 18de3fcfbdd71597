//! Hosts with addresses of their own, between which a network can be cut.

use std::{
    io::{BufRead, BufReader},
    net::Ipv4Addr,
    path::Path,
    process::{Child, Command, Stdio},
};

/// Hosts of a private network on this machine, which can be cut between each two of them. Each reaches the calling process, and
/// is reached by it, whatever is cut.
///
/// It is made of network namespaces, which needs Linux and `ip` (Debian: `apt-get install iproute2`), and must be called in a
/// network namespace of its own, where the caller is root: start the program with `unshare --map-root-user --net`. The hosts end
/// with the value.
#[derive(Debug)]
pub struct Network {
    /// The first part of the addresses that differs between networks.
    number: u8,
    hosts: Vec<Child>,
}

impl Network {
    /// Creates the hosts of a network. The number tells the networks of a process apart.
    ///
    /// # Panics
    /// Panics if the caller is not in a network namespace of its own, or `ip` fails.
    #[must_use]
    #[track_caller]
    pub fn start(number: u8, hosts: usize) -> Self {
        ip(None, "link set lo up");
        let mut network = Self { number, hosts: Vec::new() };
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("the caller owns its network");
        for host in 0..hosts {
            // It ends with its standard input, so also if this process is killed.
            let script = "unshare --net sh -c 'echo ready; read -r end'";
            let mut child = Command::new("sh")
                .args(["-c", &format!("exec {script}")])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("`unshare` starts");
            let out = child.stdout.take().expect("it is a pipe");
            BufReader::new(out).read_line(&mut String::new()).expect("the host starts");
            network.hosts.push(child);
            let (link, gateway, address) = (network.link(host), network.gateway(host), network.address(host));
            let namespace = network.namespace(host);
            ip(None, &format!("link add {link} type veth peer name e0 netns {}", network.hosts[host].id()));
            ip(None, &format!("addr add {gateway}/24 dev {link}"));
            ip(None, &format!("link set {link} up"));
            ip(Some(&namespace), "link set lo up");
            ip(Some(&namespace), &format!("addr add {address}/24 dev e0"));
            ip(Some(&namespace), "link set e0 up");
            ip(Some(&namespace), &format!("route add default via {gateway}"));
            // Connections that were cut end after some seconds, and not after minutes or hours, in which servers with old
            // connections would not find each other.
            for (setting, value) in
                [("retries2", 3), ("keepalive_time", 2), ("keepalive_intvl", 1), ("keepalive_probes", 2)]
            {
                let script = format!("echo {value} > /proc/sys/net/ipv4/tcp_{setting}");
                let set = network.command(host, Path::new("sh")).args(["-c", &script]).status();
                assert!(set.is_ok_and(|status| status.success()), "`{script}`");
            }
        }
        network
    }

    /// Returns the address of a host.
    #[must_use]
    pub fn address(&self, host: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, self.number, number_of(host), 2)
    }

    /// Drops everything between two hosts, without a word to either.
    #[track_caller]
    pub fn cut(&self, a: usize, b: usize) {
        self.rule("add", a, b);
        self.rule("add", b, a);
    }

    /// Ends a [cut](Self::cut).
    #[track_caller]
    pub fn heal(&self, a: usize, b: usize) {
        self.rule("del", a, b);
        self.rule("del", b, a);
    }

    fn rule(&self, change: &str, from: usize, to: usize) {
        ip(None, &format!("rule {change} iif {} to {} blackhole", self.link(from), self.address(to)));
    }

    fn link(&self, host: usize) -> String {
        format!("h{}-{host}", self.number)
    }

    fn gateway(&self, host: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, self.number, number_of(host), 1)
    }

    fn namespace(&self, host: usize) -> String {
        format!("/proc/{}/ns/net", self.hosts[host].id())
    }

    /// Returns a command that runs a program on a host.
    pub(crate) fn command(&self, host: usize, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.namespace(host))).arg("--").arg(program);
        command
    }
}

fn number_of(host: usize) -> u8 {
    u8::try_from(host + 1).expect("a few hosts")
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in &mut self.hosts {
            let _ = host.kill();
            let _ = host.wait();
        }
    }
}

/// Runs `ip`, in another network namespace if one is given.
#[track_caller]
fn ip(namespace: Option<&str>, arguments: &str) {
    let mut command = match namespace {
        Some(namespace) => {
            let mut command = Command::new("nsenter");
            command.arg(format!("--net={namespace}")).args(["--", "ip"]);
            command
        }
        None => Command::new("ip"),
    };
    let done = command.args(arguments.split(' ')).output().expect("`ip` starts: install iproute2");
    assert!(done.status.success(), "`ip {arguments}`: {}", String::from_utf8_lossy(&done.stderr));
}
