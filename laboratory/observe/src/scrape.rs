//! Scraping of a server: a metrics page in Prometheus' text format.
//!
//! Samples of a metric are summed over their labels, but for the labels in [`LABELS`], which make
//! figures of their own beside the sum. Summaries and histograms give their sum and count. Names,
//! bytes and time are bounded. A server that does not answer is reported once, until it answers.

use crate::columns::LABELS;
use lab::series::{Column, FigureKind, Reading, Unit};
use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

/// Bytes of a page that are read, at most.
const PAGE_BYTES_MAX: u64 = 4 << 20;
/// Figures of a page, at most: half as many again as Holdline's own page has.
pub(crate) const FIGURES_MAX: usize = 1_100;
/// Names of figures that were left out and are reported, at most.
const LEFT_OUT_TOLD: usize = 3;
/// Characters of a figure's name, at most.
const NAME_MAX: usize = 96;
/// How long the page took, an answer that never came included.
const SCRAPE: Column = Column::peak("scrape_us", Unit::Micros);
/// Time for a page.
const PATIENCE: Duration = Duration::from_millis(800);

/// A metrics page that is read again and again.
#[derive(Debug)]
pub struct Scrape {
    url: String,
    bearer: Option<String>,
    agent: ureq::Agent,
    /// Tells the time in microseconds, by which the reading itself is timed.
    clock: Option<fn() -> u64>,
    /// Error of the last reading, and whether it was reported.
    trouble: Option<(String, bool)>,
}

impl Scrape {
    /// The page at this URL. Nothing is asked yet.
    pub fn new(url: &str) -> Scrape {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .proxy(None) // one of the environment would see the token
            .max_redirects(2)
            .max_idle_connections(1);
        let agent = config.build().into();
        Scrape { url: url.to_owned(), bearer: None, agent, clock: None, trouble: None }
    }

    /// The scrape with a clock that tells microseconds: among the figures is then how long the page
    /// took (`scrape_us`). A server that is slow to show its figures, or disturbed by being asked,
    /// is known by it.
    pub fn timed(mut self, clock: fn() -> u64) -> Scrape {
        self.clock = Some(clock);
        self
    }

    /// The scrape, with a token to show.
    pub fn bearer(mut self, token: Option<String>) -> Scrape {
        self.bearer = token;
        self
    }

    /// Reads the page; the reading is empty if the page does not come within 0.8 seconds.
    pub fn read(&mut self) -> Reading {
        let began = self.clock.map(|clock| clock());
        let mut reading = self.read_page();
        if let (Some(clock), Some(began)) = (self.clock, began) {
            reading.set(SCRAPE, clock().saturating_sub(began) as f64);
        }
        reading
    }

    fn read_page(&mut self) -> Reading {
        match self.page() {
            Ok(page) => {
                let (reading, left_out) = figures(&page);
                let trouble = (!left_out.is_empty()).then(|| {
                    let first = &left_out[..left_out.len().min(LEFT_OUT_TOLD)];
                    format!(
                        "{}: only its first {FIGURES_MAX} figures are kept; {} are left out, the \
                         first of them {}",
                        self.url,
                        left_out.len(),
                        first.join(", ")
                    )
                });
                self.note(trouble);
                reading
            }
            Err(why) => {
                self.note(Some(format!("{}: {why}", self.url)));
                Reading::default()
            }
        }
    }

    /// The error of the last reading, if it was not reported yet.
    pub fn trouble(&mut self) -> Option<String> {
        let (trouble, told) = self.trouble.as_mut()?;
        (!std::mem::replace(told, true)).then(|| trouble.clone())
    }

    /// Remembers what is wrong; the same wrong thing again is no news.
    fn note(&mut self, trouble: Option<String>) {
        let known = self.trouble.as_ref().map(|(trouble, _)| trouble);
        if known != trouble.as_ref() {
            self.trouble = trouble.map(|trouble| (trouble, false));
        }
    }

    fn page(&self) -> Result<String, String> {
        let mut request = self.agent.get(&self.url);
        if let Some(token) = &self.bearer {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut answer = request.call().map_err(|error| error.to_string())?;
        let body = answer.body_mut().with_config().limit(PAGE_BYTES_MAX);
        body.read_to_string().map_err(|error| error.to_string())
    }
}

/// The figures of a page, and the names of those that are not kept.
pub(crate) fn figures(page: &str) -> (Reading, Vec<String>) {
    let mut kinds: HashMap<&str, &str> = HashMap::new();
    let mut sums: Vec<(Column, f64)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for line in page.lines() {
        if let Some(words) = line.strip_prefix("# TYPE ") {
            kinds.extend(words.trim().split_once(' ').filter(|_| kinds.len() < 8 * FIGURES_MAX));
            continue;
        }
        let Some((name, labels, value)) = sample(line) else { continue };
        let Some(kind) = kind_of(name, &kinds) else { continue };
        let mut add = |name: String| {
            let place = *places.entry(name).or_insert_with_key(|name| {
                let column = Column { name: Cow::Owned(name.clone()), unit: unit_of(name), kind };
                sums.push((column, 0.0));
                sums.len() - 1
            });
            if let Some((_, sum)) = sums.get_mut(place) {
                *sum += value;
            }
        };
        add(name.to_owned());
        for (label, value) in &labels {
            if LABELS.contains(label) && plain(value) {
                add(format!("{name}.{value}"));
            }
        }
    }
    let mut reading = Reading::default();
    let left_out = sums.split_off(sums.len().min(FIGURES_MAX));
    sums.into_iter().for_each(|(column, sum)| reading.set(column, sum));
    (reading, left_out.into_iter().map(|(column, _)| column.name.into_owned()).collect())
}

/// Labels and their values.
type Labels<'a> = Vec<(&'a str, &'a str)>;

/// A sample: its name, labels and value. `None`: a comment, or nothing that can be summed.
fn sample(line: &str) -> Option<(&str, Labels<'_>, f64)> {
    let end = line.find(['{', ' ', '\t'])?;
    let (name, mut rest) = line.split_at(end);
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(legal) {
        return None;
    }
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner.trim_start();
        while !rest.starts_with('}') {
            let (label, behind) = rest.split_once("=\"")?;
            let close = closing_quote(behind)?;
            labels.push((label.trim(), &behind[..close]));
            rest = behind[close + 1..].trim_start_matches([',', ' ']);
        }
        rest = &rest[1..];
    }
    let value: f64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
    value.is_finite().then_some((name, labels, value))
}

/// Where a label's value ends: at the first quote that no backslash stands before.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

/// How a metric behaves; `None`: it is a part of a distribution that cannot be summed up.
fn kind_of(name: &str, kinds: &HashMap<&str, &str>) -> Option<FigureKind> {
    let ends = |end: &str| name.strip_suffix(end).and_then(|base| kinds.get(base).copied());
    let spread = |kind: Option<&str>| kind.is_some_and(|k| k == "histogram" || k == "summary");
    if spread(kinds.get(name).copied()) || spread(ends("_bucket")) || name.ends_with("_created") {
        return None;
    }
    let counts = kinds.get(name) == Some(&"counter") || ends("_total") == Some("counter");
    let untyped = !kinds.contains_key(name) && name.ends_with("_total");
    let total = counts || untyped || spread(ends("_sum")) || spread(ends("_count"));
    Some(if total { FigureKind::Total } else { FigureKind::Gauge })
}

fn unit_of(name: &str) -> Unit {
    let ends = |words: &[&str]| {
        words.iter().any(|word| {
            let base = name.trim_end_matches("_total").trim_end_matches("_sum");
            base.ends_with(word) || base.trim_end_matches("_max").ends_with(word)
        })
    };
    match name {
        _ if ends(&["_bytes"]) => Unit::Bytes,
        _ if ends(&["_seconds"]) => Unit::Seconds,
        _ if ends(&["_us", "_microseconds"]) => Unit::Micros,
        _ => Unit::Count,
    }
}

/// Whether a label's value can be a part of a name.
fn plain(value: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !value.is_empty() && value.len() <= NAME_MAX && value.chars().all(legal)
}

#[cfg(test)]
mod tests;
