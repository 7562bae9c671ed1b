//! Kills a running server under load, again and again, and audits what it had acknowledged.
//!
//! One cycle: start the server on its folder, audit what is there, load it from several threads,
//! and end it at a moment that the seed says, by SIGKILL mostly. The last audit drains everything.
//! The run ends at the first cycle with a violation, and always after its cycles or seconds. It
//! ends no process but those it started.

mod api;
mod audit;
mod body;
mod book;
mod clock;
mod dice;
mod hook;
mod line;
mod load;
mod mqtt;
mod plan;
mod result;
mod run;
mod sabotage;
mod server;

use plan::Plan;
use std::process::ExitCode;

/// How long there is load before the end, milliseconds, from and to.
pub const LOAD_MS: (u64, u64) = (50, 600);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{}", plan::USAGE);
        return ExitCode::SUCCESS;
    }
    let plan = match Plan::read(&words, dice::mix(clock::unix_s(), 0) % 1_000_000) {
        Ok(plan) => plan,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    match run::run(&plan) {
        Ok(found) => found,
        Err(error) => {
            eprintln!("the run did not come to an end: {error}");
            ExitCode::from(2)
        }
    }
}
