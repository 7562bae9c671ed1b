//! `holdline user import`: the users of a file become accounts, a slice at a time.
//!
//! A slice is as many lines as one call takes. What was done is done: an import that breaks off is
//! started again from the beginning, and goes over what is so already. It prints what there is to
//! wait for on standard error.

use crate::client::Server;
use clap::Args;
use serde_json::{Value, json};
use server::clock::{began as now, since};
use std::io::Read;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

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

/// Between two lines about the progress.
const TOLD: Duration = Duration::from_secs(1);

/// What to import.
#[derive(Args)]
pub struct Import {
    /// Lines as in a password file: NAME:HASH [$scram-sha-256$…] [super] [disabled], or
    /// NAME:$plain$PASSWORD; `-` is standard input
    file: PathBuf,
    /// Lines are NAME,PASSWORD
    #[arg(long)]
    csv: bool,
}

/// What came of all slices.
#[derive(Default)]
struct Sum {
    done: usize,
    made: u64,
    changed: u64,
    same: u64,
}

/// Imports a file.
pub fn import(server: &Server, order: &Import, json: bool) -> Result<String, String> {
    let name = order.file.display().to_string();
    let text = read(order).map_err(|why| format!("{name}: {why}"))?;
    let lines: Vec<&str> = text.lines().collect();
    let form = if order.csv { "csv" } else { "passwords" };
    let (mut sum, began, mut told) = (Sum::default(), now(), now());
    while sum.done < lines.len() {
        let slice = slice(&lines[sum.done..]);
        let answer = sent(server, &json!({ "lines": slice, "form": form }));
        let answer = answer.map_err(|why| format!("{}{}", why, sum.so_far(lines.len())))?;
        sum.add(&answer);
        if let Some(why) = answer["wrong"].as_str() {
            let line = sum.done + 1;
            return Err(format!("{name}:{line}: {why}{}", sum.so_far(lines.len())));
        }
        if since(told) >= TOLD && crate::out::is_told() {
            told = now();
            note!("{}", progress(sum.done, lines.len(), since(began)));
        }
    }
    let Sum { made, changed, same, .. } = sum;
    let seconds = since(began).as_secs_f64();
    Ok(match json {
        true => {
            let told = json!({ "made": made, "changed": changed, "same": same });
            format!("{told}\n")
        }
        false => format!("{made} made, {changed} changed, {same} as before, in {seconds:.1} s\n"),
    })
}

impl Sum {
    fn add(&mut self, answer: &Value) {
        let count = |key: &str| answer[key].as_u64().unwrap_or(0);
        self.done += count("done") as usize;
        self.made += count("made");
        self.changed += count("changed");
        self.same += count("same");
    }

    fn so_far(&self, lines: usize) -> String {
        format!(
            "\n{} of {lines} lines are done; start again when it is mended: they stay as they are.",
            self.done
        )
    }
}

fn read(order: &Import) -> Result<String, String> {
    let mut text = String::new();
    let read = match order.file.as_os_str() == "-" {
        true => std::io::stdin().lock().take(FILE_BYTES_MAX + 1).read_to_string(&mut text),
        false => std::fs::File::open(&order.file)
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

/// One slice, tried again while the server has no room for it.
fn sent(server: &Server, body: &Value) -> Result<Value, String> {
    let began = now();
    loop {
        match server.call_or_busy(PATIENCE, "/v1/users", body)? {
            Some(answer) if answer["done"] == 0 && answer["wrong"].is_null() => {
                return Err("the server takes none of the lines".into());
            }
            Some(answer) => return Ok(answer),
            None if since(began) > BUSY => {
                return Err("the server is busy for more than a minute".into());
            }
            None => thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// How far it has come, and how long it will go on.
fn progress(done: usize, lines: usize, took: Duration) -> String {
    let a_second = done as f64 / took.as_secs_f64().max(0.001);
    let left_s = (lines - done) as f64 / a_second.max(0.001);
    format!("{done} of {lines} lines, {a_second:.0} a second, {left_s:.0} s left")
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
    fn progress_says_how_long_it_will_go_on() {
        let told = progress(50_000, 200_000, Duration::from_secs(2));
        assert_eq!(told, "50000 of 200000 lines, 25000 a second, 6 s left");
    }
}
