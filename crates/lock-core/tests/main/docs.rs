//! The wording of doc comments in all packages.

use crate::architecture::{packages, root, sources};

/// A sentence that begins with one of these words reads like a question or hides its subject.
const QUESTION_WORDS: [&str; 8] = ["What", "Who", "Whoever", "Whose", "Whether", "How", "Which", "Why"];

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
