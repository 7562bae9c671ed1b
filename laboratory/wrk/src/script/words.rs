//! Errors of Lua as one line with file and line number, and values as numbers.

use mlua::{Error, Function, Value};

/// An error in one line. Lua's own begin with `FILE:LINE:`; where one of ours does not, the place
/// is taken from the stack.
pub fn of(error: &Error) -> String {
    match error {
        Error::SyntaxError { message, .. } => message.clone(),
        Error::RuntimeError(message) => first(message, message),
        Error::CallbackError { traceback, cause } => first(&of(cause), traceback),
        other => other.to_string(),
    }
}

/// Whether a script wanted more memory than it may have.
pub fn is_memory(error: &Error) -> bool {
    match error {
        Error::MemoryError(_) => true,
        Error::CallbackError { cause, .. } => is_memory(cause),
        _ => false,
    }
}

/// A message without its stack, and in front of it the place, if it has none.
fn first(message: &str, stack: &str) -> String {
    let (text, own) = message.split_once("\nstack traceback:").unwrap_or((message, ""));
    let stack = if own.is_empty() { stack } else { own };
    let begins = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (file, number) = (parts.next()?, parts.next()?);
        let is_place =
            !file.is_empty() && !file.contains(['[', ' ']) && number.parse::<u32>().is_ok();
        is_place.then(|| format!("{file}:{number}: "))
    };
    if begins(text).is_some() {
        return text.to_owned();
    }
    let place =
        stack.lines().skip(usize::from(own.is_empty())).find_map(|line| begins(line.trim()));
    format!("{}{text}", place.unwrap_or_default())
}

/// Where a function begins.
pub fn place(function: &Function) -> String {
    let about = function.info();
    match (about.short_src, about.line_defined) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        _ => "script".to_owned(),
    }
}

/// A value as a number, as Lua itself would take it.
pub fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(whole) => Some(*whole as f64),
        Value::Number(number) => Some(*number),
        Value::String(text) => text.to_str().ok()?.trim().parse().ok(),
        _ => None,
    }
}
