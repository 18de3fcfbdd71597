//! Paths in readable form.

use crate::{act::Act, config::Config, drain::drain, message::Body, world::World};
use std::fmt::Write;

/// Describes the steps to a state that breaks a promise, followed by the steps of the run to the end if only that run
/// breaks it. Also returns the number of steps.
#[must_use]
pub fn tell(config: &Config, path: Vec<(World, Option<Act>)>) -> (usize, String) {
    let mut text = String::new();
    let mut steps = 0;
    let last = path.last().map(|(world, _)| world.clone());
    for (world, act) in path {
        if let Some(act) = act {
            steps += 1;
            let _ = writeln!(text, "  {:7.3} s  {}", world.time().as_secs_f64(), words(act));
        }
    }
    if let Some(world) = last
        && world.broken().is_none()
    {
        let _ = writeln!(text, "  the faults stop");
        let end = drain(config, &world, true);
        for (time, act) in &end.acts {
            let _ = writeln!(text, "  {:7.3} s  … {}", time.as_secs_f64(), words(*act));
        }
        let _ = writeln!(text, "  broken in the end: {:?}", end.broken.first());
    }
    (steps, text)
}

fn words(act: Act) -> String {
    let (what, message) = match act {
        Act::Execute(message) => ("the store executes", message),
        Act::Deliver(message) => ("delivered", message),
        Act::Lose(message) => ("LOST", message),
        Act::Delay(message) => ("SLOW", message),
        Act::Duplicate(message) => ("TWICE", message),
        other => return format!("{other:?}"),
    };
    let who = message.process;
    let slow = if message.slow { "slow " } else { "" };
    match message.body {
        Body::Request { ask, mute, .. } => {
            format!(
                "{what}: {slow}request of {who}: {ask:?}{}",
                if mute { ", its answer is lost" } else { "" }
            )
        }
        Body::Reply { ask, answer, .. } => format!("{what}: {slow}reply to {who}: {answer:?} to {ask:?}"),
        Body::Wake => format!("{what}: {slow}wake-up of {who}"),
    }
}
