//! The deadline of a hold, or how the hold ended. One atomic number, since each step of a request reads it.

use crate::{
    machine::{HoldEnd, LostReason},
    sync::atomic::{AtomicU64, Ordering},
    time::Moment,
};

/// The deadline in microseconds. Once the hold has ended, `u64::MAX` minus the place of the end in [`ENDS`].
pub(super) struct Validity(AtomicU64);

const ENDS: [HoldEnd; 6] = [
    HoldEnd::Released,
    HoldEnd::Lost(LostReason::Expired),
    HoldEnd::Lost(LostReason::Gone),
    HoldEnd::Lost(LostReason::MaxHold),
    HoldEnd::Lost(LostReason::Unclaimed),
    HoldEnd::Lost(LostReason::ShutDown),
];

/// The latest deadline that can be stored, about 585,000 years after the start of the clock.
const LAST: u64 = u64::MAX - ENDS.len() as u64;

impl Validity {
    pub(super) fn until(deadline: Moment) -> Self {
        Self(AtomicU64::new(of_deadline(deadline)))
    }

    /// Returns the deadline, or how the hold ended.
    pub(super) fn get(&self) -> Result<Moment, HoldEnd> {
        read(self.0.load(Ordering::Acquire))
    }

    /// Extends the deadline. Returns `false` if the hold has already ended.
    pub(super) fn extend(&self, to: Moment) -> bool {
        self.change(|deadline| Some(deadline.max(of_deadline(to))))
    }

    /// Ends the hold. Returns `false` if it has already ended.
    pub(super) fn end(&self, how: HoldEnd) -> bool {
        self.change(|_| Some(of_end(how)))
    }

    /// Ends the hold if its deadline is still this one. Returns `false` if it is not.
    pub(super) fn end_at(&self, deadline: Moment, how: HoldEnd) -> bool {
        self.change(|current| (current == of_deadline(deadline)).then(|| of_end(how)))
    }

    /// Changes the number of a hold that has not ended.
    fn change(&self, change: impl Fn(u64) -> Option<u64>) -> bool {
        let change = |current| if current <= LAST { change(current) } else { None };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok()
    }
}

fn read(number: u64) -> Result<Moment, HoldEnd> {
    let place = usize::try_from(u64::MAX - number).ok();
    match place.and_then(|place| ENDS.get(place)) {
        Some(how) => Err(*how),
        None => Ok(Moment::from_micros(number)),
    }
}

fn of_deadline(deadline: Moment) -> u64 {
    deadline.as_micros().min(LAST)
}

fn of_end(how: HoldEnd) -> u64 {
    let place = match how {
        HoldEnd::Released => 0,
        HoldEnd::Lost(LostReason::Expired) => 1,
        HoldEnd::Lost(LostReason::Gone) => 2,
        HoldEnd::Lost(LostReason::MaxHold) => 3,
        HoldEnd::Lost(LostReason::Unclaimed) => 4,
        HoldEnd::Lost(LostReason::ShutDown) => 5,
    };
    u64::MAX - place
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_end_is_stored() {
        for how in ENDS {
            let validity = Validity::until(Moment::START);
            assert!(validity.end(how));
            assert_eq!(validity.get(), Err(how));
        }
    }

    #[test]
    fn deadline_only_grows() {
        let (early, late) = (Moment::START, Moment::START + Duration::from_secs(1));
        let validity = Validity::until(early);
        assert!(validity.extend(late) && validity.extend(early));
        assert_eq!(validity.get(), Ok(late));
    }

    #[test]
    fn endless_deadline_is_no_end() {
        let validity = Validity::until(Moment::NEVER);
        assert_eq!(validity.get(), Ok(Moment::from_micros(LAST)));
        assert!(validity.extend(Moment::NEVER));
        assert!(validity.get().is_ok());
    }

    #[test]
    fn first_end_is_final() {
        let validity = Validity::until(Moment::START);
        assert!(validity.end(HoldEnd::Released));
        assert!(!validity.end(HoldEnd::Lost(LostReason::Gone)));
        assert!(!validity.extend(Moment::NEVER));
        assert_eq!(validity.get(), Err(HoldEnd::Released));
    }

    #[test]
    fn extended_hold_does_not_end_at_its_former_deadline() {
        let (before, after) = (Moment::START, Moment::START + Duration::from_secs(1));
        let (validity, expired) = (Validity::until(before), HoldEnd::Lost(LostReason::Expired));
        assert!(validity.extend(after));
        assert!(!validity.end_at(before, expired));
        assert!(validity.end_at(after, expired));
        assert_eq!(validity.get(), Err(expired));
    }
}
