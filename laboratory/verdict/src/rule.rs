//! A rule as text: `FIGURE OPERATOR VALUE`, e.g. `bind.p99 < 500ms`.
//!
//! A rule is parsed once, when a plan is read, and its errors are reported then; judged later, it
//! only compares. Values are microseconds, bytes, shares (1 is all) or plain numbers, whatever unit
//! they were written in. The invariant: a figure that cannot be known does not pass.

use crate::figure::{Figure, Measure, doubt};
use crate::scope::Scope;
use lab::run::CheckResult;
use std::fmt;

/// How a figure is compared with its bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    More,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
}

impl Operator {
    /// All operators; those of two letters first, as they are looked for.
    const ALL: [Operator; 5] =
        [Operator::AtMost, Operator::AtLeast, Operator::Equal, Operator::Less, Operator::More];

    /// Sign of the operator.
    pub const fn sign(self) -> &'static str {
        match self {
            Operator::Less => "<",
            Operator::AtMost => "<=",
            Operator::More => ">",
            Operator::AtLeast => ">=",
            Operator::Equal => "==",
        }
    }

    /// Whether `value` stands so to `bound`.
    pub fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Operator::Less => value < bound,
            Operator::AtMost => value <= bound,
            Operator::More => value > bound,
            Operator::AtLeast => value >= bound,
            Operator::Equal => value == bound,
        }
    }
}

/// Unit that a bound was written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Written {
    /// A plain number.
    Plain,
    /// With a unit of time.
    Time,
    /// In percent.
    Percent,
    /// With `k`, `M` or `G`: a thousand, a million, a thousand million.
    Thousands,
    /// With `KiB`, `MiB` or `GiB`.
    Bytes,
}

/// Units and what one of them is.
const UNITS: [(&str, f64, Written); 14] = [
    ("", 1.0, Written::Plain),
    ("us", 1.0, Written::Time),
    ("ms", 1e3, Written::Time),
    ("s", 1e6, Written::Time),
    ("m", 60e6, Written::Time),
    ("h", 3_600e6, Written::Time),
    ("%", 0.01, Written::Percent),
    ("k", 1e3, Written::Thousands),
    ("M", 1e6, Written::Thousands),
    ("G", 1e9, Written::Thousands),
    ("B", 1.0, Written::Bytes),
    ("KiB", 1_024.0, Written::Bytes),
    ("MiB", 1_048_576.0, Written::Bytes),
    ("GiB", 1_073_741_824.0, Written::Bytes),
];

/// A rule that was read.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    text: String,
    figure: Figure,
    operator: Operator,
    bound: f64,
    written: Written,
}

impl Rule {
    /// Reads a rule, or says what is wrong with it and what would be right.
    pub fn parse(text: &str) -> Result<Rule, String> {
        let wrong = |why: String| format!("rule `{}`: {why}", text.trim());
        let found = text.find(['<', '>', '=']).ok_or_else(|| {
            wrong(
                "it has no operator: write `FIGURE OPERATOR VALUE` with <, <=, >, >= or ==, \
                 e.g. `bind.p99 < 500ms`"
                    .to_owned(),
            )
        })?;
        let (figure, rest) = text.split_at(found);
        let known = Operator::ALL.into_iter().find(|operator| rest.starts_with(operator.sign()));
        let operator = known.ok_or_else(|| wrong("`=` is no operator: write ==".to_owned()))?;
        let (figure, value) = (figure.trim(), rest[operator.sign().len()..].trim());
        if figure.is_empty() {
            return Err(wrong("it names no figure before the operator".to_owned()));
        }
        let figure = Figure::named(figure).map_err(wrong)?;
        let (bound, written) = bound(value).map_err(wrong)?;
        fits(&figure, written, bound).map_err(wrong)?;
        Ok(Rule { text: text.trim().to_owned(), figure, operator, bound, written })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Figure that the rule is about.
    pub fn figure(&self) -> &Figure {
        &self.figure
    }

    /// How the figure is compared.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// Value that it is compared with: microseconds, bytes, a share or a plain number.
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// Judges a run or a stage.
    pub fn check(&self, scope: &Scope) -> CheckResult {
        let judged = self.judged(scope).ok();
        let (value, held) = (judged.map(|it| it.0), judged.map(|it| it.1));
        CheckResult { rule: self.text.clone(), value, held }
    }

    /// The figure and whether the rule holds, or why that cannot be known: what may be higher than
    /// it was counted has to hold, or not to, either way.
    fn judged(&self, scope: &Scope) -> Result<(f64, bool), String> {
        let value = self.value(scope)?;
        let holds = |value| self.operator.holds(value, self.bound);
        match doubt(&self.figure, scope) {
            Some((more, why)) if holds(value) != holds(value + more) => {
                Err(format!("at least {} were counted, but {why}", crate::words::number(value)))
            }
            _ => Ok((value, holds(value))),
        }
    }

    /// The figure, in the unit of the bound, or why it cannot be known.
    fn value(&self, scope: &Scope) -> Result<f64, String> {
        let value = self.figure.value(scope)?;
        let measure = self.figure.measure_in(scope.series);
        match (self.written, measure) {
            (Written::Time, Measure::Seconds) => Ok(value * 1e6),
            (written, measure) if suits(written, measure) => Ok(value),
            _ => {
                Err(format!("it is {}, and the rule compares it with another unit", measure.what()))
            }
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Judges a run or a stage by a rule. One that cannot be read, or whose figure cannot be known,
/// does not hold: [`why_unknown`] says why.
pub fn check(rule: &str, scope: &Scope) -> CheckResult {
    match Rule::parse(rule) {
        Ok(rule) => rule.check(scope),
        Err(_) => CheckResult { rule: rule.to_owned(), value: None, held: None },
    }
}

/// Why a rule's figure cannot be known here; `None`: it can.
pub fn why_unknown(rule: &str, scope: &Scope) -> Option<String> {
    match Rule::parse(rule) {
        Ok(rule) => rule.judged(scope).err(),
        Err(why) => Some(why),
    }
}

fn bound(text: &str) -> Result<(f64, Written), String> {
    let allowed = "write a number, with a unit where the figure has one: us, ms, s, m, h; %; k, M, \
                   G; B, KiB, MiB, GiB";
    if text.is_empty() {
        return Err(format!("it has no value after the operator: {allowed}"));
    }
    // `1e-5` is a number, `5e` is none: the longest beginning that is a number counts.
    let mut ends = text.char_indices().map(|(at, letter)| at + letter.len_utf8()).rev();
    let end = ends.find(|&end| text[..end].parse::<f64>().is_ok());
    let end = end.ok_or_else(|| format!("`{text}` is no number: {allowed}"))?;
    let number: f64 = text[..end].parse().unwrap_or(f64::NAN);
    let unit = text[end..].trim();
    let (_, factor, written) = UNITS
        .into_iter()
        .find(|(name, ..)| *name == unit)
        .ok_or_else(|| format!("`{unit}` is no unit: {allowed}"))?;
    let bound = number * factor;
    match bound.is_finite() {
        true => Ok((bound, written)),
        false => Err(format!("`{text}` is beyond numbers")),
    }
}

fn suits(written: Written, measure: Measure) -> bool {
    match measure {
        Measure::Unknown => true,
        Measure::Micros | Measure::Seconds => matches!(written, Written::Time | Written::Plain),
        Measure::Bytes => matches!(written, Written::Bytes | Written::Thousands | Written::Plain),
        Measure::Share => matches!(written, Written::Percent | Written::Plain),
        Measure::Count | Measure::PerSecond => {
            matches!(written, Written::Plain | Written::Thousands)
        }
    }
}

/// Whether the unit suits the figure, as far as that is known before there is a run.
fn fits(figure: &Figure, written: Written, bound: f64) -> Result<(), String> {
    let measure = figure.measure();
    // A time without a unit is a mistake that passes or fails a factor of a thousand aside.
    let bare = measure == Measure::Micros && written == Written::Plain && bound != 0.0;
    if suits(written, measure) && !bare {
        return Ok(());
    }
    Err(format!("`{figure}` is {}: write {}", measure.what(), measure.units()))
}

#[cfg(test)]
mod tests;
