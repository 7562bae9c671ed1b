//! Replies to the values they stand for. A reply of another shape is nonsense, not a panic.

use model::ports::presence::directory::DirectoryError;
use redis::{ServerError, Value};

/// The words of an error.
pub(crate) fn refusal(error: &ServerError) -> DirectoryError {
    DirectoryError::Refused(match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_string(),
    })
}

/// Anything but an error.
pub(crate) fn done(value: Value) -> Result<Value, DirectoryError> {
    match value {
        Value::ServerError(error) => Err(refusal(&error)),
        value => Ok(value),
    }
}

/// A number that is not negative.
pub(crate) fn number(value: Value) -> Result<u64, DirectoryError> {
    match done(value)? {
        Value::Int(number) => u64::try_from(number).map_err(|_| strange("a number", &number)),
        other => Err(strange("a number", &other)),
    }
}

/// Bytes, or none.
pub(crate) fn bytes(value: Value) -> Result<Option<Vec<u8>>, DirectoryError> {
    match done(value)? {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes)),
        other => Err(strange("a text", &other)),
    }
}

/// A text; what is no UTF-8 in it is replaced.
pub(crate) fn text(value: Value) -> Result<String, DirectoryError> {
    let bytes = bytes(value)?.ok_or_else(|| strange("a text", &Value::Nil))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A list.
pub(crate) fn list(value: Value) -> Result<Vec<Value>, DirectoryError> {
    match done(value)? {
        Value::Array(values) => Ok(values),
        other => Err(strange("a list", &other)),
    }
}

/// A list of pairs, as Redis sends hashes.
pub(crate) fn pairs(value: Value) -> Result<Vec<(Value, Value)>, DirectoryError> {
    let mut values = list(value)?.into_iter();
    let mut pairs = Vec::with_capacity(values.len() / 2);
    while let Some(first) = values.next() {
        let second = values.next().ok_or_else(|| DirectoryError::Nonsense("half a pair".into()))?;
        pairs.push((first, second));
    }
    Ok(pairs)
}

/// The value of a line `name:value` of INFO; empty where there is none.
pub(crate) fn line<'a>(text: &'a str, name: &str) -> &'a str {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.unwrap_or("").trim()
}

/// The error for a reply of another shape: what was expected, and the first 80 characters of what
/// came.
fn strange(expected: &str, came: &dyn std::fmt::Debug) -> DirectoryError {
    let came: String = format!("{came:?}").chars().take(80).collect();
    DirectoryError::Nonsense(format!("expected {expected}, got {came}"))
}
