//! The strategy of a server, which can change while orders are in flight.

use crate::strategy::Strategy;
use std::{
    ops::Deref,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// The strategy of one order, from its admission to its end.
#[derive(Debug, Clone)]
pub(super) struct StrategyInUse(Arc<Strategy>);

impl Deref for StrategyInUse {
    type Target = Strategy;

    fn deref(&self) -> &Strategy {
        &self.0
    }
}

/// The current strategy, and strategies still used by orders in flight.
#[derive(Debug)]
pub(super) struct CurrentStrategy(Mutex<Strategies>);

#[derive(Debug)]
struct Strategies {
    current: Arc<Strategy>,
    earlier: Vec<Weak<Strategy>>,
}

impl CurrentStrategy {
    pub(super) fn new(strategy: Strategy) -> Self {
        Self(Mutex::new(Strategies { current: Arc::new(strategy), earlier: Vec::new() }))
    }

    /// Returns the current strategy for an order. The order counts as in flight until the value is
    /// dropped.
    pub(super) fn begin(&self) -> StrategyInUse {
        StrategyInUse(self.with(|strategies| Arc::clone(&strategies.current)))
    }

    pub(super) fn get(&self) -> Strategy {
        self.with(|strategies| *strategies.current)
    }

    pub(super) fn set(&self, strategy: Strategy) {
        self.with(|strategies| {
            let earlier = std::mem::replace(&mut strategies.current, Arc::new(strategy));
            strategies.earlier.push(Arc::downgrade(&earlier));
        });
    }

    /// Returns `true` while orders from before the latest change are in flight.
    pub(super) fn is_changing(&self) -> bool {
        self.with(|strategies| {
            strategies.earlier.retain(|earlier| earlier.strong_count() > 0);
            !strategies.earlier.is_empty()
        })
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut Strategies) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_completes_when_the_earlier_orders_end() {
        let strategy = CurrentStrategy::new(Strategy::None);
        let order = strategy.begin();
        assert!(!strategy.is_changing());
        strategy.set(Strategy::Lock);
        strategy.set(Strategy::Fenced);
        let later = strategy.begin();
        assert_eq!((*order, *later, strategy.get()), (Strategy::None, Strategy::Fenced, Strategy::Fenced));
        assert!(strategy.is_changing());
        drop(order);
        assert!(!strategy.is_changing(), "the later order must use the current strategy");
    }
}
