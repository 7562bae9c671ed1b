//! wrk: its command line, its scripts and its output, for HTTP and for long connections.
//!
//! `wrk http://127.0.0.1/ -t 2 -c 100 -s post.lua` does what it always did. `wrk
//! miop://HOST:pk@127.0.0.1:7000/ -t 2 -c 10000 --latency -d 30s --timeout 15` opens ten thousand
//! devices `HOST-0` to `HOST-9999` of product `pk`; a device's first request is its Bind, the next
//! ones are heartbeats, each as soon as the last was answered, or after the script's `delay()`.
//! Unlike wrk, clients that failed wait before they come back, requests that are never answered are
//! counted, every end has its cause, and no times are made up afterwards.

mod arguments;
mod block;
mod client_slot;
mod logic;
mod profiles;
mod script;
mod tally;
mod target;
mod units;

pub use arguments::{Arguments, Invocation, parse};
pub use block::{WrkRun, print};
pub use tally::Tally;
pub use target::WrkTarget;

use crate::script::{Bounds, Script, ScriptSetting, ThreadShare};
use client_slot::Scratch;
use load::effort;
use load::fleet::{check_descriptors, shards};
use load::target::Speech;
use logic::{Job, WrkLogic};
use model::limits::{FRAME_BYTES_HARD_MAX, Limits};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Output of the program. Neither may fail: the reader may have gone away.
pub struct Lanes {
    /// Callback for results.
    pub out: fn(&str),
    /// Callback for errors.
    pub err: fn(&str),
}

/// Runs wrk with these arguments (without the program's name). Returns the exit code: 0, or 1 when
/// nothing could be run or a script failed.
pub fn run(args: Vec<String>, lanes: &Lanes) -> i32 {
    let Lanes { out, err } = lanes;
    match parse(&args) {
        Ok(Invocation::Help) => {
            out(&format!("{}\n", arguments::USAGE));
            0
        }
        Ok(Invocation::Version) => {
            out(&format!("wrk (holdline {})\n", env!("CARGO_PKG_VERSION")));
            0
        }
        Ok(Invocation::Run(arguments)) => match measure(&arguments, lanes) {
            Ok(()) => 0,
            Err(message) => {
                err(&format!("wrk: {message}\n"));
                1
            }
        },
        Err(message) => {
            err(&format!("wrk: {message}\n\n{}\n", arguments::USAGE));
            1
        }
    }
}

fn measure(arguments: &Arguments, lanes: &Lanes) -> Result<(), String> {
    let say = lanes.out;
    let limit = net::descriptors::raise();
    check_descriptors(u64::from(arguments.connections), limit)
        .map_err(|message| format!("-c {}: {message}", arguments.connections))?;
    let source = match &arguments.script {
        Some(path) => {
            let text =
                std::fs::read(path).map_err(|error| format!("cannot open {path}: {error}"))?;
            Some((path.as_str(), text))
        }
        None => None,
    };
    let source = source.as_ref().map(|(name, text)| (*name, text.as_slice()));
    warn(arguments, lanes.err);
    let before = effort::of_this_process();
    let generator = PreparedThreads::gather(arguments, source)?;
    say(&block::opening(arguments));
    let Outcome { main, scripts: _scripts, tally, settled } = generator.work()?;
    let cpu = effort::of_this_process().saturating_sub(before);
    let run = WrkRun { arguments, tally: &tally, settled, cpu };
    let (first, second) = print(&run);
    say(&first);
    if let Some(main) = main {
        let latency = tally.latency.corrected.clone();
        main.done(&tally.summary(), latency, tally.per_s.clone())?;
    }
    say(&second);
    Ok(())
}

/// Warns of arguments without effect before the test.
fn warn(arguments: &Arguments, err: fn(&str)) {
    let target = &arguments.target;
    if !arguments.headers.is_empty() && target.scheme != Speech::Http {
        err(&format!("wrk: -H has no meaning for {} and is left out\n", target.name));
    }
    if arguments.rate.is_none() && arguments.uncorrected {
        err("wrk: -U says nothing without -R: no plan sets times that could be corrected\n");
    }
    if target.binds() && profiles::has_rival(&target.prefix) {
        err(&format!(
            "wrk: WARNING: another wrk on this machine has clients {}-0, {}-1, ... too: the two \
             take each other's sessions over. Give each a prefix of its own\n",
            target.prefix, target.prefix
        ));
    }
}

/// The threads before they begin, and the script's main state.
struct PreparedThreads {
    job: Arc<Job>,
    main: Option<Script>,
    logics: Vec<WrkLogic>,
}

/// Result of a thread: its counts, and whether its sums agreed after its end too.
type Done = Result<(Tally, bool), String>;

/// A test that is over.
struct Outcome {
    /// The script's main state.
    main: Option<Script>,
    /// The threads' states, whose globals `done` may ask for.
    scripts: Vec<Script>,
    /// Counts of the test.
    tally: Tally,
    /// Whether all sums agreed after the end too.
    settled: bool,
}

impl PreparedThreads {
    /// Loads the script for each thread and makes its clients.
    fn gather(
        arguments: &Arguments,
        source: Option<(&str, &[u8])>,
    ) -> Result<PreparedThreads, String> {
        let target = &arguments.target;
        let setting = ScriptSetting {
            scheme: target.name.to_owned(),
            host: target.host.clone(),
            port: target.port_given.clone(),
            path: target.path.clone(),
            headers: arguments.headers.clone(),
            http: target.scheme == Speech::Http,
        };
        let state = || Script::new(&setting, source, Bounds::default());
        let scripted = source.is_some() || target.scheme == Speech::Http;
        let main = if scripted { Some(state()?) } else { None };
        let addr = match &main {
            Some(main) => {
                let service = target.port.to_string();
                let found = main.resolve(&target.host, &service)?;
                let unable = || format!("unable to connect to {}:{service}", target.host);
                *found.first().ok_or_else(unable)?
            }
            None => crate::script::first_of(&target.host, target.port)?,
        };
        let job = Arc::new(profiles::job(arguments, addr, shards::random()?)?);
        let mut logics = Vec::new();
        for thread in 0..arguments.threads {
            let share = ThreadShare::new(addr);
            let script = match &main {
                Some(main) => {
                    let script = state()?;
                    script.setup(main, &share)?;
                    script.init(&arguments.words)?;
                    Some(script)
                }
                None => None,
            };
            let scratch = Scratch::new(shards::hash_key()?);
            let logic = WrkLogic::new(job.clone(), thread, share, script, scratch)?;
            logics.push(logic);
        }
        Ok(PreparedThreads { job, main, logics })
    }

    /// Runs all threads to their end.
    fn work(self) -> Result<Outcome, String> {
        let PreparedThreads { job, main, logics } = self;
        let _ = signal_hook::flag::register_conditional_shutdown(
            signal_hook::consts::SIGINT,
            130,
            job.stop.clone(),
        );
        let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, job.stop.clone());
        let (began, seed) = (load::fleet::instant(), job.plan.seed);
        let (_, shards) = shards::shards(logics.into_iter(), limits(&job), seed, began, false)?;
        let mut threads: Vec<JoinHandle<(Done, Option<Script>)>> = Vec::new();
        for (thread, mut shard) in shards.into_iter().enumerate() {
            let builder = std::thread::Builder::new().name(format!("wrk-{thread}"));
            let handle = builder.spawn(move || {
                shard.run();
                let logic = shard.logic_mut();
                (logic.outcome(), logic.take_script())
            });
            threads.push(handle.map_err(shards::failed)?);
        }
        let (mut tally, mut settled, mut scripts) = (Tally::default(), true, Vec::new());
        for thread in threads {
            let broken = |_| "a thread of the tester broke off; please report it".to_owned();
            let (outcome, script) = thread.join().map_err(broken)?;
            let (part, agreed) = outcome?;
            tally.add(&part);
            settled &= agreed;
            scripts.extend(script);
        }
        Ok(Outcome { main, scripts, tally, settled })
    }
}

/// The tester's own limits: room for all clients on any thread, and answers as large as any server
/// may send.
fn limits(job: &Job) -> Limits {
    Limits {
        connections_max: job.plan.count,
        frame_bytes_max: FRAME_BYTES_HARD_MAX,
        out_bytes_max: 64 * FRAME_BYTES_HARD_MAX,
        out_frames_max: 1 << 20,
        ..Limits::default()
    }
}

#[cfg(test)]
mod tests;
