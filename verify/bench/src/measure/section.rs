//! One pass of a task through a lock, and the file in which a process hands its passes to the parent.

use crate::Result;
use std::{fs, path::Path};

/// One cycle of a task. Times are readings of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section {
    /// The process, in the order of start; not in the file.
    pub(crate) process: u64,
    pub(crate) task: u64,
    pub(crate) name: u64,
    /// The fencing token, or 0.
    pub(crate) token: u64,
    /// Before the acquire.
    pub(crate) asked: u64,
    /// After the acquire.
    pub(crate) enter: u64,
    /// Before the release.
    pub(crate) leave: u64,
    /// After the release.
    pub(crate) done: u64,
}

const BYTES: usize = 7 * 8;

/// Writes what one process recorded.
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

/// Reads what one process recorded.
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
