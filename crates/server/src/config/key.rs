//! Key of the configuration: name, kind, default, whether it may change while we run.
//!
//! A section is a struct and a table of its keys ([`Section`]); reading, overriding, printing,
//! documenting and comparing all walk that one table. This file knows neither files nor TOML nor
//! any particular section. Invariant: [`Key::write`] takes every value that its [`Kind`] fits,
//! unless the field's own type is narrower, and then it says so.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use base::text::quoted;
use base::typo::nearest;

/// Whether SIGHUP may change a key, or a restart is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reload {
    /// A reload changes it.
    Live,
    /// It keeps its value until the next start.
    Restart,
}

/// A value, on its way between text and field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Value {
    Bool(bool),
    Whole(u64),
    Text(String),
    List(Vec<String>),
    /// What no key takes: negative numbers, fractions, dates, tables, mixed lists.
    Other,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(yes) => write!(f, "{yes}"),
            Value::Whole(number) => write!(f, "{number}"),
            Value::Text(text) => f.write_str(&quoted(text)),
            Value::List(texts) => {
                let texts: Vec<String> = texts.iter().map(|t| quoted(t)).collect();
                write!(f, "[{}]", texts.join(", "))
            }
            Value::Other => f.write_str("?"),
        }
    }
}

/// What values a key takes.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Bool,
    Whole {
        min: u64,
        max: u64,
        unit: &'static str,
    },
    Word(&'static [&'static str]),
    Text {
        what: &'static str,
        fits: fn(&str) -> bool,
    },
    /// `false`, `true` (the usual text) or a text.
    Switch {
        what: &'static str,
        fits: fn(&str) -> bool,
    },
    List {
        what: &'static str,
        max: usize,
        fits: fn(&str) -> bool,
    },
}

impl Kind {
    pub(super) const fn whole(min: u64, max: u64, unit: &'static str) -> Kind {
        Kind::Whole { min, max, unit }
    }

    /// What is allowed, in words that follow "must be".
    pub(super) fn allowed(&self) -> String {
        match self {
            Kind::Bool => "true or false".into(),
            Kind::Whole { min, max, unit } => {
                format!("a whole number from {min} to {max} ({unit})")
            }
            Kind::Word(words) => {
                let words: Vec<String> = words.iter().map(|w| quoted(w)).collect();
                format!("one of {}", words.join(", "))
            }
            Kind::Text { what, .. } => (*what).into(),
            Kind::Switch { what, .. } => format!("true, false or {what}"),
            Kind::List { what, max, .. } => format!("a list of at most {max} {what}"),
        }
    }

    pub(super) fn fits(&self, value: &Value) -> bool {
        match (self, value) {
            (Kind::Bool | Kind::Switch { .. }, Value::Bool(_)) => true,
            (Kind::Whole { min, max, .. }, Value::Whole(number)) => (min..=max).contains(&number),
            (Kind::Word(words), Value::Text(text)) => words.contains(&text.as_str()),
            (Kind::Text { fits, .. } | Kind::Switch { fits, .. }, Value::Text(text)) => fits(text),
            (Kind::List { max, fits, .. }, Value::List(texts)) => {
                texts.len() <= *max && texts.iter().all(|text| fits(text))
            }
            _ => false,
        }
    }

    /// The value that an environment variable's text stands for: a list has commas between its
    /// texts, and whatever is not of the kind stays a text, to be refused.
    pub(super) fn of_text(&self, text: &str) -> Value {
        let number = || text.parse().ok().map(Value::Whole);
        let truth = || text.parse().ok().map(Value::Bool);
        match self {
            Kind::Whole { .. } => number(),
            Kind::Bool | Kind::Switch { .. } => truth(),
            Kind::List { .. } if text.is_empty() => Some(Value::List(Vec::new())),
            Kind::List { .. } => {
                Some(Value::List(text.split(',').map(|part| part.trim().into()).collect()))
            }
            Kind::Word(_) | Kind::Text { .. } => None,
        }
        .unwrap_or_else(|| Value::Text(text.into()))
    }

    /// What to do about a value that does not fit. `usual` is the key's default.
    pub(super) fn remedy(&self, value: &Value, usual: Option<&Value>) -> String {
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
                match texts.iter().find(|text| !fits(text)) {
                    Some(text) => format!("correct or remove {}", quoted(text)),
                    None => format!("remove {} of them", texts.len().saturating_sub(*max)),
                }
            }
            (Kind::List { .. }, Value::Text(text)) => format!("write [{}]", quoted(text)),
            (Kind::List { .. }, _) => "write texts in quotes between [ and ]".into(),
        }
    }
}

/// One key of the section `S`.
pub(super) struct Key<S: 'static> {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) reload: Reload,
    /// What it is, and what happens at it.
    pub(super) doc: &'static str,
    /// It has no default.
    pub(super) required: bool,
    /// Its value is never shown.
    pub(super) secret: bool,
    /// It is a URL: the user and password in it are never shown.
    pub(super) url: bool,
    pub(super) read: fn(&S) -> Value,
    /// False if the field cannot hold the value.
    pub(super) write: fn(&mut S, &Value) -> bool,
}

impl<S> Key<S> {
    pub(super) const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    pub(super) const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    pub(super) const fn url(mut self) -> Self {
        self.url = true;
        self
    }
}

/// A struct that is a section of the tree.
pub(super) trait Section: Sized + 'static {
    const KEYS: &'static [Key<Self>];

    /// Whether a reload may add and remove a whole section of this sort.
    const RELOAD: Reload = Reload::Live;

    /// The section with its defaults, for this name; or what is wrong with the name.
    fn blank(name: &str) -> Result<Self, String>;
}

/// `key!(field, kind, Live, "doc")`, or `key!("name" => path.to.field, …)` where they differ.
macro_rules! key {
    ($field:ident, $($rest:tt)+) => {
        key!(@ stringify!($field), [$field], $($rest)+)
    };
    ($name:literal => $($field:ident).+, $($rest:tt)+) => {
        key!(@ $name, [$($field).+], $($rest)+)
    };
    (@ $name:expr, [$($field:ident).+], $kind:expr, $reload:ident, $doc:expr $(,)?) => {
        Key::<Self> {
            name: $name,
            kind: $kind,
            reload: Reload::$reload,
            doc: $doc,
            required: false,
            secret: false,
            url: false,
            read: |section| Field::show(&section.$($field).+),
            write: |section, value| match Field::take(value) {
                Some(value) => {
                    section.$($field).+ = value;
                    true
                }
                None => false,
            },
        }
    };
}

/// Words for the variants of an enum, both ways.
macro_rules! words {
    ($type:ident { $($variant:ident = $word:literal),+ }) => {
        impl Words for $type {
            const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl Field for $type {
            fn show(&self) -> Value {
                Value::Text(match self { $($type::$variant => $word),+ }.into())
            }

            fn take(value: &Value) -> Option<Self> {
                match value {
                    Value::Text(text) => match text.as_str() {
                        $($word => Some($type::$variant),)+
                        _ => None,
                    },
                    _ => None,
                }
            }
        }
    };
}

pub(super) use {key, words};

/// An enum that is written as one of some words.
pub(super) trait Words {
    const WORDS: &'static [&'static str];
}

/// A type that a field of a section may have.
pub(super) trait Field: Sized {
    fn show(&self) -> Value;
    fn take(value: &Value) -> Option<Self>;
}

macro_rules! whole_field {
    ($($type:ty),+) => {$(
        impl Field for $type {
            fn show(&self) -> Value {
                Value::Whole(u64::from(*self))
            }

            fn take(value: &Value) -> Option<Self> {
                match value {
                    Value::Whole(number) => <$type>::try_from(*number).ok(),
                    _ => None,
                }
            }
        }
    )+};
}

whole_field!(u8, u16, u32, u64);

macro_rules! text_field {
    ($($type:ty, |$from:ident| $show:expr, |$text:ident| $take:expr;)+) => {$(
        impl Field for $type {
            fn show(&self) -> Value {
                let $from = self;
                Value::Text($show)
            }

            fn take(value: &Value) -> Option<Self> {
                match value {
                    Value::Text($text) => $take,
                    _ => None,
                }
            }
        }
    )+};
}

text_field! {
    String, |from| from.clone(), |text| Some(text.clone());
    PathBuf, |from| from.display().to_string(), |text| Some(text.into());
    SocketAddr, |from| from.to_string(), |text| text.parse().ok();
    Hidden, |from| from.0.clone(), |text| Some(Hidden(text.clone()));
    Box<[u8]>, |from| from.iter().map(|b| format!("{b:02x}")).collect(), |text| unhex(text);
    Option<Box<str>>,
        |from| from.as_deref().unwrap_or_default().to_owned(),
        |text| Some((!text.is_empty()).then(|| text.as_str().into()));
    Option<PathBuf>,
        |from| from.as_ref().map_or(String::new(), |path| path.display().to_string()),
        |text| Some((!text.is_empty()).then(|| text.into()));
}

impl Field for bool {
    fn show(&self) -> Value {
        Value::Bool(*self)
    }

    fn take(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(yes) => Some(*yes),
            _ => None,
        }
    }
}

impl Field for Vec<String> {
    fn show(&self) -> Value {
        Value::List(self.clone())
    }

    fn take(value: &Value) -> Option<Self> {
        match value {
            Value::List(texts) => Some(texts.clone()),
            _ => None,
        }
    }
}

impl Field for Vec<SocketAddr> {
    fn show(&self) -> Value {
        Value::List(self.iter().map(SocketAddr::to_string).collect())
    }

    fn take(value: &Value) -> Option<Self> {
        match value {
            Value::List(texts) => texts.iter().map(|text| text.parse().ok()).collect(),
            _ => None,
        }
    }
}

/// A text that is never printed: its `Debug` says only that it is there.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Hidden(pub(super) String);

impl Hidden {
    pub(super) fn of(text: &str) -> Hidden {
        Hidden(text.into())
    }

    /// The text itself; empty if none was configured.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "(hidden)" })
    }
}

/// The bytes of pairs of hexadecimal digits.
pub(super) fn unhex(text: &str) -> Option<Box<[u8]>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
