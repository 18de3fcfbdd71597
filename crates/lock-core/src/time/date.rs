//! The conversion of a number of days to a date.

/// Returns the year, the month and the day of the proleptic Gregorian calendar, `days` after 1 January 1970.
///
/// Source: Howard Hinnant, *chrono-Compatible Low-Level Date Algorithms*, `civil_from_days`.
pub(super) const fn date(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that a leap day ends its year. Each 400 years have the same number of days.
    let since = days + 719_468; // 1 March of the year 0
    let (era, day_of_era) = (since / 146_097, since % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = 400 * era + year_of_era;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn each_day_follows_the_previous_one() {
        let is_leap =
            |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..200_000 {
            assert_eq!(date(days), (year, month, day));
            let last = match month {
                2 => 28 + u64::from(is_leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (year, month, day) = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                _ if day == last => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
        assert!(year > 2500);
    }
}
