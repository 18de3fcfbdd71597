//! Rules of the architecture: dependencies between crates, and words that must not appear in certain files.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Returns the frameworks and workspace crates that a crate may have as ordinary dependencies; small utility crates
/// are not restricted and not listed.
fn allowed(krate: &str) -> Option<BTreeSet<&'static str>> {
    let allowed: &[&str] = match krate {
        "lock-core" => &["lock-macros", "tokio", "tokio-util", "opentelemetry"],
        "lock-macros" => &[],
        "lock-ledger" => &["lock-core"],
        "lock-quorum" => &["lock-core", "tokio"],
        "lock-redis" => &["lock-core", "lock-ledger", "lock-quorum", "tokio"],
        "lock-fred" => &["lock-core", "lock-ledger", "lock-redis", "fred", "tokio"],
        "lock-redis-rs" => &["lock-core", "lock-ledger", "lock-redis", "redis", "tokio"],
        "lock-session" => &["lock-core", "tokio"],
        "lock-etcd" => &["lock-core", "lock-session", "http", "tokio", "tonic"],
        "lock-zookeeper" => &["lock-core", "lock-session", "tokio"],
        "lock-sqlx" => &["lock-core", "lock-ledger", "sqlx", "tokio"],
        "lock-tower" => &[
            "lock-core",
            "tower",
            "http",
            "http-body",
            "axum",
            "tokio",
            "tokio-util",
            "opentelemetry",
            "sqlx",
        ],
        "lock-cron" => &["lock-core", "lock-ledger", "croner", "jiff", "opentelemetry", "tokio", "axum"],
        "lock-testkit" => &["lock-core", "lock-ledger", "lock-quorum", "tokio"],
        "distlock" => &[
            "lock-core",
            "lock-ledger",
            "lock-fred",
            "lock-redis-rs",
            "lock-etcd",
            "lock-zookeeper",
            "lock-sqlx",
            "lock-macros",
            "lock-quorum",
            "lock-tower",
            "lock-cron",
            "lock-testkit",
        ],
        _ => return None,
    };
    Some(allowed.iter().copied().collect())
}

/// The crates that count as frameworks.
const FRAMEWORKS: [&str; 17] = [
    "tokio",
    "tokio-util",
    "fred",
    "redis",
    "tower",
    "axum",
    "hyper",
    "http",
    "http-body",
    "sqlx",
    "croner",
    "jiff",
    "chrono",
    "cron",
    "opentelemetry",
    "opentelemetry_sdk",
    "tonic",
];

/// Crates that no other crate may depend on, except for the bench `flash-sale`, which attacks the shop.
const LEAVES: [&str; 14] = [
    "lock-inventory-demo",
    "flash-sale",
    "lock-bench",
    "lock-browser",
    "lock-fuzz",
    "lock-model",
    "lock-public-api",
    "lock-redis-tests",
    "lock-session-tests",
    "lock-shuttle",
    "lock-sim",
    "lock-trials",
    "examples",
    "otel-example",
];

/// Returns the ordinary dependencies by crate, according to cargo.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let tree = |package: &str| {
        let arguments =
            ["tree", "--offline", "--depth", "1", "--edges", "normal", "--prefix", "none", "--all-features"];
        let output = Command::new(&cargo)
            .args(arguments)
            .args(["--package", package])
            .current_dir(root())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().skip(1).filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
    };
    members().into_iter().map(|member| (member.clone(), tree(&member))).collect()
}

/// Returns the members of the workspace in these folders.
pub(crate) fn packages(folders: &[&str]) -> Vec<PathBuf> {
    let entries =
        |folder: &&str| std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    // A package that is a workspace of its own is no member of ours.
    let is_member = |dir: &PathBuf| {
        let manifest = std::fs::read_to_string(dir.join("Cargo.toml"));
        manifest.is_ok_and(|manifest| !manifest.contains("\n[workspace]"))
    };
    folders.iter().flat_map(entries).filter(is_member).collect()
}

fn members() -> Vec<String> {
    let mut manifests = packages(&["crates", "verify"]);
    manifests.extend(["examples", "examples/otel"].map(|folder| root().join(folder)));
    let name = |dir: PathBuf| {
        let manifest = std::fs::read_to_string(dir.join("Cargo.toml")).ok()?;
        let line = manifest.lines().find(|line| line.starts_with("name = "))?;
        Some(line.trim_start_matches("name = ").trim_matches('"').to_owned())
    };
    manifests.into_iter().filter_map(name).collect()
}

#[test]
fn crates_depend_only_on_allowed_crates() {
    let all = dependencies();
    assert!(all.contains_key("lock-core") && all.contains_key("lock-testkit"), "{:?}", all.keys());
    for (krate, dependencies) in &all {
        for leaf in LEAVES {
            let is_allowed = krate == "flash-sale" && leaf == "lock-inventory-demo";
            assert!(is_allowed || !dependencies.contains(leaf), "{krate} depends on {leaf}");
        }
        if LEAVES.contains(&krate.as_str()) {
            continue;
        }
        let allowed = allowed(krate).unwrap_or_else(|| {
            panic!("{krate} is not on the map: add it to this test and to ARCHITECTURE.md")
        });
        let watched = |name: &&String| FRAMEWORKS.contains(&name.as_str()) || name.starts_with("lock-");
        for dependency in dependencies.iter().filter(watched) {
            assert!(allowed.contains(dependency.as_str()), "{krate} must not depend on {dependency}");
        }
    }
}

/// The reference application is what people copy, so it uses what they are told to use.
#[test]
fn the_shop_has_the_locks_from_the_facade_alone() {
    let all = dependencies();
    let of_locks =
        all["lock-inventory-demo"].iter().filter(|name| name.starts_with("lock-") || **name == "distlock");
    assert_eq!(of_locks.collect::<Vec<_>>(), ["distlock"]);
    for (path, text) in sources(&root().join("crates/lock-inventory-demo/src")) {
        let inner = code(&text).find(|line| line.contains("lock_core") || line.contains("lock_tower"));
        assert_eq!(inner, None, "{}", path.display());
    }
}

/// Returns the Rust files in this folder and its subfolders: path and text.
pub(crate) fn sources(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found
}

/// Returns the files of lock-core and lock-quorum: path and text.
fn of_locks() -> Vec<(PathBuf, String)> {
    ["lock-core", "lock-quorum"]
        .iter()
        .flat_map(|name| sources(&root().join(format!("crates/{name}/src"))))
        .collect()
}

/// Returns the lines of code: comments may mention words that code must not use.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"))
}

#[test]
fn the_machine_and_the_store_rules_have_no_effects() {
    let forbidden = [
        "tokio",
        "std::sync",
        "Arc<",
        "Waker",
        "Instant",
        "SystemTime",
        "async ",
        ".await",
        "tracing",
        "uuid::",
        "getrandom",
        "std::thread",
        "println!",
    ];
    let pure = of_locks();
    let pure: Vec<_> = pure
        .iter()
        .filter(|(path, _)| {
            let path = path.strip_prefix(root()).unwrap().to_string_lossy();
            let of_quorum = ["rules", "round", "node_state"].map(|file| format!("lock-quorum/src/{file}.rs"));
            let decides = of_quorum.iter().any(|file| path.ends_with(file));
            (path.contains("/machine/") || path.contains("/store/") || decides) && !path.contains("tests")
        })
        .collect();
    assert!(pure.len() >= 10);
    for (path, text) in pure {
        for line in code(text) {
            for word in forbidden {
                assert!(!line.contains(word), "{} uses `{word}`: {line}", path.display());
            }
        }
    }
}

#[test]
fn effects_live_in_the_driver() {
    // (word, the only files that may contain it)
    let rules: [(&str, &[&str]); 5] = [
        (
            "spawn(",
            &[
                "driver/keeper.rs",
                "backend/async_backend.rs",
                "backend/on_worker.rs",
                "hold.rs",
                "src/worker.rs",
            ],
        ),
        (
            "sleep(",
            &[
                "driver/keeper.rs",
                "driver/runtime.rs",
                "driver/hold_state.rs",
                "driver/card.rs",
                "lock-quorum/src/gather.rs",
                "election/candidate.rs",
            ],
        ),
        ("SystemTime::now", &["clock.rs"]),
        ("Instant::now", &["clock.rs", "test_util.rs"]),
        ("opentelemetry", &["observer/otel.rs"]),
    ];
    for (path, text) in of_locks() {
        let path = path.to_string_lossy().into_owned();
        for line in code(&text) {
            for (what, places) in rules {
                let allowed = places.iter().any(|place| path.ends_with(place));
                assert!(!line.contains(what) || allowed, "{path} uses `{what}`: {line}");
            }
        }
    }
}

#[test]
fn every_crate_uses_the_workspace_lints_and_files_stay_small() {
    for dir in packages(&["crates", "verify"]) {
        let manifest = std::fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[lints]\nworkspace = true"), "{} has lints of its own", dir.display());
        let src = dir.join("src");
        // A package that only has tests has no sources.
        for (path, text) in if src.is_dir() { sources(&src) } else { Vec::new() } {
            let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
            assert!(lines <= 900, "{} has {lines} lines: look for the second subject", path.display());
        }
    }
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(workspace.contains("unsafe_code = \"forbid\""));
}

#[test]
fn products_contain_no_planted_bugs_and_checkers_are_not_published() {
    let products = packages(&["crates"]).into_iter().filter(|dir| !dir.ends_with("lock-testkit"));
    for (path, text) in products.flat_map(|dir| sources(&dir.join("src"))) {
        for word in ["PlantedBug", "planted(", "cfg(shuttle"] {
            assert!(!text.contains(word), "{} has `{word}`", path.display());
        }
    }
    for dir in packages(&["verify"]) {
        let manifest = std::fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        assert!(manifest.contains("publish = false"), "{} would be published", dir.display());
    }
}

/// A feature of the crate uuid, which any dependency can turn on, makes `new_v4` draw from a reserve in memory. Copies of
/// a process would then have equal ids.
#[test]
fn products_draw_each_id_from_the_operating_system() {
    for (path, text) in packages(&["crates"]).into_iter().flat_map(|dir| sources(&dir.join("src"))) {
        let reserve = code(&text).find(|line| line.contains("new_v4("));
        assert_eq!(reserve, None, "{}: use `ProcessId::random`", path.display());
    }
}

/// Test hooks must not become part of a program through a dependency on one of our crates.
#[test]
fn products_do_not_enable_test_hooks() {
    let products = packages(&["crates"]);
    let is_for_tests = |dir: &PathBuf| dir.ends_with("lock-testkit") || dir.ends_with("lock-inventory-demo");
    let mut in_tests = 0;
    for dir in products.iter().filter(|dir| !is_for_tests(dir)) {
        let manifest = std::fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        for section in manifest.split("\n[").filter(|section| !section.starts_with("features]")) {
            let enables = section.lines().any(|line| line.starts_with("lock-") && line.contains("test-util"));
            let is_dev = section.starts_with("dev-dependencies]");
            assert!(is_dev || !enables, "{}: [{section}", dir.display());
            in_tests += u32::from(enables);
        }
        let features =
            manifest.split("\n[features]\n").nth(1).unwrap_or_default().split("\n[").next().unwrap();
        // The facade forwards it, by a feature for tests.
        let enables = |line: &str| line.contains("lock-core/test-util") && !line.starts_with("testing = ");
        assert!(!features.lines().any(enables), "{}: {features}", dir.display());
    }
    assert!(in_tests > 0, "the tests of some crate enable them");
}

#[test]
fn every_async_function_says_whether_it_is_cancel_safe() {
    for (path, text) in of_locks() {
        let lines: Vec<_> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if !line.trim_start().starts_with("pub async fn") {
                continue;
            }
            let docs: Vec<_> = lines[..at]
                .iter()
                .rev()
                .take_while(|l| l.trim_start().starts_with("//") || l.trim_start().starts_with("#["))
                .collect();
            assert!(
                docs.iter().any(|l| l.contains("# Cancel safety")),
                "{}:{}: {line}",
                path.display(),
                at + 1
            );
            if line.contains("Result<") {
                assert!(docs.iter().any(|l| l.contains("# Errors")), "{}:{}: {line}", path.display(), at + 1);
            }
        }
    }
}

/// A user of locks reads the root first; observers, clocks, inspection and the backend contract have their own
/// modules.
#[test]
fn the_root_of_lock_core_has_at_most_26_names() {
    let root = std::fs::read_to_string(root().join("crates/lock-core/src/lib.rs")).unwrap();
    let public = root.lines().filter(|line| line.starts_with("pub use "));
    // A trait and its derive are one name.
    let names: BTreeSet<_> = public
        .flat_map(|line| {
            line.trim_end_matches(';').rsplit("::").next().unwrap().trim_matches(['{', '}']).split(',')
        })
        .map(str::trim)
        .collect();
    assert!(names.contains("LockFactory") && names.contains("LockGuard"), "{names:?}");
    assert!(names.len() <= 26, "{} names: {names:?}", names.len());
}
