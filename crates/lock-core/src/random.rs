//! Where lease ids and jitter come from: the operating system, or, in a simulation, a seed.

use std::fmt;
#[cfg(feature = "__internal")]
use std::sync::Arc;

#[derive(Clone, Default)]
pub(crate) enum Random {
    #[default]
    System,
    #[cfg(feature = "__internal")]
    Given(Arc<dyn Fn() -> u64 + Send + Sync>),
}

impl Random {
    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::System => getrandom::u64().expect("the operating system gives random numbers"),
            #[cfg(feature = "__internal")]
            Self::Given(number) => number(),
        }
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}
