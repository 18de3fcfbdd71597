//! A private ZooKeeper ensemble for tests.

use crate::{ensemble::Ensemble, network::Network, process};
use std::{
    env, fmt, fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The class of a server, and the file of Debian's package that contains it.
const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
const JAR: &str = "/usr/share/java/zookeeper.jar";

/// A running ZooKeeper ensemble on ports of 127.0.0.1, in temporary directories. Empty containers are deleted
/// every 300 ms. Its tick is 500 ms; sessions last from 1 s
/// to 60 s.
///
/// Dropping the value stops it and removes the directories, even if a test panics. If the test process is killed, or exits with
/// the ensemble in a `static`, a watchdog does both. The data of a server survives its [stop](Self::stop).
///
/// It needs `java`, and the jar of Debian's package (`apt-get install libzookeeper-java`), or the class path in `ZOOKEEPER_CLASSPATH`.
///
/// All methods block, including the runtime of an async test.
pub struct ZooKeeperEnsemble {
    ensemble: Ensemble,
    ports: Vec<Ports>,
    /// A file with a key and its certificate, for another port of each server.
    tls: Option<PathBuf>,
}

struct Ports {
    client: u16,
    encrypted: u16,
    peer: u16,
    election: u16,
}

impl ZooKeeperEnsemble {
    /// Starts an ensemble of this many servers, and waits until each answers.
    ///
    /// # Panics
    /// Panics if ZooKeeper is not installed or does not start. The message contains the remedy or the log.
    #[must_use]
    #[track_caller]
    pub fn start(number: usize) -> Self {
        Self::try_start(number, None, None).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts an ensemble of this many servers on the hosts of a network, and waits until each answers.
    ///
    /// # Panics
    /// Panics like [`start`](Self::start).
    #[must_use]
    #[track_caller]
    pub fn start_in(network: &Arc<Network>, number: usize) -> Self {
        Self::try_start(number, None, Some(network)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a server that accepts TLS as well, with the key and the certificate in this PEM file, at its
    /// [encrypted address](Self::encrypted_address).
    ///
    /// # Panics
    /// Panics like [`start`](Self::start).
    #[must_use]
    #[track_caller]
    pub fn with_tls(pem: &Path) -> Self {
        Self::try_start(1, Some(pem), None).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_start(number: usize, tls: Option<&Path>, network: Option<&Arc<Network>>) -> io::Result<Self> {
        Ensemble::try_start(|| {
            let ports = (0..number).map(|_| {
                let [client, encrypted, peer, election] = [(); 4].map(|()| process::free_port());
                Ports { client, encrypted, peer, election }
            });
            let ensemble = Ensemble::new("zookeeper", "Address already in use", number, network)?;
            let ensemble = Self { ensemble, ports: ports.collect(), tls: tls.map(Path::to_owned) };
            (0..number).try_for_each(|number| ensemble.write_settings(number))?;
            (0..number).try_for_each(|number| ensemble.begin(number))?;
            ensemble.wait_until_ready(0..number)?;
            Ok(ensemble)
        })
    }

    /// Returns a URL with all servers.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = (0..self.ports.len()).map(|number| self.address(number).to_string()).collect();
        format!("zookeeper://{}", hosts.join(","))
    }

    /// Returns the address of a server for clients.
    #[must_use]
    pub fn address(&self, number: usize) -> SocketAddr {
        (self.ensemble.host(number), self.ports[number].client).into()
    }

    /// Returns the address of a server for clients with TLS.
    #[must_use]
    pub fn encrypted_address(&self, number: usize) -> SocketAddr {
        (self.ensemble.host(number), self.ports[number].encrypted).into()
    }

    /// Returns the number of the leader.
    ///
    /// # Panics
    /// Panics if there is none for a long time.
    #[must_use]
    #[track_caller]
    pub fn leader(&self) -> usize {
        let leads = |mode: &str| ["Mode: leader", "Mode: standalone"].iter().any(|lead| mode.contains(lead));
        self.ensemble.find("the leader", |number| self.ask(number, "srvr").is_some_and(|mode| leads(&mode)))
    }

    /// Returns the answer of a server to a word such as `mntr`, `None` if it does not answer.
    #[must_use]
    pub fn ask(&self, number: usize, word: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.address(number)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        stream.write_all(word.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// Kills a server (`SIGKILL`).
    pub fn stop(&self, number: usize) {
        self.ensemble.stop(number);
    }

    /// Stops a server if it is running, and starts it again with its data. Returns once it answers.
    ///
    /// # Panics
    /// Panics with the log if it does not start.
    #[track_caller]
    pub fn restart(&self, number: usize) {
        self.restart_all(&[number]);
    }

    /// Restarts several servers, which may need each other to answer.
    ///
    /// # Panics
    /// Panics like [`restart`](Self::restart).
    #[track_caller]
    pub fn restart_all(&self, numbers: &[usize]) {
        numbers.iter().for_each(|&number| self.stop(number));
        let started = numbers.iter().try_for_each(|&number| self.begin(number));
        let started = started.and_then(|()| self.wait_until_ready(numbers.iter().copied()));
        started.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Suspends a server (`SIGSTOP`) until it is [resumed](Self::resume).
    pub fn pause(&self, number: usize) {
        self.ensemble.pause(number);
    }

    /// Resumes a suspended server.
    pub fn resume(&self, number: usize) {
        self.ensemble.resume(number);
    }

    fn write_settings(&self, number: usize) -> io::Result<()> {
        let folder = self.ensemble.directory(number);
        fs::create_dir(folder.join("data"))?;
        fs::write(folder.join("data/myid"), number.to_string())?;
        let mut settings = format!(
            "tickTime=500\ninitLimit=20\nsyncLimit=4\ndataDir={}\nclientPort={}\nclientPortAddress={}\n\
             admin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\nmaxSessionTimeout=60000\n",
            folder.join("data").display(),
            self.ports[number].client,
            self.ensemble.host(number)
        );
        if self.ports.len() > 1 {
            for (number, Ports { peer, election, .. }) in self.ports.iter().enumerate() {
                let host = self.ensemble.host(number);
                settings += &format!("server.{number}={host}:{peer}:{election}\n");
            }
        }
        if let Some(pem) = &self.tls {
            settings += &format!(
                "secureClientPort={}\nserverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
                 ssl.clientAuth=none\nssl.keyStore.location={pem}\nssl.keyStore.type=PEM\n\
                 ssl.trustStore.location={pem}\nssl.trustStore.type=PEM\n",
                self.ports[number].encrypted,
                pem = pem.display()
            );
        }
        fs::write(folder.join("zoo.cfg"), settings)
    }

    fn begin(&self, number: usize) -> io::Result<()> {
        let classes = class_path()?;
        let mut command = self.ensemble.command(number, Path::new("java"));
        // It starts in half of the time without the compiler for long runs.
        command.args(["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]);
        command.args(["-Dznode.container.checkIntervalMs=300", "-Dzookeeper.tcpKeepAlive=true"]);
        command.args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp"]);
        command.args([classes.as_str(), MAIN, "zoo.cfg"]);
        self.ensemble.begin(number, &mut command)
    }

    fn wait_until_ready(&self, mut numbers: impl Iterator<Item = usize>) -> io::Result<()> {
        let is_ready = |number| self.ask(number, "srvr").is_some_and(|mode| mode.contains("Mode: "));
        numbers.try_for_each(|number| self.ensemble.wait(number, || is_ready(number)))
    }
}

impl fmt::Debug for ZooKeeperEnsemble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeperEnsemble").field("url", &self.url()).finish_non_exhaustive()
    }
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
