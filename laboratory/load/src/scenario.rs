//! The plans that come with the program: the four stages of the field method and what else is
//! often asked, the same files that stand in `plans/`.
//!
//! This module has the texts and does not run them. The invariant, held by a test: each can be
//! read, passes the check, and has the name of its file.

pub mod asked;
#[cfg(test)]
mod page;

pub use asked::{Asked, ReadyPlan, port_here, ready};

/// A plan that comes with the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// The file, as TOML.
    pub text: &'static str,
}

/// Declares a scenario by its file.
macro_rules! scenarios {
    ($($name:literal $path:literal;)+) => {
        /// All of them: the four stages first.
        pub const ALL: &[Scenario] = &[
            $(Scenario {
                name: $name,
                text: include_str!(concat!("../../../plans/", $path, ".toml")),
            },)+
        ];
    };
}

scenarios! {
    "link-limit" "link-limit";
    "stability" "stability";
    "ladder" "ladder";
    "exception" "exception";
    "push-broadcast" "push-broadcast";
    "push-api" "push-api";
    "device-report" "device-report";
    "confirmed-pair" "confirmed-pair";
    "round-trip" "round-trip";
    "fan-in" "fan-in";
    "shared-subscriptions" "shared-subscriptions";
    "tigase" "tigase";
    "million" "million";
    "conn-storm" "conn-storm";
    "keepalive-only" "keepalive-only";
    "takeover" "takeover";
    "retained-flood" "retained-flood";
    "im-w1" "wildfire/w1";
    "im-w2" "wildfire/w2";
    "im-w3" "wildfire/w3";
    "im-w4" "wildfire/w4";
    "im-w5" "wildfire/w5";
    "im-w5-read" "wildfire/w5-read";
    "im-w6" "wildfire/w6";
    "im-w7" "wildfire/w7";
    "im-w8" "wildfire/w8";
}

impl Scenario {
    /// The scenario of this name.
    pub fn named(name: &str) -> Option<Scenario> {
        ALL.iter().copied().find(|scenario| scenario.name == name)
    }

    /// The plan's `about`: what it shows, in a sentence.
    pub fn about(&self) -> String {
        let line = self.text.lines().find_map(|line| line.strip_prefix("about = \""));
        line.map_or_else(String::new, |line| line.trim_end_matches('"').to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::file;

    #[test]
    fn every_plan_that_is_shipped_is_read_checked_and_called_as_its_file() {
        for scenario in ALL {
            let plan = file::read(scenario.name, scenario.text, &[]);
            let plan = plan.unwrap_or_else(|why| panic!("{why}"));
            assert_eq!(plan.name, scenario.name);
            assert_eq!(plan.about, scenario.about());
            assert!(plan.stages.iter().any(|stage| !stage.pass.is_empty()), "{}", plan.name);
        }
    }

    #[test]
    fn every_file_in_the_folder_is_shipped() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
        let names = |folder: &std::path::Path| -> Vec<String> {
            let entries = std::fs::read_dir(folder).expect("the folder of the repository");
            let names = entries.map(|entry| entry.expect("an entry").file_name());
            names.map(|name| name.to_string_lossy().into_owned()).collect()
        };
        let mut files = names(&folder);
        files.retain(|name| name.ends_with(".toml"));
        let wildfire = names(&folder.join("wildfire"));
        assert_eq!(files.len() + wildfire.len(), ALL.len());
    }
}
