//! The search, and the bugs that it must find.

mod correct;
mod known;
mod mutants;
mod support;
mod walks;
