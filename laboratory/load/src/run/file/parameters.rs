//! Parameters of a plan: values with names, put in where the names stand.
//!
//! The replacement works on the text, line by line, so that later errors still name the right
//! place. A name alone in quotes (`"$Loop"`) becomes the value as TOML writes it; within a longer
//! text (`"$Prefix%i"`) it becomes its letters. Text that looks like a name and is none stays:
//! topics may begin with `$`.

use lab::plan::Parameter;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Parameters of a plan, at most.
const PARAMETERS_MAX: usize = 64;
/// Letters of a name, at most.
const NAME_MAX: usize = 64;

/// A plan's text without names, its parameters, and what of `sets` is about something else.
pub(super) struct Filled {
    pub text: String,
    pub parameters: BTreeMap<String, Parameter>,
    pub sets: Vec<String>,
}

/// Puts the values in. A text that cannot be read has no parameters: its error is reported later.
pub(super) fn fill(text: &str, sets: &[String]) -> Result<Filled, String> {
    let tree = text.parse::<Table>().unwrap_or_default();
    let mut parameters = BTreeMap::new();
    let table = tree.get("parameters").and_then(Value::as_table);
    for (name, value) in table.into_iter().flatten() {
        parameters.insert(name.clone(), parameter(name, value)?);
    }
    if parameters.len() > PARAMETERS_MAX {
        return Err(format!(
            "parameters: at most {PARAMETERS_MAX}; the plan has {}",
            parameters.len()
        ));
    }
    let mut others = Vec::new();
    for set in sets {
        let (key, value) = set.split_once('=').unwrap_or((set, ""));
        let name = key.trim().strip_prefix("parameters.").unwrap_or(key.trim());
        match parameters.get_mut(name) {
            Some(known) => {
                let value = super::value_of(value.trim());
                *known = parameter(name, &value).map_err(|why| format!("--set {set}: {why}"))?;
            }
            None => others.push(set.clone()),
        }
    }
    let mut filled = text.to_owned();
    // The longest first: a name may be the beginning of another.
    let mut names: Vec<&String> = parameters.keys().collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    for name in names {
        let (alone, within) = written(&parameters[name]);
        filled = filled.replace(&format!("\"${name}\""), &alone);
        filled = filled.replace(&format!("${name}"), &within);
    }
    Ok(Filled { text: filled, parameters, sets: others })
}

fn parameter(name: &str, value: &Value) -> Result<Parameter, String> {
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name || name.is_empty() || name.len() > NAME_MAX {
        return Err(format!(
            "parameters.{name}: a name must have 1 to {NAME_MAX} letters, digits and `_`"
        ));
    }
    match value {
        Value::Integer(whole) => Ok(Parameter::Whole(*whole)),
        Value::Float(number) => Ok(Parameter::Number(*number)),
        Value::String(text) if !text.contains(['"', '\\', '\n', '\r']) => {
            Ok(Parameter::Text(text.clone()))
        }
        other => Err(format!(
            "parameters.{name} = {other}: expected a number, or a text on one line without quotes \
             and `\\`"
        )),
    }
}

/// A value as TOML writes it, and within a text.
fn written(parameter: &Parameter) -> (String, String) {
    match parameter {
        Parameter::Whole(whole) => (whole.to_string(), whole.to_string()),
        Parameter::Number(number) => (format!("{number:?}"), number.to_string()),
        Parameter::Text(text) => (format!("\"{text}\""), text.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[parameters]\nCount = 7\nCountMax = 9\nPrefix = \"u_\"\nShare = 0.5\n\
                        [rest]\na = \"$Count\"\nb = \"$CountMax\"\nc = \"$Prefix%i\"\n\
                        d = \"x < $Share\"\ne = \"$share/$SYS\"\n";

    #[test]
    fn a_name_alone_is_its_value_and_within_a_text_its_letters() {
        let filled = fill(TEXT, &["Count=8".to_owned(), "seed=1".to_owned()]).expect("good");
        let lines: Vec<&str> = filled.text.lines().skip(6).collect();
        let right = ["a = 8", "b = 9", "c = \"u_%i\"", "d = \"x < 0.5\"", "e = \"$share/$SYS\""];
        assert_eq!(lines, right);
        assert_eq!(filled.text.lines().count(), TEXT.lines().count());
        assert_eq!(filled.parameters["Count"], Parameter::Whole(8));
        assert_eq!(filled.sets, ["seed=1"]);
        let set = fill(TEXT, &["parameters.Prefix=v".to_owned()]).expect("good");
        assert!(set.sets.is_empty() && set.text.contains("c = \"v%i\""));
    }

    #[test]
    fn what_is_no_value_is_told() {
        for wrong in ["A = true", "A = \"\\\"\"", "\"a b\" = 1", "A = [1]"] {
            let told = fill(&format!("[parameters]\n{wrong}\n"), &[]).err();
            assert!(told.as_ref().is_some_and(|why| why.contains("parameters.")), "{told:?}");
        }
        assert!(fill(TEXT, &["Count=[1]".to_owned()]).is_err());
        assert!(fill("no plan", &[]).is_ok_and(|filled| filled.text == "no plan"));
    }
}
