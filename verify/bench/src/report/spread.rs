//! The median and the range of a figure over the rounds.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Computes the spread of values; `None` if there are no values.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Self { median, min, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_between_the_middle_two() {
        assert_eq!(Spread::of([].into_iter()), None);
        assert_eq!(Spread::of([3.0, 1.0, 2.0].into_iter()), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        let even = Spread::of([4.0, 1.0, 2.0, 3.0].into_iter());
        assert_eq!(even, Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
    }
}
