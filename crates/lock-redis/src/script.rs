//! The Lua scripts. Each is run by its hash, or by its text if the server does not know the hash.
//!
//! The file of a script reads from top to bottom as the server runs it. Two kinds of lines stand for other files:
//!
//! - `--@include shared/now.lua` for the text of that file.
//! - `--@function renew(lock, lease)` for a function with the text of `renew.lua` as its body. Left out are its line
//!   `local lock, lease = …`, which the parameters replace, and its includes, which the calling script has already.
//!
//! Functions of operations exist only in the scripts that run several of them: for a single operation, even the
//! creation of a function takes a considerable part of the time.

use crate::{
    client::{Client, Command, Connection},
    connection::{Delivered, Delivery, Dialled, ManagedConnection, answered},
    error::{RequestError, Unanswered},
    script_reply::ScriptReply,
};
use sha1::{Digest, Sha1};
use std::{borrow::Cow, fmt::Write, pin::pin, sync::OnceLock};
use tokio::time::Instant;

/// A Lua script.
pub(crate) struct Script {
    /// The phrase that names the operation in errors.
    pub(crate) name: &'static str,
    file: &'static str,
    sent: OnceLock<Sent>,
}

/// A script as the server runs it.
struct Sent {
    text: String,
    hash: String,
}

/// The words of a command. Constant ones are not copied.
pub(crate) type Words = Vec<Cow<'static, str>>;

/// The initial capacity for the words of a command.
const WORDS: usize = 16;

/// The beginning of a line that stands for the text of a file.
const INCLUDE: &str = "--@include ";

/// The beginning of a line that stands for a script as a function.
const FUNCTION: &str = "--@function ";

/// Includes the files of `scripts`. Defines a constant for each script, and `FILES` with the name and the text of each
/// file.
macro_rules! scripts {
    ($($constant:ident $name:literal $what:literal)*; $($part:literal)*) => {
        $(pub(crate) static $constant: Script =
            Script { name: $what, file: text!($name), sent: OnceLock::new() };)*
        const FILES: &[(&str, &str)] = &[$(($name, text!($name)),)* $(($part, text!($part))),*];
    };
}

macro_rules! text {
    ($name:literal) => {
        include_str!(concat!("scripts/", $name, ".lua"))
    };
}

scripts! {
    ACQUIRE "acquire" "acquire a lock"
    REENTER "reenter" "re-enter a lock"
    RENEW "renew" "renew a lease"
    RELEASE "release" "release a lock"
    BATCH "batch" "run a batch"
    PERMITS "permits" "use a pool"
    INSPECT_POOL "inspect_pool" "inspect a pool"
    INSPECT "inspect" "inspect a lock"
    FORCE_RELEASE "force_release" "force the release of a lock"
    PROBE "probe" "check the permissions"
    PROPOSE "propose" "propose a token"
    EXTEND "extend" "extend leases"
    HEAL "heal" "heal a lease"
    FREE "free" "release a lock"
    LEDGER_REGISTER "ledger_register" "register jobs"
    LEDGER_OPEN "ledger_open" "list open runs"
    LEDGER_HEARTBEAT "ledger_heartbeat" "send a heartbeat"
    LEDGER_DESCRIBE "ledger_describe" "describe jobs"
    LEDGER_BATCH "ledger_batch" "send heartbeats"
    LEDGER_WATERMARKS "ledger_watermarks" "read watermarks"
    LEDGER_CLAIM "ledger_claim" "claim a run"
    LEDGER_RENEW "ledger_renew" "renew runs"
    LEDGER_END "ledger_end" "end a run"
    LEDGER_HISTORY "ledger_history" "list past runs"
    LEDGER_COMMAND "ledger_command" "send a command"
    LEDGER_CONTROLS "ledger_controls" "read the controls"
    LEDGER_ADD "ledger_add" "add an instance"
    LEDGER_REMOVE "ledger_remove" "remove an instance"
    LEDGER_INSTANCE "ledger_instance" "read an instance"
    LEDGER_INSTANCES "ledger_instances" "read the instances"
    LEDGER_SUMMARY "ledger_summary" "read the summary"
    ;
    "shared/grant"
    "shared/holder"
    "shared/ledger"
    "shared/node"
    "shared/now"
    "shared/now_text"
}

impl Script {
    /// Returns the SHA-1 hash that identifies the script on the server.
    pub(crate) fn hash(&'static self) -> &'static str {
        &self.sent().hash
    }

    /// Returns the text and its hash, put together on the first call.
    fn sent(&'static self) -> &'static Sent {
        self.sent.get_or_init(|| {
            let text = assemble(self.file);
            Sent { hash: sha1(&text), text }
        })
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
                Box::pin(connection.deliver(delivery, command("EVAL", &self.sent().text))).await
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

/// Replaces the lines that stand for other files.
fn assemble(file: &str) -> String {
    let mut text = String::with_capacity(2 * file.len());
    for line in file.lines() {
        if let Some(part) = line.strip_prefix(INCLUDE) {
            text.push_str(file_of(part.trim_end_matches(".lua")));
        } else if let Some(signature) = line.strip_prefix(FUNCTION) {
            push_function(signature, &mut text);
        } else {
            push_line(line, &mut text);
        }
    }
    text
}

/// Appends a function with the text of a script as its body.
fn push_function(signature: &str, text: &mut String) {
    let (name, parameters) = signature.trim_end_matches(')').split_once('(').expect("a signature");
    push_line(&format!("local function {signature}"), text);
    let setting = format!("local {parameters} = ");
    let body = file_of(name).lines().filter(|line| !line.starts_with(INCLUDE) && !line.starts_with(&setting));
    body.for_each(|line| push_line(line, text));
    push_line("end", text);
}

fn push_line(line: &str, text: &mut String) {
    text.extend([line, "\n"]);
}

/// Returns the text of a file in `scripts`.
fn file_of(name: &str) -> &'static str {
    let (_, text) = FILES.iter().find(|(file, _)| *file == name).expect("a listed file");
    text
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

    /// Returns the quoted words that follow `opening`, which ends with the quote.
    fn words_after(text: &str, opening: &str) -> BTreeSet<String> {
        let rests = text.split(opening).skip(1);
        rests.map(|rest| rest.split('\'').next().expect("a split has a first part").to_owned()).collect()
    }

    #[test]
    fn hash_equals_the_one_that_redis_computes() {
        assert_eq!(sha1("return 1"), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }

    #[test]
    fn probe_tries_every_command_of_the_scripts() {
        let mut used = BTreeSet::new();
        let mut tried = BTreeSet::new();
        for (name, text) in FILES {
            let calls: BTreeSet<_> =
                ["redis.call('", "redis.pcall('"].into_iter().flat_map(|c| words_after(text, c)).collect();
            match *name {
                "probe" => tried = words_after(text, "try('"),
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
        let listed: BTreeSet<_> = FILES.iter().map(|(name, _)| format!("{name}.lua")).collect();
        let scripts = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scripts");
        let mut files = BTreeSet::new();
        for directory in ["", "shared/"] {
            for file in std::fs::read_dir(scripts.join(directory)).expect("readable source") {
                let name = file.expect("readable directory").file_name().into_string().expect("ASCII name");
                files.insert(format!("{directory}{name}"));
            }
        }
        files.remove("shared");
        assert_eq!(files, listed);
        for (name, text) in FILES {
            let lines: Vec<_> = text.lines().collect();
            let header = lines.iter().take_while(|line| line.starts_with("--")).count();
            let (header, code) = lines.split_at(header);
            let has = |word: &str| header.iter().any(|line| line.contains(word));
            if name.starts_with("shared/") {
                let takes = !["shared/now", "shared/ledger"].contains(name);
                assert!(has("Gives ") && has("Takes ") == takes, "{name}.lua lists its names");
            } else {
                assert!(has("KEYS ") && has("repl"), "{name}.lua lists keys and replies");
                let reads = code.iter().any(|line| line.contains("ARGV"));
                assert_eq!(has("-- ARGV "), reads, "{name}.lua lists its arguments");
                let replies =
                    ["{now, '", "answer('"].into_iter().flat_map(|opening| words_after(text, opening));
                for reply in replies {
                    assert!(has(&reply), "{name}.lua lists the reply `{reply}`");
                }
            }
        }
    }

    #[test]
    fn scripts_are_assembled_without_gaps_and_repetitions() {
        for (name, file) in FILES {
            let text = assemble(file);
            assert!(!text.contains("--@"), "{name}.lua: an included file includes another one");
            let includes = |file: &'static str| -> Vec<_> {
                file.lines().filter_map(|line| line.strip_prefix(INCLUDE)).collect()
            };
            for signature in file.lines().filter_map(|line| line.strip_prefix(FUNCTION)) {
                let (function, parameters) = signature.split_once('(').expect("a signature");
                let has = includes(file);
                assert!(
                    includes(file_of(function)).iter().all(|part| has.contains(part)),
                    "{name}.lua includes what {function}.lua needs: {has:?}"
                );
                let mut body = String::new();
                push_function(signature, &mut body);
                let takes_all = parameters == "KEYS, ARGV)";
                assert_eq!(
                    body.contains("KEYS[") || body.contains("ARGV["),
                    takes_all,
                    "{signature}: {body}"
                );
            }
        }
        let batch = assemble(file_of("batch"));
        assert_eq!(batch.matches("redis.call('TIME')").count(), 1);
    }
}
