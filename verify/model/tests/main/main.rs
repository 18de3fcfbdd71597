//! The search, and the bugs that it must find.

mod correct;
mod known;
mod planted;
mod quorum;
mod support;
mod walks;
