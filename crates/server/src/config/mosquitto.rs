//! A configuration of mosquitto, read as what it means here.
//!
//! Every option that mosquitto 2.0 and 2.1 know stands in one [table](options): it becomes keys of
//! Holdline's own configuration, or it is named with the reason why it changes nothing or with
//! what to do instead. The result is the text of a configuration file, which is read as any other
//! is, so that there is one validation. Invariant: nobody gets in here who would be kept out
//! there; a listener that cannot be served as closely as it was is not opened.
//!
//! Read [`options`], then [`draft`].

mod document;
mod draft;
mod lines;
mod options;
mod passwords;
mod text;
mod words;

#[cfg(test)]
mod tests;

pub use document::documented;
pub use passwords::password_line;

use super::{Config, ConfigError, ConfigProblem};
use draft::Draft;
use std::fmt;
use std::path::Path;

/// Note on what became of one option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionNote {
    /// `mosquitto.conf:12`.
    pub place: String,
    /// The option's name.
    pub option: String,
    /// What became of it.
    pub fate: OptionFate,
    /// The keys, the reason, or what to do instead.
    pub words: String,
}

/// Fate of an option.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OptionFate {
    /// It is in the result.
    Becomes,
    /// It changes nothing here.
    Ignored,
    /// What it asks for is not done.
    Lost,
}

impl fmt::Display for OptionNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fate = match self.fate {
            OptionFate::Becomes => "becomes",
            OptionFate::Ignored => "ignored because",
            OptionFate::Lost => "not supported:",
        };
        write!(f, "{}: {} {fate} {}", self.place, self.option, self.words)
    }
}

/// A translation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Translated {
    /// A configuration file of Holdline, with comments that say where each key comes from.
    pub text: String,
    /// What became of each option, in their order.
    pub notes: Vec<OptionNote>,
}

impl Translated {
    /// What is not done here and was asked for.
    pub fn lost(&self) -> impl Iterator<Item = &OptionNote> {
        self.notes.iter().filter(|note| note.fate == OptionFate::Lost)
    }

    /// The configuration, with variables of the environment on top. What is wrong with it is told
    /// with the place in mosquitto's files that it comes from.
    pub fn config(
        &self,
        env: impl Iterator<Item = (String, String)>,
    ) -> Result<Config, ConfigError> {
        Config::parse(TRANSLATED, &self.text, env).map_err(|mut error| {
            for problem in &mut error.problems {
                if let Some(origin) = self.origin(&problem.place) {
                    problem.place = origin.to_owned();
                }
            }
            error
        })
    }

    /// Where a line of the text comes from.
    fn origin(&self, place: &str) -> Option<&str> {
        let number = place.strip_prefix(TRANSLATED)?.strip_prefix(':')?.parse::<usize>().ok()?;
        let line = self.text.lines().nth(number.checked_sub(1)?)?;
        line.rsplit_once(" # ").map(|(_, from)| from)
    }
}

/// What the text is called in problems whose origin is not known.
const TRANSLATED: &str = "translated";

/// The configuration that a file of mosquitto means, and what became of each of its options. With
/// `strict`, what would be lost is a problem.
pub fn load(
    path: &Path,
    strict: bool,
    env: impl Iterator<Item = (String, String)>,
) -> Result<(Config, Vec<OptionNote>), ConfigError> {
    let translated = translate(path)?;
    let lost = |note: &OptionNote| ConfigProblem {
        place: note.place.clone(),
        key: note.option.clone(),
        value: None,
        rule: "is not supported".into(),
        remedy: note.words.clone(),
    };
    let problems: Vec<ConfigProblem> = translated.lost().filter(|_| strict).map(lost).collect();
    if !problems.is_empty() {
        return Err(ConfigError { problems });
    }
    let config = translated.config(env)?;
    Ok((config, translated.notes))
}

/// Reads the file, and those that it includes; all that is wrong with them is told at once.
pub fn translate(path: &Path) -> Result<Translated, ConfigError> {
    let (lines, mut problems) = lines::read(path);
    let mut draft = Draft::default();
    let mut notes = Vec::new();
    for line in &lines {
        match options::act(&mut draft, line) {
            Ok(note) => notes.extend(note),
            Err(why) => problems.push(problem(&line.place.to_string(), &line.option, &why)),
        }
    }
    let finished = draft.finish(&mut notes);
    problems.extend(finished.problems.iter().map(|(from, why)| problem(from, "listener", why)));
    if !problems.is_empty() {
        return Err(ConfigError { problems });
    }
    let shown = path.display().to_string();
    Ok(Translated { text: text::file(&shown, &finished.sheets, &notes), notes })
}

/// `why` has the rule and, after a semicolon, what to do.
fn problem(place: &str, option: &str, why: &str) -> ConfigProblem {
    let (rule, remedy) = why.split_once("; ").unwrap_or((why, "correct this line"));
    let (place, key) = (place.to_owned(), option.to_owned());
    ConfigProblem { place, key, value: None, rule: rule.to_owned(), remedy: remedy.to_owned() }
}
