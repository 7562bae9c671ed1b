//! A configuration of mosquitto, read as what it means for Holdline.
//!
//! Every option that mosquitto 2.0 and 2.1 know stands in one [table](options): it becomes keys of
//! Holdline's own configuration, or it is named with the reason why it changes nothing or with
//! what to do instead. The result is the text of a configuration file, to be read as any other is,
//! so that there is one validation; this crate knows the names of keys, not what reads them.
//! Invariant: nobody gets in here who would be kept out there; a listener that cannot be served as
//! closely as it was is not opened.
//!
//! Read [`options`], then [`draft`].

mod document;
mod draft;
mod lines;
mod options;
mod text;
mod words;

#[cfg(test)]
mod tests;

pub use document::documented;

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
    /// Fate of the option.
    pub fate: OptionFate,
    /// The keys, the reason, or what to do instead.
    pub words: String,
}

/// Fate of an option.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OptionFate {
    /// The option is in the result.
    Becomes,
    /// The option changes nothing here.
    Ignored,
    /// The option's effect is not available.
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

/// An option, or a file, that mosquitto would not take either. Its value is in none of these words,
/// for it may be a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionFault {
    /// `mosquitto.conf:12`, or the file.
    pub place: String,
    /// The option's name; empty where it is the file.
    pub option: String,
    /// Rule that the option breaks.
    pub rule: String,
    /// Remedy.
    pub remedy: String,
}

impl OptionFault {
    /// `why` has the rule and, after a semicolon, what to do.
    fn new(place: &str, option: &str, why: &str) -> OptionFault {
        let (rule, remedy) = why.split_once("; ").unwrap_or((why, "correct this line"));
        let [place, option, rule, remedy] = [place, option, rule, remedy].map(str::to_owned);
        OptionFault { place, option, rule, remedy }
    }
}

/// Translation of a configuration of mosquitto.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Translation {
    /// A configuration file of Holdline, with comments that say where each key comes from.
    pub text: String,
    /// Fate of each option, in their order.
    pub notes: Vec<OptionNote>,
}

impl Translation {
    /// Notes on options whose effect is not available.
    pub fn lost(&self) -> impl Iterator<Item = &OptionNote> {
        self.notes.iter().filter(|note| note.fate == OptionFate::Lost)
    }

    /// Where a line of the text, counted from 1, comes from in mosquitto's files.
    pub fn origin(&self, line: usize) -> Option<&str> {
        text::origin(self.text.lines().nth(line.checked_sub(1)?)?)
    }
}

/// Translates the file, and those that it includes; all errors in them are reported at once.
pub fn translate(path: &Path) -> Result<Translation, Vec<OptionFault>> {
    let (lines, mut faults) = lines::read(path);
    let mut draft = Draft::default();
    let mut notes = Vec::new();
    for line in &lines {
        match options::act(&mut draft, line) {
            Ok(note) => notes.extend(note),
            Err(why) => {
                faults.push(OptionFault::new(&line.place.to_string(), &line.option, &why));
            }
        }
    }
    let finished = draft.finish(&mut notes);
    let of_listeners = finished.problems.iter();
    faults.extend(of_listeners.map(|(from, why)| OptionFault::new(from, "listener", why)));
    if !faults.is_empty() {
        return Err(faults);
    }
    let shown = path.display().to_string();
    Ok(Translation { text: text::file(&shown, &finished.sheets, &notes), notes })
}
