//! A schedule in English.

use super::{Schedule, zone::Zone};

/// The maximum length of a description, in characters. The schedule's text is easier to read than a longer one.
const MAX_WORDS: usize = 60;

/// The workdays as croner lists them.
const WORKDAYS: &str = "Monday, Tuesday, Wednesday, Thursday, and Friday";

impl Schedule {
    /// Returns a description of the schedule in English, or the schedule's text if the description
    /// would exceed 60 characters without the zone.
    ///
    /// ```
    /// let nightly = lock_cron::Schedule::cron("0 2 * * MON-FRI")?.in_tz("Europe/Berlin")?;
    /// assert_eq!(nightly.describe(), "At 02:00, on Monday to Friday, Europe/Berlin");
    /// assert_eq!(lock_cron::Schedule::cron("@every 90s")?.describe(), "Every 1 minute 30 seconds");
    /// # Ok::<(), lock_cron::ScheduleError>(())
    /// ```
    #[must_use]
    pub fn describe(&self) -> String {
        let zone = self.times.zoned(&self.zone).map_or("UTC", Zone::name);
        let words = match self.times.describe() {
            Some(words) => {
                let words = words.trim_end_matches('.').replacen("At every", "Every", 1);
                words.replace(WORKDAYS, "Monday to Friday")
            }
            None => self.text.replacen("@at", "Once, at", 1),
        };
        let words = if words.chars().count() > MAX_WORDS { self.text.to_string() } else { words };
        if zone == "UTC" { words } else { format!("{words}, {zone}") }
    }
}
