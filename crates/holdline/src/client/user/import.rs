//! `holdline user import`: the users of a file, or of another server's, become accounts, a slice at
//! a time.
//!
//! A slice is as many lines as one call takes. Finished slices stay: an import that breaks off is
//! started again from the beginning, and passes over lines that are done already. It prints what
//! there is to wait for on standard error.

use super::contents::{Contents, ContentsSum};
use super::talk::Talk;
use crate::client::Server;
use clap::{ArgGroup, Args};
use migration::{Moving, MovingLine};
use model::ports::users::ImportForm;
use serde_json::{Value, json};
use server::clock::{began as now, since, wall_ms};
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Lines in one call.
const LINES_MAX: usize = 4_096;

/// Their bytes: half of what the API takes, for what JSON escapes.
const BYTES_MAX: usize = 1 << 20;

/// Bytes of a file.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// How long a slice is tried again that the server has no room for.
const BUSY: Duration = Duration::from_secs(60);

/// How long one slice may take: the dearest hashing of its plain passwords.
const PATIENCE: Duration = Duration::from_secs(120);

/// Time between two lines about the progress.
const TOLD: Duration = Duration::from_secs(1);

/// Files to import, and how.
#[derive(Args)]
#[command(group = ArgGroup::new("source").required(true))]
pub struct Import {
    /// File with password-file lines: NAME:HASH [$scram-sha-256$…] [$scram-sha-1$…] [super]
    /// [disabled], or NAME:$plain$PASSWORD; `-`: standard input
    #[arg(group = "source")]
    file: Option<PathBuf>,
    /// The lines are NAME,PASSWORD
    #[arg(long, requires = "file")]
    csv: bool,
    /// Import a Prosody host with all its data: the folder that contains `accounts`
    #[arg(long, value_name = "DIR", group = "source")]
    prosody: Option<PathBuf>,
    /// Import XEP-0227 files with all their data, as exported by ejabberd and Prosody
    #[arg(long = "xep-0227", value_name = "FILE", num_args = 1.., group = "source")]
    xep_0227: Vec<PathBuf>,
    /// Only accounts of this host
    #[arg(long, value_name = "DOMAIN", requires = "xep_0227")]
    host: Option<String>,
    /// Import accounts only: no contacts, vCards, messages, rooms or other data
    #[arg(long, conflicts_with = "file")]
    accounts_only: bool,
    /// Do not import room archives, which reveal the senders in rooms that showed nicknames only
    #[arg(long, requires = "prosody", conflicts_with = "accounts_only")]
    no_room_archives: bool,
    /// Import nothing if an account cannot be imported or some of its data cannot be read
    #[arg(long, conflicts_with = "file")]
    strict: bool,
    /// Print what would be imported, without contacting a server
    #[arg(long, conflicts_with = "file")]
    dry_run: bool,
}

/// Result of all slices.
struct Sum {
    /// Lines in all.
    lines: usize,
    done: usize,
    made: u64,
    changed: u64,
    same: u64,
    began: Instant,
    /// Time of the last progress report.
    told: Instant,
}

/// Lines of one form.
struct Batch<'a> {
    form: ImportForm,
    lines: Vec<&'a str>,
    /// Where each stands, for messages.
    place: &'a dyn Fn(usize) -> String,
}

/// Imports what was ordered.
pub fn import(server: &Server, order: &Import, json: bool) -> Result<String, String> {
    match &order.file {
        Some(file) => import_file(server, file, order.csv, json),
        None => import_accounts(server, order, json),
    }
}

fn import_file(server: &Server, file: &Path, csv: bool, json: bool) -> Result<String, String> {
    let name = file.display().to_string();
    let text = read(file).map_err(|why| format!("{name}: {why}"))?;
    let lines: Vec<&str> = text.lines().collect();
    let form = if csv { ImportForm::Csv } else { ImportForm::Passwords };
    let mut sum = Sum::of(lines.len());
    let place = |at: usize| format!("{name}:{}", at + 1);
    sum.import(server, &Batch { form, lines, place: &place })?;
    Ok(sum.told(None, json))
}

/// Accounts of another server.
fn import_accounts(server: &Server, order: &Import, json: bool) -> Result<String, String> {
    let Moving { lines, left } = match &order.prosody {
        Some(folder) => migration::prosody::read(folder)?,
        None => migration::xep_0227::read(opened(&order.xep_0227)?, order.host.as_deref())?,
    };
    left.iter().for_each(|left| note!("{left}"));
    let accounts = names(&lines);
    let looked_at = match order.strict || order.dry_run {
        true => contents(None, order, &accounts)?,
        false => ContentsSum::default(),
    };
    let count = left.len() as u64 + looked_at.left_out();
    if order.strict && count > 0 {
        return Err(format!("nothing imported: {count} of these would be left out (--strict)"));
    }
    let mut sum = Sum::of(lines.len());
    if order.dry_run {
        let mut told = json!({ "accounts": lines.len(), "left_out": left.len() });
        told["beside"] = looked_at.json();
        return Ok(match json {
            true => format!("{told}\n"),
            false => format!(
                "{} can be imported, {} cannot\n{}",
                lines.len(),
                left.len(),
                looked_at.told()
            ),
        });
    }
    for run in lines.chunk_by(|one, next| one.form == next.form) {
        let texts = run.iter().map(|line| &*line.text).collect();
        let place = |at: usize| run[at].place.clone();
        sum.import(server, &Batch { form: run[0].form, lines: texts, place: &place })?;
    }
    let beside = contents(Some(server), order, &accounts)?;
    let told = sum.told(Some(left.len()), json);
    Ok(match json {
        true => {
            let mut told: Value = serde_json::from_str(&told).unwrap_or(Value::Null);
            told["beside"] = beside.json();
            format!("{told}\n")
        }
        false => told + &beside.told(),
    })
}

/// Names of the accounts that come over.
fn names(lines: &[MovingLine]) -> HashSet<String> {
    let name = |line: &MovingLine| line.text.split([':', ',']).next().unwrap_or_default().into();
    lines.iter().map(name).collect()
}

/// Imports contacts, messages and the like; without a server they are only checked.
fn contents(
    server: Option<&Server>,
    order: &Import,
    accounts: &HashSet<String>,
) -> Result<ContentsSum, String> {
    let talk = Talk::new(!order.no_room_archives, wall_ms());
    let mut contents = Contents::new(server, accounts, talk);
    if order.accounts_only {
        return Ok(ContentsSum::default());
    }
    match &order.prosody {
        Some(folder) => migration::prosody::walk(folder, &mut contents)?,
        None => {
            let (files, host) = (opened(&order.xep_0227)?, order.host.as_deref());
            migration::xep_0227::walk(files, host, &mut contents)?;
        }
    }
    contents.end()
}

fn opened(files: &[PathBuf]) -> Result<Vec<(String, BufReader<File>)>, String> {
    let open = |path: &PathBuf| {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Ok((name, BufReader::new(file))),
            Err(error) => Err(format!("{name}: {error}")),
        }
    };
    files.iter().map(open).collect()
}

impl Sum {
    fn of(lines: usize) -> Sum {
        let began = now();
        Sum { lines, done: 0, made: 0, changed: 0, same: 0, began, told: began }
    }

    /// Imports lines, a slice at a time.
    fn import(&mut self, server: &Server, batch: &Batch<'_>) -> Result<(), String> {
        let mut at = 0;
        while at < batch.lines.len() {
            let slice = slice(&batch.lines[at..]);
            let answer = slice_sent(server, &json!({ "lines": slice, "form": batch.form.name() }));
            let answer = answer.map_err(|why| format!("{why}{}", self.so_far()))?;
            at += self.add(&answer);
            if let Some(why) = answer["wrong"].as_str() {
                return Err(format!("{}: {why}{}", (batch.place)(at), self.so_far()));
            }
            if since(self.told) >= TOLD && crate::out::is_told() {
                self.told = now();
                note!("{}", progress(self.done, self.lines, since(self.began)));
            }
        }
        Ok(())
    }

    /// An answer more; so many lines are done by it.
    fn add(&mut self, answer: &Value) -> usize {
        let count = |key: &str| answer[key].as_u64().unwrap_or(0);
        let done = count("done") as usize;
        self.done += done;
        self.made += count("made");
        self.changed += count("changed");
        self.same += count("same");
        done
    }

    fn so_far(&self) -> String {
        format!(
            "\n{} of {} lines are done. Correct the error and start again: \
             imported lines are skipped.",
            self.done, self.lines
        )
    }

    /// Results, and how many were left out.
    fn told(&self, left_out: Option<usize>, json: bool) -> String {
        let Sum { made, changed, same, .. } = self;
        let mut told = json!({ "made": made, "changed": changed, "same": same });
        if let (true, Some(count)) = (json, left_out) {
            told["left_out"] = json!(count);
        }
        if json {
            return format!("{told}\n");
        }
        let left_out = left_out.map_or_else(String::new, |count| format!(", {count} left out"));
        let seconds = since(self.began).as_secs_f64();
        format!(
            "{made} created, {changed} changed, {same} unchanged{left_out}, in {seconds:.1} s\n"
        )
    }
}

fn read(file: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().lock().take(FILE_BYTES_MAX + 1).read_to_string(&mut text),
        false => std::fs::File::open(file)
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)),
    };
    match read {
        Err(error) => Err(error.to_string()),
        Ok(bytes) if bytes as u64 > FILE_BYTES_MAX => {
            Err(format!("more than {FILE_BYTES_MAX} bytes: split it"))
        }
        Ok(_) => Ok(text),
    }
}

/// The lines that fit into one call, one at least.
fn slice<'a>(lines: &'a [&'a str]) -> &'a [&'a str] {
    let mut bytes = 0;
    let fits = lines.iter().take(LINES_MAX).take_while(|line| {
        bytes += line.len() + 4;
        bytes <= BYTES_MAX
    });
    &lines[..fits.count().max(1)]
}

/// One slice, of which something is to be done.
fn slice_sent(server: &Server, body: &Value) -> Result<Value, String> {
    let answer = sent(server, "/v1/users", body)?;
    match answer["done"] == 0 && answer["wrong"].is_null() {
        true => Err("the server accepted none of the lines".into()),
        false => Ok(answer),
    }
}

/// One call, tried again while the server has no room for it.
pub(super) fn sent(server: &Server, path: &str, body: &Value) -> Result<Value, String> {
    let began = now();
    loop {
        match server.call_or_busy(PATIENCE, path, body)? {
            Some(answer) => return Ok(answer),
            None if since(began) > BUSY => {
                return Err("the server has been busy for more than a minute".into());
            }
            None => thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// How far it has come, and how long it will go on.
fn progress(done: usize, lines: usize, took: Duration) -> String {
    let a_second = done as f64 / took.as_secs_f64().max(0.001);
    let left_s = (lines - done) as f64 / a_second.max(0.001);
    format!("{done} of {lines} lines, {a_second:.0} per second, {left_s:.0} s left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_what_one_call_takes_and_one_line_at_least() {
        assert_eq!(slice(&["a"; 5_000]).len(), LINES_MAX);
        let long = "x".repeat(BYTES_MAX / 4);
        assert_eq!(slice(&[&*long; 9]).len(), 3);
        let longer = "x".repeat(2 * BYTES_MAX);
        assert_eq!(slice(&[&*longer, "a"]).len(), 1);
    }

    #[test]
    fn what_came_of_it_says_what_was_left_out() {
        let mut sum = Sum::of(5);
        let answer = json!({ "done": 3, "made": 2, "changed": 1, "same": 0 });
        assert_eq!((sum.add(&answer), sum.add(&json!({ "done": 1, "same": 1 }))), (3, 1));
        assert!(sum.so_far().contains("4 of 5 lines"));
        let told = sum.told(Some(7), false);
        assert!(told.starts_with("2 created, 1 changed, 1 unchanged, 7 left out, in "), "{told}");
        assert!(sum.told(None, false).starts_with("2 created, 1 changed, 1 unchanged, in "));
        let told = sum.told(Some(7), true);
        assert_eq!(told, "{\"changed\":1,\"left_out\":7,\"made\":2,\"same\":1}\n");
        assert_eq!(sum.told(None, true), "{\"changed\":1,\"made\":2,\"same\":1}\n");
    }

    #[test]
    fn progress_says_how_long_it_will_go_on() {
        let told = progress(50_000, 200_000, Duration::from_secs(2));
        assert_eq!(told, "50000 of 200000 lines, 25000 per second, 6 s left");
    }
}
