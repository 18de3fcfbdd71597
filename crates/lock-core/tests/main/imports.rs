//! The direction of imports inside the published crates: no circles but the listed ones, and only downwards in the
//! machine and the driver of lock-core and in lock-quorum.

use crate::architecture::{root, sources};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path},
};

/// The files of the machine, from the bottom up: each imports only from files before it.
const MACHINE: [&str; 10] =
    ["event", "command", "fairness", "queue", "watch", "cleanup", "mod", "hold", "acquisition", "pool"];

/// The files of the driver, from the bottom up.
const DRIVER: [&str; 15] = [
    "runtime",
    "activity",
    "card",
    "hold_state",
    "entry",
    "request",
    "agenda",
    "shared",
    "submit",
    "dispatch",
    "keeper",
    "release",
    "acquire",
    "handle",
    "mod",
];

/// The files of lock-quorum, from the bottom up: the rules of a node, the decisions, then the files that carry them out.
const QUORUM: [&str; 12] = [
    "rules",
    "node",
    "round",
    "node_state",
    "shared",
    "gather",
    "release",
    "acquire",
    "extend",
    "wakes",
    "backend",
    "lib",
];

/// A path of modules, possibly ending in an item, from the root of the crate.
type ItemPath = Vec<String>;

#[derive(Debug, Default)]
struct Module {
    /// The file, without the folder `src/` and without `.rs`.
    file: String,
    /// The absolute paths that occur in its code.
    uses: BTreeSet<ItemPath>,
    /// The names that its `use` declarations import, with their paths.
    names: BTreeMap<String, ItemPath>,
}

/// The modules of a crate by path, without unit tests.
struct Modules(BTreeMap<ItemPath, Module>);

impl Modules {
    fn read(name: &str) -> Self {
        let src = root().join(format!("crates/{name}/src"));
        let files: Vec<_> = sources(&src)
            .into_iter()
            .map(|(path, text)| (path.strip_prefix(&src).unwrap().with_extension(""), text))
            .filter(|(path, _)| !path.components().any(|part| part == Component::Normal("tests".as_ref())))
            .collect();
        let mut modules: BTreeMap<_, _> =
            files.iter().map(|(path, _)| (module_path(path), Module::default())).collect();
        for (path, text) in &files {
            let this = module_path(path);
            let is_module = |path: &[String]| modules.contains_key(path);
            let (uses, names) = imports(&this, &code(text), is_module);
            let file = path.to_str().unwrap().to_owned();
            modules.insert(this, Module { file, uses, names });
        }
        Self(modules)
    }

    /// Returns the file that defines the item of this path, following re-exports.
    fn definition(&self, path: &[String], depth: u32) -> Option<&str> {
        assert!(depth < 20, "{path:?} is re-exported in a circle");
        let of = (0..=path.len()).rev().find(|length| self.0.contains_key(&path[..*length]))?;
        let module = &self.0[&path[..of]];
        match path.get(of).and_then(|item| module.names.get(item)) {
            Some(elsewhere) => self.definition(elsewhere, depth + 1),
            None => Some(&module.file),
        }
    }

    /// Returns the imports of each file.
    fn imports(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let of = |module: &Module| module.uses.iter().filter_map(|path| self.definition(path, 0)).collect();
        self.0.values().map(|module| (module.file.as_str(), of(module))).collect()
    }
}

fn module_path(file: &Path) -> ItemPath {
    let mut path: ItemPath = file.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
    path.pop_if(|last| *last == "mod" || *last == "lib");
    path
}

/// Returns the code without comments, string literals, and unit tests at the end of a file.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let text = text.split("#[cfg(test)]\npub(crate) mod test {").next().unwrap();
    text.lines().map(|line| line.split("//").next().unwrap()).flat_map(|line| [line, "\n"]).collect()
}

/// Returns the absolute paths in this code that refer to this crate, and the names that its `use` declarations
/// import.
fn imports(
    this: &[String],
    code: &str,
    is_module: impl Fn(&[String]) -> bool,
) -> (BTreeSet<ItemPath>, BTreeMap<String, ItemPath>) {
    let absolute = |path: &[String]| -> Option<ItemPath> {
        let (first, rest) = path.split_first()?;
        let base = match first.as_str() {
            "crate" => vec![],
            "self" => this.to_vec(),
            "super" => {
                let up = path.iter().take_while(|part| *part == "super").count();
                return Some([&this[..this.len() - up], &path[up..]].concat());
            }
            child => {
                let child = [this, &[child.to_owned()]].concat();
                if !is_module(&child) {
                    return None;
                }
                child
            }
        };
        Some([base.as_slice(), rest].concat())
    };
    let (mut uses, mut names) = (BTreeSet::new(), BTreeMap::new());
    let (declarations, body) = declarations(code);
    let words: BTreeSet<_> = body.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    for Declaration { is_public, tree } in &declarations {
        let mut leaves = Vec::new();
        expand(&mut Vec::new(), tree, &mut leaves);
        for (path, name) in leaves {
            if let Some(path) = absolute(&path) {
                // A name that is only re-exported is not used here.
                if !is_public || words.contains(name.as_str()) {
                    uses.insert(path.clone());
                }
                names.insert(name, path);
            }
        }
    }
    // Paths in expressions. A declaration may name a folder only to import from its files.
    for start in ["crate::", "super::"] {
        for (at, _) in body.match_indices(start) {
            let path =
                body[at..].split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').next().unwrap();
            let path: ItemPath =
                path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
            let is_whole = !body[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            if is_whole && path.len() > 1 {
                uses.extend(absolute(&path));
            }
        }
    }
    (uses, names)
}

/// A `use` declaration.
struct Declaration {
    is_public: bool,
    /// The text between `use` and `;`.
    tree: String,
}

/// Returns the `use` declarations of this code, and the rest of it.
fn declarations(code: &str) -> (Vec<Declaration>, String) {
    let (mut declarations, mut rest) = (Vec::new(), String::new());
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let line = line.trim_start();
        let private = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
        let Some(begin) = private.strip_prefix("use ") else {
            rest.extend([line, "\n"]);
            continue;
        };
        let mut tree = begin.to_owned();
        while !tree.contains(';') {
            tree.extend([" ", lines.next().unwrap().trim()]);
        }
        declarations.push(Declaration { is_public: private != line, tree: tree.replace(';', "") });
    }
    (declarations, rest)
}

/// Collects the leaves of a tree of imports: path and imported name.
fn expand(prefix: &mut Vec<String>, tree: &str, leaves: &mut Vec<(ItemPath, String)>) {
    let tree = tree.trim();
    if let Some(inner) = tree.strip_prefix('{') {
        for branch in branches(inner.strip_suffix('}').unwrap_or_else(|| panic!("unread import: {tree}"))) {
            expand(prefix, branch, leaves);
        }
    } else if let Some((first, rest)) = tree.split_once("::") {
        prefix.push(first.trim().to_owned());
        expand(prefix, rest, leaves);
        prefix.pop();
    } else if !tree.is_empty() {
        let (item, name) = tree.split_once(" as ").unwrap_or((tree, tree));
        let mut path = prefix.clone();
        let name = if item == "self" { path.last().unwrap().clone() } else { name.to_owned() };
        path.extend((item != "self" && item != "*").then(|| item.to_owned()));
        leaves.push((path, name));
    }
}

/// Splits at the commas outside of inner braces.
fn branches(inner: &str) -> Vec<&str> {
    let mut depth = 0;
    let split = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    };
    inner.split(split).collect()
}

/// Returns the circles of imports: the largest sets of files in which each file leads to each other one.
fn circles<'a>(imports: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<BTreeSet<&'a str>> {
    let reached = |from: &'a str| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(file) = open.pop() {
            let next = imports.get(file).into_iter().flatten().copied().filter(|next| *next != file);
            open.extend(next.filter(|next| reached.insert(*next)));
        }
        reached
    };
    let reach: BTreeMap<_, _> = imports.keys().map(|file| (*file, reached(file))).collect();
    let circle = |file: &'a str| -> BTreeSet<&'a str> {
        let returns = |other: &&'a str| reach.get(other).is_some_and(|back| back.contains(file));
        reach[file].iter().copied().filter(returns).collect()
    };
    let circles: BTreeSet<_> =
        imports.keys().map(|file| circle(file)).filter(|circle| circle.len() > 1).collect();
    circles.into_iter().collect()
}

#[test]
fn imports_of_lock_core_are_read() {
    let modules = Modules::read("lock-core");
    let imports = modules.imports();
    assert!(
        imports["guard"].contains("driver/handle") && imports["acquire"].contains("guard"),
        "{imports:#?}"
    );
    assert!(imports["guard"].contains("machine/command"), "re-exports are followed: {:?}", imports["guard"]);
}

/// The circles that are left, of a whole and its parts.
const CIRCLES: [(&str, &[&[&str]]); 14] = [
    ("distlock", &[]),
    ("lock-core", &[]),
    ("lock-cron", &[]),
    ("lock-fred", &[]),
    ("lock-ledger", &[]),
    ("lock-macros", &[]),
    ("lock-quorum", &[]),
    ("lock-redis", &[&["backend", "connect", "ledger/gathering"], &["pipeline/mod", "pipeline/task"]]),
    ("lock-redis-rs", &[]),
    ("lock-session", &[]),
    ("lock-etcd", &[]),
    ("lock-zookeeper", &[]),
    ("lock-sqlx", &[]),
    ("lock-tower", &[]),
];

#[test]
fn files_import_without_circles() {
    let mut changed = String::new();
    for (name, known) in CIRCLES {
        let modules = Modules::read(name);
        let known: Vec<BTreeSet<&str>> =
            known.iter().map(|circle| circle.iter().copied().collect()).collect();
        let found = circles(&modules.imports());
        if found != known {
            changed.extend([format!("{name}: {found:?} instead of {known:?}\n")]);
        }
    }
    assert_eq!(changed, "");
}

#[test]
fn machine_driver_and_quorum_import_downwards() {
    let orders = [
        ("lock-core", "machine/", &MACHINE[..]),
        ("lock-core", "driver/", &DRIVER[..]),
        ("lock-quorum", "", &QUORUM[..]),
    ];
    for (name, folder, order) in orders {
        let modules = Modules::read(name);
        let rank = |file: &str| {
            let name = file.strip_prefix(folder)?;
            let place = order.iter().position(|known| *known == name);
            Some(place.unwrap_or_else(|| panic!("{file} has no place in the order")))
        };
        let mut read = 0;
        for (file, from) in modules.imports() {
            let Some(place) = rank(file) else { continue };
            read += 1;
            for below in from.into_iter().filter(|other| *other != file) {
                assert!(
                    rank(below).is_none_or(|its| its < place),
                    "{file} imports from {below}, which stands above it"
                );
            }
        }
        assert_eq!(read, order.len());
    }
}

#[test]
fn import_circles_are_found() {
    let imports = |edges: &[(&'static str, &'static str)]| {
        let mut imports: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        edges.iter().for_each(|(from, to)| _ = imports.entry(from).or_default().insert(to));
        imports
    };
    assert_eq!(circles(&imports(&[("a", "b"), ("a", "c"), ("b", "c")])), [] as [BTreeSet<&str>; 0]);
    assert_eq!(circles(&imports(&[("a", "b"), ("b", "c"), ("c", "b")])), [BTreeSet::from(["b", "c"])]);
}
