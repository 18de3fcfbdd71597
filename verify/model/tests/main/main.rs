//! Searches, and the planted bugs that they must find.

mod correct;
mod known;
mod planted;
mod pools;
mod quorum;
mod support;
mod walks;
