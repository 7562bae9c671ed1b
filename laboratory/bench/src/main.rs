//! The measurements: `bench run [NAMES] [--quick]` measures, stores and tabulates.
//!
//! Memory is a slope between connection counts, speed the server's CPU for an operation or a ratio
//! against a minimal program in the same run, for machines are shared and noisy. Everything is
//! bounded and stops by itself. [`scenario`] lists what is measured, [`targets`] what is owed.
//! `bench/README.md` explains it for readers of results.

mod api;
mod caller;
mod child;
mod clock;
mod crowd;
mod floor;
mod holdline;
mod inside;
mod measure;
mod results;
mod scenario;
mod swarm;
mod targets;

use results::{Before, Outcome, store, table};
use scenario::{Scale, Scenario};
use std::io;
use std::process::ExitCode;

/// The allocator of the shipped binary: engines that are measured within this process have it, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
bench run [NAMES] [--quick]    measure (all, or those of these names, or whose names begin so)
                               and store
bench vm [--mqtt|--mqtt-kept|--xmpp|--lab] [--devices N] [--mem MB] [--seconds S] [--quick]
                               a million devices, or MQTT clients with a
                               subscription each, without and with sessions
                               that are kept, or 30,000 sessions of XMPP,
                               or devices of a plan of `holdline load`, in the
                               laboratory's VM
bench tigase                   Tigase's test of XMPP for its 144 minutes
bench stages [--clients N] [--only NAME] [--redis none]
                               the laboratory's four stages against Holdline
                               (MIOP, MQTT) and mosquitto; Holdline has a Redis
                               beside it that `exception` breaks
bench table                    make bench/results/README.md from the stored results
bench list                     the scenarios
bench floor echo|login|hold    a minimal program, until its input ends
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, rest)) = arguments.split_first() else {
        print!("{USAGE}");
        return ExitCode::from(2);
    };
    let done = match (command.as_str(), rest) {
        ("run", names) => run(names),
        ("vm", options) => vm(options),
        ("tigase", []) => {
            let whole = scenario::lab::chat::tigase::whole;
            measure("xmpp-tigase-whole", Scale { quick: false }, whole)
                .and_then(|()| table::write())
        }
        ("stages", options) => scenario::stages::run(options),
        ("table", []) => table::write(),
        ("list", []) => {
            scenario::ALL.iter().for_each(|(name, _)| println!("{name}"));
            Ok(())
        }
        ("floor", [name]) => floor::run(name),
        // The rest is said by this program to itself, in other processes.
        ("gateway", []) => scenario::lab::chat::gateway::run(),
        ("caller", rest) => caller::orders::run(rest),
        ("crowd", rest) => crowd::run(rest),
        ("swarm", rest) => swarm::orders::run(rest),
        ("inside", rest) => inside::run(rest),
        ("log", rest) => small(|| scenario::log::orders::run(rest)),
        ("presence", rest) => small(|| scenario::presence_copy::orders(rest)),
        _ => {
            print!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs what is measured in a process of its own as the shipped binary runs: in small pages.
/// Programs that are started inherit that, so it is not for whoever starts others.
fn small(work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    // A kernel that does not know the call has none.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    work()
}

/// Runs scenarios one after the other; one that fails is reported and the others still run.
fn run(arguments: &[String]) -> io::Result<()> {
    let (scale, scenarios) = chosen(arguments)?;
    let mut failed = Vec::new();
    for (name, scenario) in scenarios {
        if let Err(error) = measure(name, scale, || scenario(scale)) {
            eprintln!("{name}: {error}");
            failed.push(name);
        }
    }
    if !scale.quick {
        table::write()?;
    }
    match &failed[..] {
        [] => Ok(()),
        failed => Err(io::Error::other(format!("not measured: {}", failed.join(", ")))),
    }
}

/// Scenarios of these names, or whose names begin so; all where none is named. A word that means
/// nothing is refused before anything is measured.
fn chosen(arguments: &[String]) -> io::Result<(Scale, Vec<Scenario>)> {
    let (options, names): (Vec<&str>, Vec<&str>) =
        arguments.iter().map(String::as_str).partition(|word| word.starts_with("--"));
    if let Some(word) = options.iter().find(|word| **word != "--quick") {
        return Err(io::Error::other(format!("{word} is no option of run, which has --quick")));
    }
    let is_one = |word: &str| scenario::ALL.iter().any(|(name, _)| *name == word);
    let means =
        |word: &str, name: &str| if is_one(word) { name == word } else { name.starts_with(word) };
    let is_none = |word: &str| !scenario::ALL.iter().any(|(name, _)| means(word, name));
    if let Some(word) = names.iter().find(|word| is_none(word)) {
        let told = format!("no scenario's name begins with {word}; `bench list` has them");
        return Err(io::Error::other(told));
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|word| means(word, name));
    let scenarios = scenario::ALL.iter().copied().filter(|(name, _)| wanted(name)).collect();
    Ok((Scale { quick: !options.is_empty() }, scenarios))
}

fn vm(options: &[String]) -> io::Result<()> {
    let options = scenario::vm::Options::parse(options)?;
    let (name, _) = options.callers.names();
    measure(name, Scale { quick: options.quick }, || scenario::vm::run(&options))?;
    if options.quick { Ok(()) } else { table::write() }
}

fn measure(
    name: &str,
    scale: Scale,
    scenario: impl FnOnce() -> io::Result<Outcome>,
) -> io::Result<()> {
    println!("{name} ...");
    let before = Before::note();
    let outcome = scenario()?;
    for figure in &outcome.figures {
        let target = targets::of(name, &figure.name);
        let verdict = target.map_or("", |target| target.verdict(figure.value).name());
        println!("  {:<48} {:>14.3} {:<20} {verdict}", figure.name, figure.value, figure.unit);
    }
    let file = store(name, scale.quick, &before, &outcome)?;
    println!("  stored in {}", file.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> Result<Vec<&'static str>, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let scenarios = chosen(&words).map_err(|error| error.to_string())?.1;
        Ok(scenarios.into_iter().map(|(name, _)| name).collect())
    }

    #[test]
    fn a_name_means_itself_or_those_that_begin_so_and_a_word_without_meaning_is_refused() {
        assert_eq!(names(&["echo"]), Ok(vec!["echo"]));
        assert_eq!(names(&["xmpp"]), Ok(vec!["xmpp"]), "and not those that begin so");
        assert!(names(&["log-"]).is_ok_and(|names| names.len() > 3));
        assert_eq!(names(&["--quick"]).map(|names| names.len()), Ok(scenario::ALL.len()));
        assert!(names(&["echo", "no-such"]).is_err_and(|error| error.contains("no-such")));
        assert!(names(&["--help"]).is_err_and(|error| error.contains("--help")));
    }
}
