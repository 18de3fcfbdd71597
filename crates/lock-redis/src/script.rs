//! The Lua scripts. Each is run by its hash, or by its text if the server does not know the hash.

use crate::{
    client::{Client, Command, Connection},
    connection::{Delivered, Delivery, Dialled, ManagedConnection, answered},
    error::{RequestError, Unanswered},
    script_reply::ScriptReply,
};
use sha1::{Digest, Sha1};
use std::{borrow::Cow, fmt::Write, pin::pin, sync::LazyLock};
use tokio::time::Instant;

/// A Lua script.
pub(crate) struct Script {
    pub(crate) name: &'static str,
    text: &'static str,
    hash: LazyLock<String>,
}

/// The words of a command. Constant ones are not copied.
pub(crate) type Words = Vec<Cow<'static, str>>;

/// The initial capacity for the words of a command.
const WORDS: usize = 16;

/// The text of a file in `scripts`.
macro_rules! file {
    ($file:literal) => {
        include_str!(concat!("scripts/", $file, ".lua"))
    };
}

macro_rules! nothing {
    () => {
        ""
    };
}

/// The functions that a grant needs outside of the usual case.
macro_rules! granting {
    () => {
        concat!(file!("int"), file!("hold"), file!("raise"))
    };
}

macro_rules! healing {
    () => {
        concat!(file!("now"), file!("node"), granting!())
    };
}

macro_rules! extending {
    () => {
        concat!(
            file!("now"),
            file!("node"),
            function!("renew", "lock, lease, duration, not_after", "renew"),
            function!("reenter", "lock, lease, duration, depth, not_after", "reenter"),
        )
    };
}

macro_rules! not_proposed {
    () => {
        concat!(file!("take"), file!("node"), granting!(), file!("propose_otherwise"))
    };
}

macro_rules! not_freed {
    () => {
        concat!(file!("now"), file!("free_otherwise"))
    };
}

macro_rules! now {
    () => {
        file!("now")
    };
}

macro_rules! holder {
    () => {
        file!("holder")
    };
}

macro_rules! ledger {
    () => {
        file!("ledger")
    };
}

/// Defines one constant per script: the shared Lua code, the file, and the rest, if there is one.
macro_rules! scripts {
    ($texts:ident $shared:ident! $($constant:ident $what:literal $file:literal $([$rest:ident!])?)*) => {
        $(pub(crate) static $constant: Script = {
            const TEXT: &str = concat!($shared!(), file!($file) $(, $rest!())?);
            Script { name: $what, text: TEXT, hash: LazyLock::new(|| sha1(TEXT)) }
        };)*
        #[cfg(test)]
        const $texts: &[(&str, &str)] = &[$(($file, file!($file))),*];
    };
}

/// A Lua function whose body is in these files.
macro_rules! function {
    ($name:literal, $parameters:literal, $($file:literal),*) => {
        concat!("local function ", $name, "(", $parameters, ")\n", $(file!($file),)* "end\n")
    };
}

/// Defines the scripts of the operations that can be batched. The files of each operation are the body of a function,
/// which returns the reply. The batch script calls the functions of all. The operation's own script is the body
/// itself, since in the usual case even the creation of functions takes a considerable part of the time. Therefore the
/// functions that the body needs come after its usual part.
///
/// In the usual case, the reply is the time alone: Redis sends a number more cheaply than a list.
macro_rules! operations {
    ($($constant:ident $what:literal $file:literal
        ($parameters:literal = $arguments:literal)
        before [$($before:literal)*] usual [$($usual:literal)*] otherwise [$($functions:ident!)? $($rest:literal)*]
    )*) => {
        $(pub(crate) static $constant: Script = {
            const TEXT: &str = concat!(
                $(file!($before),)*
                "local ", $parameters, " = ", $arguments, "\n",
                $(file!($usual),)*
                $($functions!(),)?
                $(file!($rest),)*
            );
            Script { name: $what, text: TEXT, hash: LazyLock::new(|| sha1(TEXT)) }
        };)*
        pub(crate) static BATCH: Script = {
            const TEXT: &str = concat!(
                file!("now"),
                file!("now_text"),
                granting!(),
                $(function!($file, $parameters, $($usual),* $(, $rest)*),)*
                file!("batch"),
            );
            Script { name: "run a batch", text: TEXT, hash: LazyLock::new(|| sha1(TEXT)) }
        };
        #[cfg(test)]
        const OPERATION_TEXTS: &[(&str, &str)] = &[$(($file, file!($file)),)* ("batch", file!("batch"))];
    };
}

operations! {
    ACQUIRE "acquire a lock" "acquire"
        ("lock, counter, lease, duration, not_after, retention, reserve, floor"
            = "KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]")
        before ["now" "now_text"] usual ["acquire" "take"] otherwise [granting! "acquire_otherwise"]
    REENTER "re-enter a lock" "reenter"
        ("lock, lease, duration, depth, not_after" = "KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]")
        before ["now"] usual ["reenter"] otherwise []
    RENEW "renew a lease" "renew"
        ("lock, lease, duration, not_after" = "KEYS[1], ARGV[1], ARGV[2], ARGV[3]")
        before ["now"] usual ["renew"] otherwise []
    RELEASE "release a lock" "release"
        ("lock, lease, depth_left, channel, sharded" = "KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]")
        before ["now"] usual ["release"] otherwise []
}

scripts! {
    TEXTS nothing!
    PROBE "check the permissions" "probe"
    FREE "release a lock" "free" [not_freed!]
}

scripts! {
    HOLDER_TEXTS holder!
    INSPECT "inspect a lock" "inspect"
    FORCE_RELEASE "force the release of a lock" "force_release"
}

scripts! {
    PROPOSING_TEXTS now!
    PROPOSE "propose a token" "propose" [not_proposed!]
}

scripts! {
    HEALING_TEXTS healing!
    HEAL "heal a lease" "heal"
}

scripts! {
    EXTENDING_TEXTS extending!
    EXTEND "extend leases" "extend"
}

/// Defines the ledger scripts that schedulers repeat. The batch script calls each as a function of its keys and
/// arguments.
macro_rules! repeated {
    ($($constant:ident $what:literal $file:literal)*) => {
        scripts! { REPEATED_TEXTS ledger! $($constant $what $file)* }
        pub(crate) static LEDGER_BATCH: Script = {
            const TEXT: &str = concat!(
                ledger!(),
                "local scripts = {}\n",
                $("scripts['", $what, "'] = function(KEYS, ARGV)\n",
                file!($file),
                "end\n",)*
                file!("ledger_batch"),
            );
            Script { name: "send heartbeats", text: TEXT, hash: LazyLock::new(|| sha1(TEXT)) }
        };
        #[cfg(test)]
        const LEDGER_BATCH_TEXT: (&str, &str) = ("ledger_batch", file!("ledger_batch"));
    };
}

repeated! {
    LEDGER_REGISTER "register jobs" "ledger_register"
    LEDGER_OPEN "list open runs" "ledger_open"
    LEDGER_HEARTBEAT "send a heartbeat" "ledger_heartbeat"
    LEDGER_DESCRIBE "describe jobs" "ledger_describe"
}

scripts! {
    LEDGER_TEXTS ledger!
    LEDGER_WATERMARKS "read watermarks" "ledger_watermarks"
    LEDGER_CLAIM "claim a run" "ledger_claim"
    LEDGER_RENEW "renew runs" "ledger_renew"
    LEDGER_END "end a run" "ledger_end"
    LEDGER_HISTORY "list past runs" "ledger_history"
    LEDGER_COMMAND "send a command" "ledger_command"
    LEDGER_CONTROLS "read the controls" "ledger_controls"
    LEDGER_ADD "add an instance" "ledger_add"
    LEDGER_REMOVE "remove an instance" "ledger_remove"
    LEDGER_INSTANCE "read an instance" "ledger_instance"
    LEDGER_INSTANCES "read the instances" "ledger_instances"
    LEDGER_SUMMARY "read the summary" "ledger_summary"
}

impl Script {
    /// Returns the SHA-1 hash that identifies the script on the server.
    pub(crate) fn hash(&'static self) -> &'static str {
        &self.hash
    }

    /// Runs the script with `keys` keys. `write` writes the keys followed by the arguments.
    ///
    /// After a restart or `SCRIPT FLUSH`, the server does not know the hash, and does nothing. The
    /// text is then sent, and the server remembers it. Since this is rare, the words are written a
    /// second time instead of being copied for every call.
    pub(crate) async fn run<T: Connection>(
        &'static self,
        connection: &Dialled<T>,
        delivery: Delivery,
        keys: usize,
        write: impl Fn(&mut Words),
    ) -> Result<Delivered, Unanswered> {
        let command = |name, script: &'static str| {
            let mut words = Vec::with_capacity(WORDS);
            words.push(Cow::Borrowed(script));
            words.push(match keys {
                1 => Cow::Borrowed("1"),
                2 => Cow::Borrowed("2"),
                count => Cow::Owned(count.to_string()),
            });
            write(&mut words);
            Command::new(name, words)
        };
        match connection.deliver(delivery, command("EVALSHA", self.hash())).await {
            Err(error) if error.is_unknown_script() => {
                Box::pin(connection.deliver(delivery, command("EVAL", self.text))).await
            }
            answer => answer,
        }
    }

    /// Runs the script on the current connection. Without one, it is not sent.
    pub(crate) async fn run_on<C: Client>(
        &'static self,
        connection: &ManagedConnection<C>,
        delivery: Delivery,
        keys: &[String],
        arguments: &[String],
    ) -> Result<ScriptReply, RequestError> {
        let dialled = connection.connected(self.name).await?;
        let sent = Instant::now();
        let write = |words: &mut Words| words.extend(keys.iter().chain(arguments).cloned().map(Cow::Owned));
        let reply = answered(self.name, pin!(self.run(&dialled, delivery, keys.len(), write))).await?;
        dialled.read(self.name, sent, reply.reply)
    }
}

/// Computes the hash in lower-case hex, as `EVALSHA` expects it.
fn sha1(text: &str) -> String {
    Sha1::digest(text).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const SHARED: &[(&str, &str)] = &[
        ("acquire_otherwise", file!("acquire_otherwise")),
        ("free_otherwise", file!("free_otherwise")),
        ("hold", file!("hold")),
        ("holder", holder!()),
        ("int", file!("int")),
        ("ledger", ledger!()),
        ("node", file!("node")),
        ("now", now!()),
        ("now_text", file!("now_text")),
        ("propose_otherwise", file!("propose_otherwise")),
        ("raise", file!("raise")),
        ("take", file!("take")),
    ];

    fn whole() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        let others = [
            TEXTS,
            HOLDER_TEXTS,
            PROPOSING_TEXTS,
            HEALING_TEXTS,
            EXTENDING_TEXTS,
            REPEATED_TEXTS,
            LEDGER_TEXTS,
        ];
        OPERATION_TEXTS.iter().chain(others.into_iter().flatten()).chain([&LEDGER_BATCH_TEXT])
    }

    fn commands(text: &str, opening: &str) -> BTreeSet<String> {
        let calls = text.split(opening).skip(1);
        calls.map(|rest| rest.split('\'').next().expect("a split has a first part").to_owned()).collect()
    }

    #[test]
    fn hash_equals_the_one_that_redis_computes() {
        assert_eq!(sha1("return 1"), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }

    #[test]
    fn probe_tries_every_command_of_the_scripts() {
        let mut used = BTreeSet::new();
        let mut tried = BTreeSet::new();
        for (name, text) in whole().chain(SHARED) {
            let calls: BTreeSet<_> =
                ["redis.call('", "redis.pcall('"].into_iter().flat_map(|c| commands(text, c)).collect();
            match *name {
                "probe" => tried = commands(text, "try('"),
                _ => used.extend(calls),
            }
        }
        // The probe itself uses the time.
        tried.insert("TIME".to_owned());
        assert!(used.len() >= 8, "the scripts are read: {used:?}");
        assert_eq!(used, tried);
    }

    #[test]
    fn every_script_file_is_listed_and_begins_with_its_header() {
        let listed: BTreeSet<_> = whole().chain(SHARED).map(|(name, _)| format!("{name}.lua")).collect();
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scripts");
        let files = std::fs::read_dir(directory).expect("readable source");
        let files: BTreeSet<_> = files
            .map(|file| file.expect("readable directory").file_name().into_string().expect("ASCII name"))
            .collect();
        assert_eq!(files, listed);
        for (name, text) in whole() {
            let header: String = text.lines().take_while(|line| line.starts_with("--")).collect();
            assert!(header.contains("KEYS ") && header.contains("repl"), "{name}.lua lists keys and replies");
        }
    }
}
