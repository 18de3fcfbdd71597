//! Checks that each crate's public API matches its `api.txt`. To accept an intended change: `UPDATE_API=1 cargo test -p
//! lock-public-api`.

use libtest_mimic::{Arguments, Failed, Trial};
use lock_public_api::{
    Names, crates, difference, of_json,
    rustdoc::{self, NoJson},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::OnceLock,
};

static JSON: OnceLock<Result<PathBuf, NoJson>> = OnceLock::new();

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tests = crates().into_iter().map(|folder| Trial::test(name(&folder), move || check(&folder)));
    let conclusion = libtest_mimic::run(&arguments, tests.collect());
    if !arguments.list {
        print_table();
        if let Some(Err(NoJson::OtherToolchain(why))) = JSON.get() {
            println!("!!!\n!!! THE PUBLIC API WAS NOT COMPARED WITH ITS TEXTS: {why}\n!!!");
        }
    }
    conclusion.exit_code()
}

fn check(folder: &Path) -> Result<(), Failed> {
    let committed = folder.join("api.txt");
    let json = match JSON.get_or_init(|| rustdoc::json(env!("CARGO_BIN_EXE_unstable-rustdoc"))) {
        Ok(docs) => docs.join(name(folder).replace('-', "_")).with_extension("json"),
        Err(NoJson::OtherToolchain(_)) => return has_names(&committed),
        Err(NoJson::Failed(why)) => return Err(why.into()),
    };
    let now = of_json(&json)?;
    if std::env::var_os("UPDATE_API").is_some() {
        fs::write(&committed, now)?;
        return has_names(&committed);
    }
    let changed = difference(&fs::read_to_string(&committed).unwrap_or_default(), &now);
    if changed.is_empty() {
        return has_names(&committed);
    }
    let update =
        "If the change is intended, run `UPDATE_API=1 cargo test -p lock-public-api`, and commit the text";
    Err(format!("{} differs from the public API:\n{changed}{update}.", committed.display()).into())
}

fn has_names(committed: &Path) -> Result<(), Failed> {
    let text = fs::read_to_string(committed).map_err(|error| format!("{}: {error}", committed.display()))?;
    if Names::of(&text).reachable == 0 {
        return Err(format!("{} has no name", committed.display()).into());
    }
    Ok(())
}

fn print_table() {
    println!("{:<14} {:>11} {:>9} {:>6}", "public names", "at the root", "reachable", "lines");
    for folder in crates() {
        let text = fs::read_to_string(folder.join("api.txt")).unwrap_or_default();
        let Names { root, reachable } = Names::of(&text);
        println!("{:<14} {root:>11} {reachable:>9} {:>6}", name(&folder), text.lines().count());
    }
    println!();
}

fn name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
