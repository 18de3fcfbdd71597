//! The search, and the bugs that it must find.

mod correct;
mod known;
mod planted;
mod support;
mod walks;
