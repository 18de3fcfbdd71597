//! Random patterns, most of which have runs near clock changes.

use super::{
    Spec, Window,
    days::{Day, Weekday},
    spec::Item,
};
use lock_cron::{DstPolicy, Fold, Gap};
use lock_testkit::Stream;

impl Spec {
    pub(crate) fn random(random: &mut Stream, window: &Window) -> Self {
        let walls = window.middle();
        let near = walls[pick(random, 2)];
        let mut spec = Self {
            seconds: if random.chance(0.2) { seconds(random) } else { Vec::new() },
            minutes: numbers(random, 0, 59, near.minute().into(), 0.06),
            hours: numbers(random, 0, 23, near.hour().into(), 0.2),
            days: list(random, 0.5, |random| day(random, near.day())),
            months: numbers(random, 1, 12, near.month().into(), 0.8),
            weekdays: list(random, 0.6, |random| weekday(random, near.weekday().to_sunday_zero_offset())),
            both_days: random.chance(0.2),
            years: Vec::new(),
        };
        if random.chance(0.3) {
            (spec.days, spec.weekdays) = (vec![Day::Plain(Item::Star)], vec![Weekday::Plain(Item::Star)]);
        }
        if spec.days.iter().any(|day| matches!(day, Day::LastWorkday)) {
            // Rejected next to `L`.
            spec.days.retain(|day| !matches!(day, Day::Last));
        }
        if spec.minutes.len() == 1 && spec.minutes[0].is_star() && random.chance(0.9) {
            spec.hours = vec![Item::Value(near.hour().into())];
        }
        if !spec.seconds.is_empty() && random.chance(0.5) {
            spec.years = numbers(random, 2010, 2035, near.year().into(), 0.4);
        }
        spec
    }
}

pub(crate) fn policy(random: &mut Stream) -> DstPolicy {
    DstPolicy {
        gap: [Gap::RunOnce, Gap::Skip, Gap::ShiftForward][pick(random, 3)],
        fold: [Fold::First, Fold::Last, Fold::Both][pick(random, 3)],
    }
}

fn pick(random: &mut Stream, choices: u64) -> usize {
    random.below(choices) as usize
}

fn between(random: &mut Stream, first: i64, last: i64) -> i64 {
    first + random.below((last - first + 1) as u64) as i64
}

fn seconds(random: &mut Stream) -> Vec<Item> {
    match random.below(3) {
        0 => vec![Item::StarStep(between(random, 15, 40))],
        1 => vec![Item::Value(between(random, 0, 59)), Item::Value(0)],
        _ => vec![Item::Value(between(random, 0, 59))],
    }
}

/// Returns one to three items; `star` is the probability that the field is a star.
fn numbers(random: &mut Stream, first: i64, last: i64, near: i64, star: f64) -> Vec<Item> {
    if random.chance(star) {
        return vec![Item::Star];
    }
    let count = 1 + random.below(6) / 4;
    (0..=count / 2).map(|_| number(random, first, last, near)).collect()
}

fn number(random: &mut Stream, first: i64, last: i64, near: i64) -> Item {
    let value = |random: &mut Stream| match random.chance(0.6) {
        true => (near + between(random, -2, 2)).clamp(first, last),
        false => between(random, first, last),
    };
    let (a, b) = (value(random), value(random));
    let (from, to) = (a.min(b), a.max(b));
    match random.below(12) {
        0 | 1 => Item::Range(from, to),
        2 if to - from >= 2 => Item::RangeStep(from, to, between(random, 1, to - from)),
        3 if last - from >= 2 => Item::ValueStep(from, between(random, 1, last - from)),
        4 => Item::StarStep(between(random, 2, last - first)),
        _ => Item::Value(a),
    }
}

fn list<T: From<Item>>(random: &mut Stream, star: f64, item: impl Fn(&mut Stream) -> T) -> Vec<T> {
    if random.chance(star) {
        return vec![Item::Star.into()];
    }
    (0..=random.below(2)).map(|_| item(random)).collect()
}

fn day(random: &mut Stream, near: i8) -> Day {
    match random.below(6) {
        0 => [Day::Last, Day::LastWorkday][pick(random, 2)].clone(),
        1 => Day::NearestWorkday((near + between(random, -2, 2) as i8).clamp(1, 31)),
        _ => number(random, 1, 31, near.into()).into(),
    }
}

fn weekday(random: &mut Stream, near: i8) -> Weekday {
    let near = if random.chance(0.7) { near } else { between(random, 0, 6) as i8 };
    match random.below(6) {
        0 => Weekday::Nth(near, between(random, 1, 5) as i8),
        1 => Weekday::LastOf(near),
        2 => Weekday::Named(near),
        _ => match number(random, 0, 7, near.into()) {
            // Rejected: the first step already leaves the week.
            Item::ValueStep(from, step) if from + step > 6 => Item::Value(from).into(),
            item => item.into(),
        },
    }
}

impl From<Item> for Day {
    fn from(item: Item) -> Self {
        Self::Plain(item)
    }
}

impl From<Item> for Weekday {
    fn from(item: Item) -> Self {
        Self::Plain(item)
    }
}
