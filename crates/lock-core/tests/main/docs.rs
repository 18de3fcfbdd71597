//! The wording of doc comments in all packages, and the examples of the types that users meet first.

use crate::architecture::{packages, root, sources};

/// A sentence that begins with one of these words reads like a question or hides its subject.
const QUESTION_WORDS: [&str; 8] = ["What", "Who", "Whoever", "Whose", "Whether", "How", "Which", "Why"];

/// The types of which each public method has an example.
const WITH_EXAMPLES: [&str; 8] =
    ["Lock", "LockGuard", "Hold", "LockFactory", "LockSet", "Election", "LockLayer", "Scheduler"];

/// Returns the text of a doc comment.
fn doc(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start)
}

/// Returns the sentences that begin on this line of a doc comment.
fn sentences(doc: &str) -> impl Iterator<Item = &str> {
    let ends = [". ", "! ", "? ", ": ", "| ", "- "];
    let later =
        ends.into_iter().flat_map(move |end| doc.match_indices(end).map(|(at, end)| &doc[at + end.len()..]));
    std::iter::once(doc).chain(later)
}

/// Returns the question word with which a sentence of this line begins. Real questions may begin with one.
fn question_word(doc: &str) -> Option<&str> {
    sentences(doc).find_map(|sentence| {
        let word = sentence.split(|c: char| !c.is_alphabetic()).next()?;
        (QUESTION_WORDS.contains(&word) && !sentence.contains('?')).then_some(word)
    })
}

#[test]
fn sentences_do_not_begin_with_question_words() {
    let packages = packages(&["crates", "verify"]);
    let folders =
        packages.iter().flat_map(|package| ["src", "tests", "benches"].map(|folder| package.join(folder)));
    let folders = folders.filter(|folder| folder.is_dir()).chain([root().join("examples")]);
    let files: Vec<_> = folders.flat_map(|folder| sources(&folder)).collect();
    assert!(files.len() > 500, "{} files", files.len());
    let mut found = Vec::new();
    for (path, text) in &files {
        for (number, line) in text.lines().enumerate() {
            if let Some(word) = doc(line).and_then(question_word) {
                found.push(format!("{}:{}: `{word}`: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "begin these sentences with a verb or a noun:\n{}", found.join("\n"));
}

#[test]
fn question_words_are_found() {
    for line in ["/// What is left.", "    //! Ends. Whether it is held.", "//! | file | How it works |"] {
        assert!(doc(line).is_some_and(|doc| question_word(doc).is_some()), "{line}");
    }
    let fine = [
        "/// Returns what is left.",
        "//! How do I elect a leader?",
        "// What is no doc comment.",
        "/// Whatsoever.",
    ];
    for line in fine {
        assert_eq!(doc(line).and_then(question_word), None, "{line}");
    }
}

/// Returns the type of an `impl` block that implements no trait.
fn subject(line: &str) -> Option<&str> {
    let block = line.strip_prefix("impl").filter(|_| !line.contains(" for "))?;
    let block = if block.starts_with('<') { block.split_once('>')?.1 } else { block };
    block.trim_start().split(|c: char| !c.is_alphanumeric()).next()
}

fn public_method(line: &str) -> Option<&str> {
    let mut rest = line.strip_prefix("    pub ")?;
    for qualifier in ["const ", "async "] {
        rest = rest.strip_prefix(qualifier).unwrap_or(rest);
    }
    rest.strip_prefix("fn ")?.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// Returns the documented public methods of [`WITH_EXAMPLES`], and for each whether its doc comment has an example.
fn methods(text: &str) -> Vec<(String, bool)> {
    let (mut of, mut has_example, mut is_hidden, mut found) = (None, false, false, Vec::new());
    for line in text.lines() {
        if line.starts_with("impl") || line.starts_with('}') {
            of = subject(line).filter(|name| WITH_EXAMPLES.contains(name));
        }
        if let Some(doc) = doc(line) {
            has_example |= doc.starts_with("```");
        } else if line.trim_start().starts_with("#[") {
            is_hidden |= line.contains("doc(hidden)");
        } else {
            if let (Some(of), Some(method), false) = (of, public_method(line), is_hidden) {
                found.push((format!("{of}::{method}"), has_example));
            }
            (has_example, is_hidden) = (false, false);
        }
    }
    found
}

#[test]
fn public_methods_have_examples() {
    let folders = packages(&["crates"]).into_iter().map(|package| package.join("src"));
    let files = folders.flat_map(|folder| sources(&folder));
    let methods: Vec<_> = files.flat_map(|(_, text)| methods(&text)).collect();
    assert!(methods.len() > 100, "{} methods", methods.len());
    let without: Vec<_> = methods.iter().filter(|(_, has)| !has).map(|(name, _)| name).collect();
    assert!(without.is_empty(), "give these methods a short example: {without:?}");
}

#[test]
fn methods_without_an_example_are_found() {
    let text = "impl<K> LockLayer<K, Cancel> {\n    /// Waits.\n    pub fn wait(self) -> Self {\n    }\n}\n\
                impl Drop for Lock {\n    pub fn no_method_of_its_own() {}\n}\n\
                impl Lock {\n    /// Locks.\n    ///\n    /// ```\n    /// ```\n    #[must_use]\n    \
                pub async fn lock(&self) {\n    }\n    #[doc(hidden)]\n    pub fn hidden(&self) {}\n}\n";
    assert_eq!(methods(text), [("LockLayer::wait".to_owned(), false), ("Lock::lock".to_owned(), true)]);
}
