//! A plan out of TOML, with messages that say where it is wrong, what is allowed and what to do.
//!
//! The text is read twice: as a [`Plan`], whose fields say what they take, and as a tree with the
//! place of every key, by which [`check`](super::check)'s problems find their line. Changes by the
//! command line (`--set stage.hold.hold=10s`) are checked like the file itself. Parameters are put
//! in before.

mod parameters;

use super::check::{self, KeyStep, PlanProblem};
use lab::plan::Plan;
use serde::Deserialize;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

/// Bytes of a plan, at most: a file beyond is not one.
pub const PLAN_BYTES_MAX: usize = 1 << 20;

/// Reads and checks a plan. `name` is the file's, for messages; `sets` are `KEY=VALUE` texts of the
/// command line, with KEY as messages write it: `stage.NAME.hold`, `group.*.keep_alive`,
/// `target.pid`, `seed`.
pub fn read(name: &str, text: &str, sets: &[String]) -> Result<Plan, String> {
    let plan = parse(name, text, sets)?;
    check::check(&plan).map_err(|problem| placed(name, text, sets, &problem))?;
    Ok(plan)
}

/// Reads a plan without checking it: what the command line adds later may make it whole.
pub fn parse(name: &str, text: &str, sets: &[String]) -> Result<Plan, String> {
    if text.len() > PLAN_BYTES_MAX {
        return Err(format!(
            "{name}: {} bytes; a plan can have at most {PLAN_BYTES_MAX}. Is it the right file?",
            text.len()
        ));
    }
    let filled = parameters::fill(text, sets).map_err(|why| format!("{name}: {why}"))?;
    let (text, sets) = (filled.text.as_str(), &filled.sets);
    let plan: Plan = toml::from_str(text).map_err(|error| misread(name, text, &error))?;
    if sets.is_empty() {
        return Ok(Plan { parameters: filled.parameters, ..plan });
    }
    let mut tree: Table = toml::from_str(text).map_err(|error| misread(name, text, &error))?;
    let mut changed = plan;
    for set in sets {
        apply(&mut tree, set).map_err(|why| format!("--set {set}: {why}"))?;
        let read = Plan::deserialize(Value::Table(tree.clone()));
        changed = read.map_err(|error| format!("--set {set}: {}", first_line(error.message())))?;
    }
    Ok(Plan { parameters: filled.parameters, ..changed })
}

/// A problem of a plan, with its place in the file or the word of the command line that made it.
fn placed(name: &str, text: &str, sets: &[String], problem: &PlanProblem) -> String {
    let key = problem.key();
    let by_set = sets.iter().find(|set| {
        set.split_once('=').is_some_and(|(path, _)| {
            let words: Vec<_> = path.split('.').collect();
            let keys: Vec<_> = key.split('.').collect();
            words.len() <= keys.len() && words.iter().zip(&keys).all(|(w, k)| *w == "*" || w == k)
        })
    });
    match (by_set, line_of(text, &problem.place)) {
        (Some(set), _) => format!("--set {set}: {problem}"),
        (None, Some(line)) => format!("{name}:{line}: {problem}"),
        (None, None) => format!("{name}: {problem}"),
    }
}

/// The line on which a key stands; where it does not, the line of what it should stand in.
fn line_of(text: &str, place: &[KeyStep]) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let mut at: Option<std::ops::Range<usize>> = None;
    let mut table = Some(root.get_ref());
    let mut array: Option<&[Spanned<DeValue<'_>>]> = None;
    for step in place {
        let found = match step {
            KeyStep::Key(key) => table.and_then(|table| {
                let (key, value) = table.get_key_value(key.as_str())?;
                Some((key.span(), value))
            }),
            KeyStep::At(number, _) => {
                let value = array.and_then(|array| array.get(*number));
                value.map(|value| (value.span(), value))
            }
        };
        let Some((span, value)) = found else { break };
        at = Some(span);
        table = value.get_ref().as_table();
        array = value.get_ref().as_array().map(|array| &array[..]);
    }
    at.map(|span| line_at(text, span.start))
}

fn line_at(text: &str, byte: usize) -> usize {
    1 + text.as_bytes().iter().take(byte).filter(|b| **b == b'\n').count()
}

/// Error of `toml`, with file, line and the line's text.
fn misread(name: &str, text: &str, error: &toml::de::Error) -> String {
    let message = first_line(error.message());
    let hint = "see docs/laboratory.md, or an example by `holdline load plan stability`";
    match error.span() {
        Some(span) => {
            let line = line_at(text, span.start);
            let words = text.lines().nth(line - 1).unwrap_or_default().trim();
            let words: String = words.chars().take(80).collect();
            format!("{name}:{line}: {words}: {message}; {hint}")
        }
        None => format!("{name}: {message}; {hint}"),
    }
}

fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or_default()
}

/// Puts one `KEY=VALUE` into the tree.
fn apply(tree: &mut Table, set: &str) -> Result<(), String> {
    let shape = "write KEY=VALUE, e.g. stage.hold.hold=10s, group.*.keep_alive=30s or target.pid=7";
    let (path, value) = set.split_once('=').ok_or(shape)?;
    let words: Vec<&str> = path.trim().split('.').collect();
    let value = value_of(value.trim());
    match words.as_slice() {
        [list @ ("group" | "stage"), name, key @ ..] if !key.is_empty() => {
            let known = tree.get_mut(*list).and_then(Value::as_array_mut);
            let known = known.ok_or_else(|| format!("the plan has no {list}"))?;
            let named =
                |entry: &Value| entry.get("name").and_then(Value::as_str).map(str::to_owned);
            let names: Vec<String> = known.iter().filter_map(named).collect();
            let mut met = false;
            for entry in known.iter_mut() {
                if *name == "*" || named(entry).as_deref() == Some(name) {
                    met = true;
                    put(entry, key, &value)?;
                }
            }
            let all = names.join(", ");
            met.then_some(()).ok_or_else(|| format!("no {list} `{name}`; use one of {all}, or *"))
        }
        key if !key.iter().any(|word| word.is_empty()) => {
            let mut whole = Value::Table(std::mem::take(tree));
            let done = put(&mut whole, key, &value);
            if let Value::Table(whole) = whole {
                *tree = whole;
            }
            done
        }
        _ => Err(shape.to_owned()),
    }
}

fn put(into: &mut Value, key: &[&str], value: &Value) -> Result<(), String> {
    let (first, rest) = key.split_first().ok_or("the key is empty")?;
    let table = into.as_table_mut().ok_or_else(|| format!("`{first}` is not in a table"))?;
    if rest.is_empty() {
        table.insert((*first).to_owned(), value.clone());
        return Ok(());
    }
    let inner = table.entry(*first).or_insert_with(|| Value::Table(Table::new()));
    put(inner, rest, value)
}

/// A value as TOML writes it, or, where it is none, a text: `10s`, `mqtt://…`.
fn value_of(text: &str) -> Value {
    let read = toml::from_str::<Table>(&format!("value = {text}"));
    let value = read.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests;
