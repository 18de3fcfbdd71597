//! A private ZooKeeper ensemble for tests.

use crate::cluster::{Cluster, Program};
use std::{env, fs, io, net::TcpStream, path::Path, process::Command};

/// The class of a server, and the file of Debian's package that contains it.
const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
const JAR: &str = "/usr/share/java/zookeeper.jar";

/// ZooKeeper, by `java`, and by the jar of Debian's package `libzookeeper-java` or the class path in `ZOOKEEPER_CLASSPATH`.
///
/// Its tick is 500 ms; sessions last from 1 s to 60 s, and empty containers are deleted every 300 ms.
#[derive(Debug)]
pub enum ZooKeeper {}

/// A running ZooKeeper ensemble.
pub type ZooKeeperEnsemble = Cluster<ZooKeeper>;

impl Cluster<ZooKeeper> {
    /// Starts a server that accepts TLS as well, with the key and the certificate in this PEM file, at its
    /// [encrypted address](Self::encrypted_address).
    ///
    /// # Panics
    /// Panics like [`start`](Self::start).
    #[must_use]
    #[track_caller]
    pub fn with_tls(pem: &Path) -> Self {
        Self::start_with(1, &[pem], None)
    }

    /// Returns the answer of a server to a word such as `mntr`, `None` if it does not answer.
    #[must_use]
    pub fn ask(&self, number: usize, word: &str) -> Option<String> {
        self.exchange(number, word)
    }
}

impl Program for ZooKeeper {
    const SCHEME: &'static str = "zookeeper";
    const TAKEN: &'static str = "Address already in use";

    fn command(cluster: &Cluster<Self>, number: usize) -> io::Result<Command> {
        let classes = class_path()?;
        write_settings(cluster, number)?;
        let mut command = cluster.on_host(number, Path::new("java"));
        // It starts in half of the time without the compiler for long runs.
        command.args(["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]);
        command.args(["-Dznode.container.checkIntervalMs=300", "-Dzookeeper.tcpKeepAlive=true"]);
        command.args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", &classes, MAIN, "./zoo.cfg"]);
        Ok(command)
    }

    fn is_ready(cluster: &Cluster<Self>, number: usize) -> bool {
        // The encrypted port opens last.
        let is_open = cluster.tls.is_empty() || TcpStream::connect(cluster.encrypted_address(number)).is_ok();
        is_open && cluster.ask(number, "srvr").is_some_and(|answer| answer.contains("Mode: "))
    }

    fn leads(cluster: &Cluster<Self>, number: usize) -> bool {
        let leads =
            |answer: &str| ["Mode: leader", "Mode: standalone"].iter().any(|mode| answer.contains(mode));
        cluster.ask(number, "srvr").is_some_and(|answer| leads(&answer))
    }
}

fn write_settings(cluster: &Cluster<ZooKeeper>, number: usize) -> io::Result<()> {
    let (folder, ports) = (cluster.directory(number), cluster.ports(number));
    let data = folder.join("data");
    fs::create_dir_all(&data)?;
    fs::write(data.join("myid"), number.to_string())?;
    let mut settings = format!(
        "tickTime=500\ninitLimit=20\nsyncLimit=4\ndataDir={}\nclientPort={}\nclientPortAddress={}\n\
         admin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\nmaxSessionTimeout=60000\n",
        data.display(),
        ports.client,
        cluster.host(number)
    );
    if cluster.len() > 1 {
        for number in 0..cluster.len() {
            let (host, ports) = (cluster.host(number), cluster.ports(number));
            settings += &format!("server.{number}={host}:{}:{}\n", ports.peer, ports.election);
        }
    }
    if let [pem] = &cluster.tls[..] {
        settings += &format!(
            "secureClientPort={}\nserverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
             ssl.clientAuth=none\nssl.keyStore.location={pem}\nssl.keyStore.type=PEM\n\
             ssl.trustStore.location={pem}\nssl.trustStore.type=PEM\n",
            ports.encrypted,
            pem = pem.display()
        );
    }
    fs::write(folder.join("zoo.cfg"), settings)
}

/// Returns the class path of the servers.
fn class_path() -> io::Result<String> {
    if let Some(classes) = env::var_os("ZOOKEEPER_CLASSPATH") {
        return Ok(classes.to_string_lossy().into_owned());
    }
    if Path::new(JAR).exists() {
        // The jar names all that it needs but these.
        let others = ["slf4j-simple", "netty-codec", "netty-resolver"];
        let others = others.map(|name| format!(":/usr/share/java/{name}.jar"));
        return Ok(format!("{JAR}{}", others.concat()));
    }
    let remedy = "ZooKeeper was not found: install it (Debian: `apt-get install libzookeeper-java default-jre-headless`), or name \
                  its class path in `ZOOKEEPER_CLASSPATH`";
    Err(io::Error::new(io::ErrorKind::NotFound, remedy))
}
