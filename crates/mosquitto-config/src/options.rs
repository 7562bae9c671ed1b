//! Every option of mosquitto.conf(5), of 2.0 and of 2.1, and what becomes of it.
//!
//! The one table: a translation acts by it and the documentation is printed from it. An option
//! that is not in it is an error. Invariant: a value is what mosquitto takes before anything is
//! done with it.

mod bridges;
mod general;
mod listeners;

use super::draft::Draft;
use super::lines::Line;
use super::{OptionFate, OptionNote};
use base::typo::nearest;

/// Scope of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scope {
    /// The whole broker.
    General,
    /// Everywhere, or with `per_listener_settings` one listener.
    Security,
    /// The listener above it.
    Listener,
    /// The bridge above it.
    Bridge,
}

/// Values of an option.
#[derive(Clone, Copy)]
pub(super) enum Takes {
    /// `true` or `false`, `1` or `0`.
    Flag,
    /// A whole number from here to there.
    Number(i64, i64),
    /// The rest of the line.
    Text,
    /// One of some words.
    Word(&'static [&'static str]),
}

/// A value as an option takes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arg<'a> {
    Flag(bool),
    Number(i64),
    Text(&'a str),
}

impl<'a> Arg<'a> {
    fn flag(self) -> bool {
        self == Arg::Flag(true)
    }

    fn number(self) -> u64 {
        match self {
            Arg::Number(number) => u64::try_from(number).unwrap_or(0),
            _ => 0,
        }
    }

    fn text(self) -> &'a str {
        match self {
            Arg::Text(text) => text,
            _ => "",
        }
    }
}

/// Result of an action.
pub(super) enum Told {
    /// The option is in the draft.
    Done,
    /// This value changes nothing.
    Ignored(String),
    /// This value cannot be had.
    Lost(String),
}

type Act = fn(&mut Draft, &Line, Arg<'_>) -> Result<Told, String>;

/// Handling of an option.
#[derive(Clone, Copy)]
pub(super) enum Plan {
    /// The option becomes these keys.
    Becomes(&'static str, Act),
    /// The option changes nothing, for this reason.
    Ignored(&'static str),
    /// With any value but these: not supported, do that instead.
    Lost(&'static [&'static str], &'static str),
    /// As `Lost`, and its listener is not opened: without the option there would be less
    /// protection.
    Closes(&'static [&'static str], &'static str),
    /// As `Lost`, and nothing is translated.
    Refused(&'static [&'static str], &'static str),
}

/// One option.
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) scope: Scope,
    pub(super) takes: Takes,
    pub(super) plan: Plan,
}

const fn known(name: &'static str, scope: Scope, takes: Takes, plan: Plan) -> Known {
    Known { name, scope, takes, plan }
}

/// All options, those of a scope together.
pub(super) fn all() -> impl Iterator<Item = &'static Known> {
    general::OPTIONS.iter().chain(listeners::OPTIONS).chain(bridges::OPTIONS)
}

/// Prefixes of options whose names go on as a plug-in likes.
const PREFIXES: [&str; 2] = ["plugin_opt_", "auth_opt_"];

fn find(name: &str) -> Option<&'static Known> {
    let prefix = PREFIXES.into_iter().find(|prefix| name.starts_with(prefix));
    let name = prefix.map_or(name.to_owned(), |prefix| format!("{prefix}*"));
    all().find(|known| known.name == name)
}

/// Acts on a line. In words, what is wrong with it.
pub(super) fn act(draft: &mut Draft, line: &Line) -> Result<Option<OptionNote>, String> {
    draft.turn_to(line.file);
    let known = find(&line.option).ok_or_else(|| unknown(&line.option))?;
    let arg = value(known.takes, &line.value)?;
    if known.scope == Scope::Bridge && line.option != "connection" {
        draft.crossing()?;
    }
    let first = line.value.split(' ').next().unwrap_or_default();
    let is_same = |same: &[&str]| same.contains(&first);
    let so = "this is the behaviour here";
    let (fate, words) = match known.plan {
        Plan::Becomes(keys, act) => match act(draft, line, arg)? {
            Told::Done => (OptionFate::Becomes, keys.to_owned()),
            Told::Ignored(why) => (OptionFate::Ignored, why),
            Told::Lost(instead) => (OptionFate::Lost, instead),
        },
        Plan::Ignored(why) => (OptionFate::Ignored, why.into()),
        Plan::Lost(same, _) | Plan::Closes(same, _) | Plan::Refused(same, _) if is_same(same) => {
            (OptionFate::Ignored, so.into())
        }
        Plan::Lost(_, instead) => (OptionFate::Lost, instead.into()),
        Plan::Closes(_, instead) => {
            draft.here(line).close(&format!("{}: {instead}", line.option), line);
            (OptionFate::Lost, instead.into())
        }
        Plan::Refused(_, instead) => return Err(format!("is not supported; {instead}")),
    };
    Ok(Some(OptionNote { place: line.place.to_string(), option: line.option.clone(), fate, words }))
}

fn value(takes: Takes, text: &str) -> Result<Arg<'_>, String> {
    if text.is_empty() {
        return Err("has no value".into());
    }
    let first = text.split(' ').next().unwrap_or_default();
    match takes {
        Takes::Flag => match first {
            "true" | "1" => Ok(Arg::Flag(true)),
            "false" | "0" => Ok(Arg::Flag(false)),
            _ => Err("must be true or false".into()),
        },
        Takes::Number(min, max) => match first.parse() {
            Ok(number) if (min..=max).contains(&number) => Ok(Arg::Number(number)),
            _ => Err(format!("must be a whole number from {min} to {max}")),
        },
        Takes::Text => Ok(Arg::Text(text)),
        Takes::Word(words) => match words.contains(&first) {
            true => Ok(Arg::Text(first)),
            false => Err(format!("must be one of {}", words.join(", "))),
        },
    }
}

fn unknown(name: &str) -> String {
    match nearest(name, all().map(|known| known.name)) {
        Some(near) => format!("is not an option of mosquitto; did you mean {near}?"),
        None => "is not an option of mosquitto".into(),
    }
}
