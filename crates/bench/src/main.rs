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
use scenario::Scale;
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

/// Runs scenarios one after the other; one that fails is told and the others still run.
fn run(arguments: &[String]) -> io::Result<()> {
    let scale = Scale { quick: arguments.iter().any(|word| word == "--quick") };
    let names: Vec<&String> = arguments.iter().filter(|word| !word.starts_with("--")).collect();
    let is_one = |word: &str| scenario::ALL.iter().any(|(name, _)| *name == word);
    let means =
        |word: &str, name: &str| if is_one(word) { name == word } else { name.starts_with(word) };
    let wanted = |name: &str| names.is_empty() || names.iter().any(|word| means(word, name));
    let (mut ran, mut failed) = (0, Vec::new());
    for (name, scenario) in scenario::ALL.iter().filter(|(name, _)| wanted(name)) {
        ran += 1;
        if let Err(error) = measure(name, scale, || scenario(scale)) {
            eprintln!("{name}: {error}");
            failed.push(*name);
        }
    }
    if !scale.quick {
        table::write()?;
    }
    match (ran, &failed[..]) {
        (0, _) => Err(io::Error::other("no scenario has such a name; `bench list` has them")),
        (_, []) => Ok(()),
        (_, failed) => Err(io::Error::other(format!("not measured: {}", failed.join(", ")))),
    }
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
