//! A configuration of mosquitto, translated by `mosquitto_config` and read as any other is.
//!
//! Problems of the result name the place in mosquitto's files that they come from.

pub use mosquitto_config::{OptionFate, OptionNote, Translation};

use super::{Config, ConfigError, ConfigProblem};
use mosquitto_config::OptionFault;
use std::path::Path;

#[cfg(test)]
mod tests;

/// Name of the text in problems of unknown origin.
const TRANSLATED: &str = "translated";

/// The configuration that a file of mosquitto means, and what became of each of its options. With
/// `strict`, what would be lost is a problem.
pub fn load(
    path: &Path,
    strict: bool,
    env: impl Iterator<Item = (String, String)>,
) -> Result<(Config, Vec<OptionNote>), ConfigError> {
    let translation = translate(path)?;
    let lost = |note: &OptionNote| ConfigProblem {
        place: note.place.clone(),
        key: note.option.clone(),
        value: None,
        rule: "is not supported".into(),
        remedy: note.words.clone(),
    };
    let problems: Vec<ConfigProblem> = translation.lost().filter(|_| strict).map(lost).collect();
    if !problems.is_empty() {
        return Err(ConfigError { problems });
    }
    let config = config(&translation, env)?;
    Ok((config, translation.notes))
}

/// The translation of the file, and of those that it includes.
pub fn translate(path: &Path) -> Result<Translation, ConfigError> {
    let problem = |fault: OptionFault| {
        let OptionFault { place, option: key, rule, remedy } = fault;
        ConfigProblem { place, key, value: None, rule, remedy }
    };
    mosquitto_config::translate(path)
        .map_err(|faults| ConfigError { problems: faults.into_iter().map(problem).collect() })
}

/// The configuration that a translation is, with variables of the environment on top.
pub fn config(
    translation: &Translation,
    env: impl Iterator<Item = (String, String)>,
) -> Result<Config, ConfigError> {
    Config::parse(TRANSLATED, &translation.text, env).map_err(|mut error| {
        for problem in &mut error.problems {
            let line = problem.place.strip_prefix(TRANSLATED).and_then(|at| at.strip_prefix(':'));
            let line = line.and_then(|line| line.parse().ok());
            if let Some(origin) = line.and_then(|line| translation.origin(line)) {
                problem.place = origin.to_owned();
            }
        }
        error
    })
}
