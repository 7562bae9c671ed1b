//! `holdline doctor`: whether this machine is fit for so many connections, and what to change.
//!
//! The command prints the rows of `observe::doctor`, the worst first, and changes nothing unless
//! told to.

use admin::CertificateStatus;
use base::text::escaped;
use clap::{Args, ValueEnum};
use lab::host::{Fitness, HostRow, Need, Role};
use observe::doctor::{Applied, apply, examine, first_limit, fit, grouped, lasting};
use server::config::{Config, environment};
use server::start::cluster::tools::{NatsFact, nats_facts};
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// For what the machine shall be fit.
#[derive(Args)]
pub struct Arguments {
    /// Number of concurrent connections
    #[arg(long, value_name = "N")]
    connections: u64,
    /// Which end of the connections this machine is
    #[arg(long, value_enum, default_value_t = End::Server)]
    role: End,
    /// Number of source addresses used (client)
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = some())]
    sources: u32,
    /// Number of target addresses and ports used (client)
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = some())]
    targets: u32,
    /// Number of processes that share the connections
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = some())]
    processes: u32,
    /// PID of the running server or client: check its own limits and listeners
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Check the certificates of this configuration, and the NATS servers of its cluster, too
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Apply the remedies that are kernel settings or process limits
    #[arg(long)]
    apply: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A number that is not zero.
fn some() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum End {
    /// Accepts connections
    Server,
    /// Opens connections
    Client,
}

/// Looks, prints, and says by the exit code whether the machine is fit.
pub fn doctor(arguments: Arguments) -> ExitCode {
    let role = if arguments.role == End::Server { Role::Server } else { Role::Client };
    let need = Need {
        connections: arguments.connections,
        role,
        sources: arguments.sources,
        targets: arguments.targets,
        processes: arguments.processes,
        pid: arguments.pid,
    };
    if let Err(why) = arguments.pid.map_or(Ok(()), |pid| observe::Process::of_pid(pid).map(drop)) {
        note!("{why}");
        return ExitCode::from(2);
    }
    let configured = match arguments.config.as_deref().map(configured).transpose() {
        Ok(rows) => rows.unwrap_or_default(),
        Err(why) => {
            note!("{}", why.trim_end());
            return ExitCode::from(2);
        }
    };
    let mut rows = examine(&need);
    let files = lasting(&rows);
    let mut applied = Vec::new();
    if arguments.apply {
        applied = apply(&rows);
        rows = examine(&need);
    }
    rows.extend(configured);
    let text = if arguments.json {
        json(&need, (&rows, &files), &applied).to_string()
    } else {
        let done: String = applied.iter().map(done).collect();
        let table = table(rows.clone(), crate::out::is_terminal());
        let space = if done.is_empty() { "" } else { "\n" };
        let stays = stays(&files);
        format!("{table}{space}{done}{stays}\n{}", sentence(&need, &rows))
    };
    crate::out::paint(&format!("{text}\n"));
    if fit(&rows) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A row for each certificate of a configuration, and for what is known of its NATS servers.
fn configured(file: &Path) -> Result<Vec<HostRow>, String> {
    let config = Config::load(Some(file), environment()).map_err(|error| error.to_string())?;
    let certificates = server::start::certificates(&config);
    let facts = nats_facts(&config)?;
    Ok(certificates.iter().map(certificate).chain(facts.into_iter().map(nats)).collect())
}

fn nats(it: NatsFact) -> HostRow {
    HostRow {
        item: it.item,
        value: it.value,
        need: it.need.to_owned(),
        fitness: match (it.is_good, it.is_vital) {
            (true, _) => Fitness::Good,
            (false, false) => Fitness::Weak,
            (false, true) => Fitness::Bad,
        },
        symptom: it.symptom.to_owned(),
        remedy: it.remedy.to_owned(),
        root: false,
        connections_max: None,
    }
}

fn certificate(it: &CertificateStatus) -> HostRow {
    let fitness = match it.state {
        "expired" => Fitness::Bad,
        "expiring" => Fitness::Weak,
        _ => Fitness::Good,
    };
    HostRow {
        item: format!("{} {}", it.kind.replace('_', " "), it.file),
        value: match it.days_left {
            days if it.state == "expired" => format!("expired {} days ago", -days),
            days => format!("{days} days left"),
        },
        need: "more than 30 days".to_owned(),
        fitness,
        symptom: match it.state {
            "expired" => "TLS with clients fails",
            _ => "TLS with clients fails once it has expired",
        }
        .to_owned(),
        remedy: "renew it, then `systemctl reload holdline`".to_owned(),
        root: true,
        connections_max: None,
    }
}

/// Files with their text.
type Files = [(&'static str, String)];

fn json(
    need: &Need,
    (rows, files): (&[HostRow], &Files),
    applied: &[Applied],
) -> serde_json::Value {
    let files = files.iter().map(|(path, text)| serde_json::json!({ "path": path, "text": text }));
    let limit = first_limit(rows);
    let applied = applied.iter().map(|applied| {
        let done = applied.outcome.is_ok();
        let text = applied.outcome.as_ref().unwrap_or_else(|why| why);
        serde_json::json!({ "item": applied.item, "done": done, "outcome": text })
    });
    serde_json::json!({
        "need": need,
        "fit": fit(rows),
        "connections_max": limit.and_then(|row| row.connections_max),
        "first_limit": limit.map(|row| &row.item),
        "applied": applied.collect::<Vec<_>>(),
        "rows": rows,
        "lasting": files.collect::<Vec<_>>(),
    })
}

/// Widest column of the table; what is longer sticks out.
const WIDTH_MAX: usize = 42;

/// The word and the colour of a verdict.
fn verdict(fitness: Fitness) -> (&'static str, &'static str) {
    match fitness {
        Fitness::Bad => ("BAD", "\x1b[1;31m"),
        Fitness::Weak => ("weak", "\x1b[33m"),
        Fitness::Unknown => ("?", "\x1b[2m"),
        Fitness::Good => ("good", "\x1b[32m"),
    }
}

/// A row whose names of processes and files are fit to be shown.
fn shown(row: HostRow) -> HostRow {
    let fit = |text: String| escaped(&text).into_owned();
    HostRow { item: fit(row.item), value: fit(row.value), remedy: fit(row.remedy), ..row }
}

/// The rows, the worst first; under those that are not good enough, what they do and how they are
/// set right.
fn table(mut rows: Vec<HostRow>, colours: bool) -> String {
    rows.sort_by_key(|row| Reverse(row.fitness));
    let width = |head: &str, of: fn(&HostRow) -> &str| {
        let widths = rows.iter().map(|row| of(row).chars().count());
        widths.filter(|width| *width <= WIDTH_MAX).max().unwrap_or(0).max(head.len())
    };
    let (items, values) = (width("SETTING", |row| &row.item), width("VALUE", |row| &row.value));
    let mut out = format!("{:<5} {:<items$}  {:<values$}  NEED\n", "", "SETTING", "VALUE");
    for row in rows.into_iter().map(shown) {
        let (word, colour) = verdict(row.fitness);
        let word = match colours {
            true => format!("{colour}{word:<5}\x1b[0m"),
            false => format!("{word:<5}"),
        };
        out += &format!("{word} {:<items$}  {:<values$}  {}\n", row.item, row.value, row.need);
        if row.fitness >= Fitness::Weak {
            out += &format!("      otherwise: {}\n", row.symptom);
            let by = if row.root { " (root)" } else { "" };
            out += &format!("      remedy{by}: {}\n", row.remedy);
        }
    }
    out
}

/// Files whose settings last over a restart of the machine, for the user to write.
fn stays(files: &Files) -> String {
    let indented =
        |text: &str| text.lines().map(|line| format!("    {line}\n")).collect::<String>();
    let each = |(path, text): &(&str, String)| format!("  {path}\n{}", indented(text));
    let files: String = files.iter().map(each).collect();
    match files.is_empty() {
        true => files,
        false => format!("\nTo keep the settings across a reboot:\n{files}"),
    }
}

fn done(applied: &Applied) -> String {
    match &applied.outcome {
        Ok(done) => format!("done: {done}\n"),
        Err(why) => format!("not done: {}: {why}\n", applied.item),
    }
}

/// Whether it is fit, for how many, and what ends it first.
fn sentence(need: &Need, rows: &[HostRow]) -> String {
    let end = if need.role == Role::Server { "server" } else { "client" };
    let number = |fitness| rows.iter().filter(|row| row.fitness == fitness).count();
    let (bad, weak) = (number(Fitness::Bad), number(Fitness::Weak));
    let unknown = number(Fitness::Unknown);
    let verdict = match (bad, weak) {
        (0, 0) => "is fit".to_owned(),
        (0, 1) => "is fit, with 1 weak setting,".to_owned(),
        (0, _) => format!("is fit, with {weak} weak settings,"),
        _ => format!("is NOT fit ({bad} bad, {weak} weak)"),
    };
    let mut text =
        format!("This machine {verdict} for {} connections as {end}", grouped(need.connections));
    if let Some((row, most)) = first_limit(rows).and_then(|row| Some((row, row.connections_max?))) {
        text +=
            &format!(".\nThe first hard limit is {}, at {} connections", row.item, grouped(most));
    }
    if unknown > 0 {
        text += &format!(". Settings marked ? could not be read ({unknown})");
    }
    text + "."
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(item: &str, fitness: Fitness, connections_max: Option<u64>) -> HostRow {
        HostRow {
            item: item.to_owned(),
            value: "1".to_owned(),
            need: "2".to_owned(),
            fitness,
            symptom: "it breaks".to_owned(),
            remedy: "mend it".to_owned(),
            root: true,
            connections_max,
        }
    }

    #[test]
    fn the_worst_comes_first_and_says_what_to_do() {
        let rows = vec![row("a", Fitness::Good, None), row("bb", Fitness::Bad, Some(7))];
        let text = table(rows.clone(), false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "BAD   bb       1      2");
        assert_eq!(lines[3], "      remedy (root): mend it");
        assert_eq!((lines[4], lines.len()), ("good  a        1      2", 5));
        assert!(!text.contains('\x1b') && table(rows.clone(), true).contains("\x1b[1;31mBAD"));
        let text = sentence(&Need::of(10, Role::Server), &rows);
        assert!(text.contains("NOT fit (1 bad, 0 weak) for 10 connections as server"), "{text}");
        assert!(text.contains("The first hard limit is bb, at 7 connections"), "{text}");
    }

    #[test]
    fn a_certificate_that_has_expired_is_bad_and_one_that_expires_soon_is_weak() {
        let row = |state, days_left| {
            let (kind, file) = ("certificate", "a.pem".to_owned());
            let (subject, listeners, expires_ms) = ("CN=a".to_owned(), Vec::new(), 0);
            certificate(&CertificateStatus {
                kind,
                file,
                subject,
                listeners,
                expires_ms,
                days_left,
                state,
            })
        };
        let fitness = |state, days_left| row(state, days_left).fitness;
        assert_eq!(fitness("valid", 31), Fitness::Good);
        assert_eq!(fitness("expiring", 30), Fitness::Weak);
        assert_eq!(fitness("expired", -1), Fitness::Bad);
        let told = row("expiring", 3);
        assert_eq!((&*told.item, &*told.value), ("certificate a.pem", "3 days left"));
        let told = row("expired", -30);
        assert_eq!(
            (&*told.value, &*told.symptom),
            ("expired 30 days ago", "TLS with clients fails")
        );
    }

    #[test]
    fn json_names_the_limit_and_what_was_done() {
        let rows = [row("a", Fitness::Weak, Some(9)), row("b", Fitness::Good, Some(8))];
        let applied = [Applied { item: "a".to_owned(), outcome: Err("no".to_owned()) }];
        let value = json(&Need::of(10, Role::Client), (&rows, &[]), &applied);
        assert_eq!((&value["fit"], &value["first_limit"]), (&true.into(), &"b".into()));
        assert_eq!(
            (&value["applied"][0]["done"], &value["rows"][0]["fitness"]),
            (&false.into(), &"weak".into())
        );
    }
}
