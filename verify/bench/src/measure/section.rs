//! One cycle of a task, and the file in which a process passes its cycles to its parent.

use crate::Result;
use std::{fs, path::Path};

/// One cycle of a task. Times are readings of the monotonic clock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section {
    /// Number of the process, in the order of start. The file does not contain it.
    pub(crate) process: u64,
    pub(crate) task: u64,
    pub(crate) name: u64,
    /// Fencing token; 0 if the library has none.
    pub(crate) token: u64,
    /// Time before the acquire.
    pub(crate) asked: u64,
    /// Time after the acquire.
    pub(crate) enter: u64,
    /// Time before the release.
    pub(crate) leave: u64,
    /// Time after the release.
    pub(crate) done: u64,
}

const BYTES: usize = 7 * 8;

/// Writes the records of one process.
pub(crate) fn write(path: &Path, sections: &[Section]) -> Result<()> {
    let mut bytes = Vec::with_capacity(sections.len() * BYTES);
    for section in sections {
        let Section { process: _, task, name, token, asked, enter, leave, done } = *section;
        for field in [task, name, token, asked, enter, leave, done] {
            bytes.extend(field.to_le_bytes());
        }
    }
    Ok(fs::write(path, bytes)?)
}

/// Reads the records of one process.
pub(crate) fn read(path: &Path, process: u64) -> Result<Vec<Section>> {
    let bytes = fs::read(path)?;
    let (records, rest) = bytes.as_chunks::<BYTES>();
    if !rest.is_empty() {
        return Err(format!("{} ends in the middle of a record", path.display()).into());
    }
    let section = |record: &[u8; BYTES]| {
        let mut fields = record.as_chunks::<8>().0.iter().map(|field| u64::from_le_bytes(*field));
        let mut next = || fields.next().unwrap_or_default();
        let [task, name, token, asked, enter, leave, done] = std::array::from_fn(|_| next());
        Section { process, task, name, token, asked, enter, leave, done }
    };
    Ok(records.iter().map(section).collect())
}
