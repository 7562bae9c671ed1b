//! Allowed values of a setting, in code and in words.
//!
//! The words follow "must be" in a message and "Takes" in a file. Invariant: for whatever does not
//! fit there is a remedy.

use super::Value;
use crate::text::quoted;
use crate::typo::nearest;
use std::ops::RangeInclusive;

/// Allowed values of a setting.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// True or false.
    Bool,
    /// A whole number.
    Whole {
        /// The lowest.
        min: u64,
        /// The highest.
        max: u64,
        /// Unit of the number.
        unit: &'static str,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// A text.
    Text {
        /// Which texts, in words.
        what: &'static str,
        /// Whether it is one of them.
        fits: fn(&str) -> bool,
    },
    /// `false`, `true` (the usual text) or a text.
    Switch {
        /// Which texts, in words.
        what: &'static str,
        /// Whether it is one of them.
        fits: fn(&str) -> bool,
    },
    /// A list of some of these words.
    Choice(&'static [&'static str]),
    /// A list of texts.
    List {
        /// Which texts, in words.
        what: &'static str,
        /// How many at most.
        max: usize,
        /// Whether one of its texts may be in it.
        fits: fn(&str) -> bool,
    },
}

/// Whole numbers in this range, and what they count.
pub const fn whole(range: RangeInclusive<u64>, unit: &'static str) -> Kind {
    Kind::Whole { min: *range.start(), max: *range.end(), unit }
}

/// Texts that fit, and which these are in words.
pub const fn text(what: &'static str, fits: fn(&str) -> bool) -> Kind {
    Kind::Text { what, fits }
}

/// As [`text()`], or `false`, or `true` for the usual text.
pub const fn switch(what: &'static str, fits: fn(&str) -> bool) -> Kind {
    Kind::Switch { what, fits }
}

/// Lists of some of these words.
pub const fn choice(words: &'static [&'static str]) -> Kind {
    Kind::Choice(words)
}

/// Lists of so many texts that fit.
pub const fn list(max: usize, what: &'static str, fits: fn(&str) -> bool) -> Kind {
    Kind::List { what, max, fits }
}

impl Kind {
    /// Allowed values, in words that follow "must be".
    pub fn allowed(&self) -> String {
        match self {
            Kind::Bool => "true or false".into(),
            Kind::Whole { min, max, unit } => {
                format!("a whole number from {min} to {max} ({unit})")
            }
            Kind::Word(words) => format!("one of {}", all_quoted(words)),
            Kind::Choice(words) => {
                format!("a list of at most {} of {}", words.len(), all_quoted(words))
            }
            Kind::Text { what, .. } => (*what).into(),
            Kind::Switch { what, .. } => format!("true, false or {what}"),
            Kind::List { what, max, .. } => format!("a list of at most {max} {what}"),
        }
    }

    /// Whether a value is one of them.
    pub fn fits(&self, value: &Value) -> bool {
        match (self, value) {
            (Kind::Bool | Kind::Switch { .. }, Value::Bool(_)) => true,
            (Kind::Whole { min, max, .. }, Value::Whole(number)) => (min..=max).contains(&number),
            (Kind::Word(words), Value::Text(text)) => is_among(text, words),
            (Kind::Text { fits, .. } | Kind::Switch { fits, .. }, Value::Text(text)) => fits(text),
            (Kind::List { max, fits, .. }, Value::List(texts)) => {
                texts.len() <= *max && texts.iter().all(|text| fits(text))
            }
            (Kind::Choice(words), Value::List(texts)) => {
                texts.len() <= words.len() && texts.iter().all(|text| is_among(text, words))
            }
            _ => false,
        }
    }

    /// The value that an environment variable's text stands for: a list has commas between its
    /// texts, and whatever is not of the kind stays a text, to be refused.
    pub fn of_text(&self, text: &str) -> Value {
        let number = || text.parse().ok().map(Value::Whole);
        let truth = || text.parse().ok().map(Value::Bool);
        match self {
            Kind::Whole { .. } => number(),
            Kind::Bool | Kind::Switch { .. } => truth(),
            Kind::List { .. } | Kind::Choice(_) if text.is_empty() => Some(Value::List(Vec::new())),
            Kind::List { .. } | Kind::Choice(_) => {
                Some(Value::List(text.split(',').map(|part| part.trim().into()).collect()))
            }
            Kind::Word(_) | Kind::Text { .. } => None,
        }
        .unwrap_or_else(|| Value::Text(text.into()))
    }

    /// Remedy for a value that does not fit, in words. `usual` is the key's default.
    pub fn remedy(&self, value: &Value, usual: Option<&Value>) -> String {
        let example = usual.filter(|usual| **usual != Value::Text(String::new()));
        let such_as = example.map_or(String::new(), |usual| format!(", such as {usual}"));
        match (self, value) {
            (Kind::Whole { .. } | Kind::Bool | Kind::Switch { .. }, Value::Text(text))
                if self.fits(&self.of_text(text)) =>
            {
                "remove the quotes".into()
            }
            (Kind::Whole { min, .. }, Value::Whole(number)) if number < min => {
                format!("write {min} or more")
            }
            (Kind::Whole { max, .. }, Value::Whole(_)) => format!("write {max} or less"),
            (Kind::Whole { .. }, _) => format!("write a number{such_as}"),
            (Kind::Bool, _) => "write true or false, without quotes".into(),
            (Kind::Word(words), Value::Text(text)) => match nearest(text, words.iter().copied()) {
                Some(word) => format!("did you mean {}?", quoted(word)),
                None => "choose one of them".into(),
            },
            (Kind::Word(_), _) => format!("write a text in quotes{such_as}"),
            (Kind::Text { .. } | Kind::Switch { .. }, Value::Text(_)) => {
                format!("correct it{such_as}")
            }
            (Kind::Text { .. } | Kind::Switch { .. }, _) => {
                format!("write a text in quotes{such_as}")
            }
            (Kind::List { max, fits, .. }, Value::List(texts)) => {
                mend_list(texts, texts.iter().find(|text| !fits(text)), *max)
            }
            (Kind::Choice(words), Value::List(texts)) => {
                let wrong = texts.iter().find(|text| !is_among(text, words));
                mend_list(texts, wrong, words.len())
            }
            (Kind::List { .. } | Kind::Choice(_), Value::Text(text)) => {
                format!("write [{}]", quoted(text))
            }
            (Kind::List { .. } | Kind::Choice(_), _) => {
                "write texts in quotes between [ and ]".into()
            }
        }
    }
}

fn is_among(text: &str, words: &[&str]) -> bool {
    words.contains(&text)
}

fn all_quoted(words: &[&str]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", ")
}

fn mend_list(texts: &[String], wrong: Option<&String>, max: usize) -> String {
    match wrong {
        Some(text) => format!("correct or remove {}", quoted(text)),
        None => format!("remove {} of them", texts.len().saturating_sub(max)),
    }
}
