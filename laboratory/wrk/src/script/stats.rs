//! Argument of `done`: sums, and two distributions that can be read.

use super::proxies::proxy;
use lab::timing::Spectrum;
use mlua::{Lua, Table, Value};
use std::sync::Arc;

/// The sums of a test.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ScriptSummary {
    /// How long it took, microseconds.
    pub duration_us: u64,
    /// Requests answered.
    pub requests: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Counts of errors.
    pub errors: Errors,
}

/// wrk's five kinds of errors.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Errors {
    /// Calls that did not come through.
    pub connect: u64,
    /// Connections that ended while something was to be read from them.
    pub read: u64,
    /// Connections that ended while something was to be written to them.
    pub write: u64,
    /// Answers that say no.
    pub status: u64,
    /// Answers that did not come in time.
    pub timeout: u64,
}

pub(super) fn arguments(
    lua: &Lua,
    summary: &ScriptSummary,
    latency: Spectrum,
    requests: Spectrum,
) -> mlua::Result<(Table, Value, Value)> {
    let table = lua.create_table()?;
    let ScriptSummary { duration_us, requests: answered, bytes, errors } = *summary;
    for (name, value) in [("duration", duration_us), ("requests", answered), ("bytes", bytes)] {
        table.set(name, value)?;
    }
    let Errors { connect, read, write, status, timeout } = errors;
    let named = [
        ("connect", connect),
        ("read", read),
        ("write", write),
        ("status", status),
        ("timeout", timeout),
    ];
    table.set("errors", lua.create_table_from(named)?)?;
    Ok((table, held(lua, latency)?, held(lua, requests)?))
}

/// The standard deviation of a sample, as wrk has it.
pub fn stdev(of: &Spectrum) -> f64 {
    let count = of.count() as f64;
    if count < 2.0 { 0.0 } else { of.stdev() * (count / (count - 1.0)).sqrt() }
}

/// A distribution, as scripts hold one: `min`, `max`, `mean`, `stdev`, `percentile`, its values by
/// number, and how many different values it has.
fn held(lua: &Lua, of: Spectrum) -> mlua::Result<Value> {
    let of = Arc::new(of);
    let all = of.clone();
    let percentile = lua.create_function(move |_, (_, percent): (Value, f64)| {
        Ok(all.at(percent.clamp(0.0, 100.0)) as f64)
    })?;
    let all = of.clone();
    let index = lua.create_function(move |_, (_, name): (Value, String)| {
        Ok(match name.as_str() {
            "min" => Value::Number(all.min() as f64),
            "max" => Value::Number(all.max() as f64),
            "mean" => Value::Number(all.mean()),
            "stdev" => Value::Number(stdev(&all)),
            "percentile" => Value::Function(percentile.clone()),
            _ => Value::Nil,
        })
    })?;
    let all = of.clone();
    let len = lua.create_function(move |_, _: Value| Ok(all.iter().count()))?;
    // The values that occurred are numbered from 1; each comes with how often it occurred.
    let call = lua.create_function(move |_, (_, at): (Value, Value)| {
        let at = super::words::number(&at).unwrap_or(0.0);
        let found = (at >= 1.0).then(|| of.iter().nth(at as usize - 1)).flatten();
        let (value, count) = found.unwrap_or((0, 0));
        Ok((value as f64, count as f64))
    })?;
    proxy(lua, vec![("__index", index), ("__len", len), ("__call", call)])
}
