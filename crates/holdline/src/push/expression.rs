//! Expressions over tags as people write them: `berlin and not (muted or @staff)`.
//!
//! `not` binds closer than `and`, and `and` closer than `or`. `@NAME` is a saved segment. The
//! result is the JSON of the API, which checks names and limits.

use serde_json::{Value, json};

/// Parentheses that may be open at once.
const DEPTH_MAX: usize = 32;

/// Reads an expression.
pub fn expression(text: &str) -> Result<Value, String> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let mut words = Words { left: spaced.split_whitespace().collect(), depth: 0 };
    words.left.reverse();
    let told = words.any()?;
    match words.left.pop() {
        None => Ok(told),
        Some(word) => Err(format!("expected `and` or `or` before `{word}`")),
    }
}

/// An expression as people write it.
pub fn shown(tags: &Value) -> String {
    let all = |parts: &Value, sign: &str| {
        let parts = parts.as_array().into_iter().flatten();
        parts.map(inner).collect::<Vec<_>>().join(sign)
    };
    match tags.as_object().and_then(|fields| fields.iter().next()) {
        Some((sign, parts)) if sign == "and" => all(parts, " and "),
        Some((sign, parts)) if sign == "or" => all(parts, " or "),
        Some((sign, part)) if sign == "not" => format!("not {}", inner(part)),
        Some((_, name)) => format!("@{}", name.as_str().unwrap_or_default()),
        None => tags.as_str().unwrap_or_default().to_owned(),
    }
}

/// A part of an expression, in parentheses if it has several parts.
fn inner(tags: &Value) -> String {
    let is_several = ["and", "or"].iter().any(|sign| tags.get(sign).is_some());
    if is_several { format!("({})", shown(tags)) } else { shown(tags) }
}

/// The words that are left, the next one last.
struct Words<'a> {
    left: Vec<&'a str>,
    depth: usize,
}

impl Words<'_> {
    fn any(&mut self) -> Result<Value, String> {
        self.joined("or", Words::all)
    }

    fn all(&mut self) -> Result<Value, String> {
        self.joined("and", Words::one)
    }

    fn joined(
        &mut self,
        sign: &str,
        part: fn(&mut Self) -> Result<Value, String>,
    ) -> Result<Value, String> {
        let mut parts = vec![part(self)?];
        while self.left.last() == Some(&sign) {
            self.left.pop();
            parts.push(part(self)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { json!({ sign: parts }) })
    }

    fn one(&mut self) -> Result<Value, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("at most {DEPTH_MAX} parentheses and `not` within each other"));
        }
        let told = match self.left.pop() {
            Some("not") => json!({ "not": self.one()? }),
            Some("(") => {
                let told = self.any()?;
                if self.left.pop() != Some(")") {
                    return Err("a parenthesis is not closed".into());
                }
                told
            }
            Some(word) if ["and", "or", ")"].contains(&word) => {
                return Err(format!("expected a tag before `{word}`"));
            }
            Some(word) => match word.strip_prefix('@') {
                Some(segment) => json!({ "segment": segment }),
                None => json!(word),
            },
            None => return Err("expected a tag at the end".into()),
        };
        self.depth -= 1;
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_read_and_shown() {
        for (text, told) in [
            ("a", json!("a")),
            ("a and b and not c", json!({"and": ["a", "b", {"not": "c"}]})),
            ("a or b and c", json!({"or": ["a", {"and": ["b", "c"]}]})),
            (
                "(a or b) and not(@vip or d)",
                json!({"and": [
                {"or": ["a", "b"]}, {"not": {"or": [{"segment": "vip"}, "d"]}}]}),
            ),
            ("not not a", json!({"not": {"not": "a"}})),
        ] {
            assert_eq!(expression(text), Ok(told.clone()), "{text}");
            assert_eq!(expression(&shown(&told)), Ok(told), "{text}");
        }
        for (text, why) in [
            ("", "expected a tag at the end"),
            ("a and", "expected a tag at the end"),
            ("or a", "expected a tag before `or`"),
            ("(a", "a parenthesis is not closed"),
            ("a b", "expected `and` or `or` before `b`"),
            ("a)", "expected `and` or `or` before `)`"),
            (&*"(".repeat(40), "at most 32 parentheses and `not` within each other"),
        ] {
            assert_eq!(expression(text), Err(why.to_owned()), "{text}");
        }
    }
}
