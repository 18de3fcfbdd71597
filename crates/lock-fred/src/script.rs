//! The scripts, and how one is run: by its hash, and by its text where the server does not know it yet.

use crate::link::Link;
use fred::{
    interfaces::LuaInterface,
    types::{Value, scripts::Script as FredScript},
};
use lock_core::BackendError;
use std::sync::LazyLock;

/// A script file.
pub(crate) struct Script {
    pub(crate) name: &'static str,
    text: &'static str,
    hashed: LazyLock<FredScript>,
}

macro_rules! nothing {
    () => {
        ""
    };
}

macro_rules! holder {
    () => {
        include_str!("scripts/holder.lua")
    };
}

macro_rules! ledger {
    () => {
        include_str!("scripts/ledger.lua")
    };
}

/// The constants of a list of scripts, each after what they share.
macro_rules! scripts {
    ($texts:ident $shared:ident! $($constant:ident $what:literal $file:literal)*) => {
        $(pub(crate) static $constant: Script = {
            const TEXT: &str = concat!($shared!(), include_str!(concat!("scripts/", $file, ".lua")));
            Script { name: $what, text: TEXT, hashed: LazyLock::new(|| FredScript::from_lua(TEXT)) }
        };)*
        #[cfg(test)]
        const $texts: &[(&str, &str)] = &[$(($file, include_str!(concat!("scripts/", $file, ".lua")))),*];
    };
}

scripts! {
    TEXTS nothing!
    ACQUIRE "acquire" "acquire"
    KEEP "re-entry" "keep"
    RENEW "renew" "renew"
    RELEASE "release" "release"
    PROBE "check of the rights" "probe"
}

scripts! {
    HOLDER_TEXTS holder!
    INSPECT "inspect" "inspect"
    FORCE "force release" "force"
}

scripts! {
    LEDGER_TEXTS ledger!
    LEDGER_REGISTER "register jobs" "ledger_register"
    LEDGER_WATERMARKS "read watermarks" "ledger_watermarks"
    LEDGER_CLAIM "claim a run" "ledger_claim"
    LEDGER_KEEP "keep runs" "ledger_keep"
    LEDGER_END "end a run" "ledger_end"
    LEDGER_OPEN "list open runs" "ledger_open"
    LEDGER_HISTORY "list past runs" "ledger_history"
    LEDGER_ORDER "give an order" "ledger_order"
    LEDGER_ORDERS "read the orders" "ledger_orders"
}

impl Script {
    /// Runs it. After a restart or `SCRIPT FLUSH` the server does not know the hash; it has then done nothing,
    /// and the text is sent, which it remembers.
    pub(crate) async fn run(
        &self,
        link: &Link,
        keys: Vec<String>,
        args: Vec<String>,
    ) -> Result<Value, BackendError> {
        let request = async {
            let known = link.client.evalsha(self.hashed.sha1().clone(), keys.clone(), args.clone()).await;
            match known {
                Err(error) if error.details().starts_with("NOSCRIPT") => {
                    link.client.eval(self.text, keys, args).await
                }
                answer => answer,
            }
        };
        link.ask(self.name, request).await
    }
}

#[cfg(test)]
mod tests {
    use super::{HOLDER_TEXTS, LEDGER_TEXTS, TEXTS};
    use std::collections::BTreeSet;

    const SHARED: &[(&str, &str)] = &[("holder", holder!()), ("ledger", ledger!())];

    fn whole() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        TEXTS.iter().chain(HOLDER_TEXTS).chain(LEDGER_TEXTS)
    }

    fn commands(text: &str, opening: &str) -> BTreeSet<String> {
        let calls = text.split(opening).skip(1);
        calls.map(|rest| rest.split('\'').next().expect("a split has a first part").to_owned()).collect()
    }

    #[test]
    fn the_probe_tries_every_command_that_a_script_uses() {
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
        // It needs the time itself.
        tried.insert("TIME".to_owned());
        assert!(used.len() >= 8, "the scripts were read: {used:?}");
        assert_eq!(used, tried);
    }

    #[test]
    fn every_script_file_is_listed_and_begins_with_its_header() {
        let listed: BTreeSet<_> = whole().chain(SHARED).map(|(name, _)| format!("{name}.lua")).collect();
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scripts");
        let files = std::fs::read_dir(directory).expect("the sources are here");
        let files: BTreeSet<_> = files
            .map(|file| file.expect("a readable directory").file_name().into_string().expect("an ASCII name"))
            .collect();
        assert_eq!(files, listed);
        for (name, text) in whole() {
            let header: String = text.lines().take_while(|line| line.starts_with("--")).collect();
            assert!(
                header.contains("KEYS 1") && header.contains("repl"),
                "{name}.lua lists keys and replies"
            );
        }
    }
}
