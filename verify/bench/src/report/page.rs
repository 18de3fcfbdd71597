//! A documentation page with a generated part.

use crate::Result;
use std::{
    fs,
    path::{Path, PathBuf},
};

const BEGIN: &str = "<!-- lock-bench: begin -->\n";
const END: &str = "<!-- lock-bench: end -->\n";

/// A page without the text between its markers.
#[derive(Debug)]
pub(crate) struct Page {
    path: PathBuf,
    before: String,
    after: String,
}

impl Page {
    /// Reads a page. Fails if it has no markers.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)?;
        let (before, after) = around(&text).ok_or_else(|| {
            format!("{} has no part between the lines {BEGIN:?} and {END:?}", path.display())
        })?;
        Ok(Self { path: path.to_owned(), before: before.to_owned(), after: after.to_owned() })
    }

    /// Writes the page, with this text between its markers.
    pub(crate) fn write(&self, text: &str) -> Result<()> {
        let Self { path, before, after } = self;
        Ok(fs::write(path, format!("{before}{BEGIN}\n{}\n\n{END}{after}", text.trim()))?)
    }
}

fn around(page: &str) -> Option<(&str, &str)> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some((before, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_between_the_markers_is_replaced() -> Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), format!("# Title\n\n{BEGIN}\nold\n\n{END}\nthe end\n"))?;
        for text in ["first", "second\n"] {
            Page::open(file.path())?.write(text)?;
            let expected = format!("# Title\n\n{BEGIN}\n{}\n\n{END}\nthe end\n", text.trim());
            assert_eq!(fs::read_to_string(file.path())?, expected);
        }
        Ok(())
    }

    #[test]
    fn page_of_this_repository_has_the_markers() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        Page::open(&page).expect("a place for the tables");
    }

    #[test]
    fn page_without_markers_is_refused() {
        assert_eq!(around("# Title\n"), None);
        assert_eq!(around(&format!("{END}{BEGIN}")), None, "in the wrong order");
    }
}
