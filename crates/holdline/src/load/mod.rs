//! `holdline load`: the laboratory's commands.
//!
//! The four stages of the field method (`link-limit`, `stability`, `ladder`, `exception`), any plan
//! (`run`), the plans that come along (`plans`, `plan`), Coolpy7's line, and what is done with runs
//! that were made (`report`, `compare`). The work of each lives in `load`; here words of the
//! command line are turned into calls, and their results into an exit code.

mod agent;
mod asked;
mod coolpy7;
mod made;
mod shelf;
mod watch;

use ::load::scenario::Scenario;
use asked::{Asked, Show};
use clap::{Args, Subcommand};
pub use coolpy7::coolpy7;
use std::path::PathBuf;
use std::process::ExitCode;

/// All rules held.
pub const PASSED: u8 = 0;
/// A rule did not hold, or the run did not come to its end.
pub const FAILED: u8 = 1;
/// Exit code if no run could be made.
pub const NOT_RUN: u8 = 2;
/// The tester was saturated: the figures are not valid.
pub const INVALID: u8 = 3;

/// Meanings of exit codes, for the help.
const CODES: &str = "Exit codes: 0 all rules held, 1 a rule failed (or the run was ended early), \
                     2 the run could not start, 3 the tester was saturated: figures not \
                     valid.\nPlans, figures and causes: docs/laboratory.md";

/// Action of `holdline load`.
#[derive(Args)]
#[command(after_help = CODES)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Stage 1: add connections in steps until the first limit, and name it
    #[command(after_help = CODES)]
    LinkLimit(Box<Stage>),
    /// Stage 2: hold sizes with heartbeats and light traffic
    #[command(after_help = CODES)]
    Stability(Box<Stage>),
    /// Stage 3: all clients connect at once, in steps of 100,000 to a million
    #[command(after_help = CODES)]
    Ladder(Box<Stage>),
    /// Stage 4: flapping, reconnect storms, half-open connections, slow readers; failures of Redis,
    /// network and server
    #[command(after_help = CODES)]
    Exception(Box<Stage>),
    /// Run a plan: a file or a built-in plan
    #[command(after_help = CODES)]
    Run {
        /// A TOML file, or the name of a built-in plan (`holdline load plans`)
        plan: String,
        /// Target, agents and other settings of the run
        #[command(flatten)]
        stage: Box<Stage>,
    },
    /// List the built-in plans
    Plans,
    /// Print a built-in plan, as a starting point for your own
    Plan {
        /// Name of the plan
        name: String,
    },
    /// Run Coolpy7's benchmark line: -workers=N -cid=P -topic=T%i -qos=0 -url=tcp://… …
    #[command(disable_help_flag = true)]
    Coolpy7 {
        /// Its flags, as Go writes them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Generate the report of a run again
    Report {
        /// Folder of the run, or its run.json
        run: PathBuf,
    },
    /// Compare two runs, or two sets of runs, with confidence bands
    Compare(shelf::Compare),
    /// Agent: generate a part of the load for a coordinator, or observe a server for it
    Agent(agent::Arguments),
    /// Clients on behalf of another process, by standard input and output
    #[command(hide = true)]
    Crew,
}

/// A stage and how to run it.
#[derive(Args)]
struct Stage {
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    show: Show,
}

/// Does what is asked.
pub fn load(arguments: Arguments) -> ExitCode {
    let stage = |name: &str, stage: &Stage| {
        let scenario = Scenario::named(name).expect("the four stages come along");
        made::run(name, scenario.text, &stage.asked, &stage.show, true)
    };
    let command = match arguments.command {
        Command::Agent(arguments) => return agent::agent(arguments),
        Command::Crew => return super::code(::load::local::serve_stdio()),
        command => command,
    };
    let done = match &command {
        Command::LinkLimit(asked) => stage("link-limit", asked),
        Command::Stability(asked) => stage("stability", asked),
        Command::Ladder(asked) => stage("ladder", asked),
        Command::Exception(asked) => stage("exception", asked),
        Command::Run { plan, stage } => run(plan, stage),
        Command::Plans => shelf::plans(),
        Command::Plan { name } => shelf::plan(name),
        Command::Coolpy7 { words } => coolpy7::coolpy7(words),
        Command::Report { run } => shelf::report(run),
        Command::Compare(compare) => shelf::compare(compare),
        Command::Agent(_) | Command::Crew => Ok(PASSED),
    };
    finish(done)
}

/// The exit code of what was done; what could not be is said.
pub fn finish(done: Result<u8, String>) -> ExitCode {
    ExitCode::from(done.unwrap_or_else(|why| {
        note!("{why}");
        NOT_RUN
    }))
}

/// Runs a plan that is a file, or else one that comes along.
fn run(plan: &str, stage: &Stage) -> Result<u8, String> {
    match std::fs::read_to_string(plan) {
        Ok(text) => made::run(plan, &text, &stage.asked, &stage.show, false),
        Err(error) => match Scenario::named(plan) {
            Some(scenario) => {
                made::run(scenario.name, scenario.text, &stage.asked, &stage.show, true)
            }
            None => Err(format!(
                "{plan}: {error}; and there is no built-in plan of that name \
                 (`holdline load plans` lists them)"
            )),
        },
    }
}
