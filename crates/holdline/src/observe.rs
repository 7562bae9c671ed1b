//! `holdline observe`: watches a machine and, on it, a process and a server's metrics page.
//!
//! The command runs beside any server and needs nothing of it. A line a second shows the figures,
//! and those that rose and should not; at the end a summary names the limit that was met. Rows go
//! to a CSV file, or to JSON lines. The command reads no clock but the kernel's uptime.

mod line;
mod sink;
mod summary;

use clap::Args;
use lab::plan::Span;
use lab::series::{Reading, Series};
use observe::{ObservedHost, Process, Scrape};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Machine or process to watch, and for how long.
#[derive(Args)]
pub struct Arguments {
    /// PID of a local process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// TCP port of a local process; the process is found again after a restart
    #[arg(long, value_name = "N", conflicts_with = "pid")]
    port: Option<u16>,
    /// Include the child processes of --pid, as --port does
    #[arg(long, requires = "pid")]
    children: bool,
    /// URL of the server's Prometheus metrics
    #[arg(long, value_name = "URL")]
    metrics: Option<String>,
    /// Token for --metrics
    #[arg(long, env = "HOLDLINE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Sampling interval
    #[arg(long, value_name = "TIME", default_value = "1s")]
    every: Span,
    /// How long to run; until Ctrl-C by default
    #[arg(long = "for", value_name = "TIME")]
    whole: Option<Span>,
    /// Write all figures to this CSV file, one row per sample
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    csv: Option<PathBuf>,
    /// Print JSON, one object per sample
    #[arg(long)]
    json: bool,
}

/// The shortest time between two readings: the kernel's uptime has hundredths.
const EVERY_MIN: Duration = Duration::from_millis(100);
/// How often a wait looks whether it shall end.
const SLICE: Duration = Duration::from_millis(100);

/// Watches until the time is over or somebody presses ^C.
pub fn observe(arguments: Arguments) -> ExitCode {
    match watch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            note!("{why}");
            ExitCode::from(2)
        }
    }
}

/// Watched machine or process.
struct Watched {
    host: ObservedHost,
    process: Option<Process>,
    page: Option<Scrape>,
}

impl Watched {
    fn of(arguments: &Arguments) -> Result<Watched, String> {
        let process = match (arguments.pid, arguments.port) {
            (Some(pid), _) => {
                let process = Process::of_pid(pid)?;
                Some(if arguments.children { process.with_children(true) } else { process })
            }
            (_, Some(port)) => Some(Process::of_port(port)?),
            _ => None,
        };
        let pid = process.as_ref().and_then(Process::pid);
        let host = pid.map_or_else(ObservedHost::of_this_machine, ObservedHost::around);
        let page = arguments
            .metrics
            .as_deref()
            .map(|url| Scrape::new(url).bearer(arguments.token.clone()).timed(load::fleet::micros));
        Ok(Watched { host, process, page })
    }

    /// All figures, with the names of the docs; the page's under `server.`.
    fn read(&mut self) -> Reading {
        let mut all = self.host.read();
        if let Some(process) = &mut self.process {
            all.extend(process.read());
        }
        if let Some(page) = &mut self.page {
            all.extend(page.read().of_whom("server"));
        }
        all
    }

    /// Notes beside the figures.
    fn news(&mut self) -> Option<String> {
        self.page.as_mut().and_then(Scrape::trouble)
    }

    fn title(&self) -> String {
        let name = |process: &Process| {
            let (pid, name) = process.pid().zip(process.name())?;
            Some(format!(", {name} (process {pid})"))
        };
        let process = self.process.as_ref().and_then(name).unwrap_or_default();
        let here = observe::environment();
        format!("{}, Linux {}, {} cores{process}", here.host, here.kernel, here.cores)
    }
}

fn watch(arguments: &Arguments) -> Result<(), String> {
    let every = arguments.every.0.max(EVERY_MIN);
    let mut watched = Watched::of(arguments)?;
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| error.to_string())?;
    let uptime_s = |watched: &Watched| watched.host.uptime_s();
    let began_s = uptime_s(&watched).ok_or("/proc/uptime cannot be read: is this Linux?")?;
    let mut sink = sink::Sink::of(arguments.csv.as_deref(), arguments.json)?;
    let shown = !arguments.json;
    let first = watched.read();
    let with_process = watched.process.is_some();
    let mut lines = line::Lines::new(with_process, crate::out::is_terminal(), first.clone());
    if shown {
        out!("{}", watched.title());
    }
    let mut series = Series::default();
    series.push(0, 0, &summary::of_target(first));
    for row in 1_u32.. {
        let due_s = began_s + (every * row).as_secs_f64();
        let last = arguments.whole.is_some_and(|whole| every * row > whole.0);
        // A file goes on without a reader.
        let unread = crate::out::is_closed() && arguments.csv.is_none();
        if last || unread || !wait(due_s, || uptime_s(&watched), &mut signals) {
            break;
        }
        let unix_s = watched.host.unix_s().unwrap_or_default();
        let reading = watched.read();
        // The page may have come late: the machine's own figures are from before.
        let passed_s = reading.of("host.uptime_s").unwrap_or(due_s) - began_s;
        sink.write(unix_s, passed_s, &reading)?;
        if shown {
            lines.print(unix_s, passed_s, &reading);
        }
        if let Some(news) = watched.news() {
            note!("{news}");
        }
        series.push((passed_s * 1_000.0) as u64, 0, &summary::of_target(reading));
    }
    if shown {
        crate::out::print(&summary::summary(series));
    }
    sink.end()
}

/// Waits until the uptime is that; false: somebody wants an end.
fn wait(due_s: f64, uptime_s: impl Fn() -> Option<f64>, signals: &mut Signals) -> bool {
    loop {
        if signals.pending().next().is_some() {
            return false;
        }
        let left_s = uptime_s().map_or(0.0, |now| due_s - now);
        if left_s <= 0.0 {
            return true;
        }
        std::thread::sleep(Duration::from_secs_f64(left_s).min(SLICE));
    }
}
