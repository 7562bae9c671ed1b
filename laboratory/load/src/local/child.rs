//! A further process of this program that holds a part of the clients.
//!
//! Parent and child speak in lines of JSON over the child's standard input and output: one
//! question, one answer. A child whose parent is gone finds its input ended and goes too. One that
//! is lost takes its clients with it: they count as [`Cause::AgentLost`], and the sums still agree.

use super::here::Here;
use lab::cause::{Cause, Phase};
use lab::generator::Look;
use lab::order::Order;
use lab::run::Counts;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

/// Question to a child.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ask {
    /// Begin with this seed, as one of so many processes.
    Begin(u64, u32),
    /// Carry this out.
    Order(Order),
    /// Say what was seen.
    Look,
}

/// Answer of a child.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Done {},
    Failed(String),
    Seen(Box<Look>),
}

/// A further process. Dropping it ends it.
pub(super) struct Child {
    process: std::process::Child,
    asks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// Its last answer.
    last: Look,
    is_lost: bool,
}

impl Child {
    pub(super) fn start(command: &[OsString], seed: u64, processes: u32) -> Result<Child, String> {
        let failed = |error: &dyn std::fmt::Display| {
            format!("cannot start another process of the tester: {error}")
        };
        let [program, words @ ..] = command else { return Err(failed(&"its program is unknown")) };
        let mut process = Command::new(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&error))?;
        let (asks, answers) = (process.stdin.take(), process.stdout.take());
        let answers = BufReader::new(answers.expect("its output is piped"));
        let last = Look::default();
        let mut child = Child { process, asks, answers, last, is_lost: false };
        child.ask(&Ask::Begin(seed, processes)).map_err(|error| failed(&error))?;
        Ok(child)
    }

    pub(super) fn order(&mut self, order: &Order) -> Result<(), String> {
        if self.is_lost {
            return Ok(()); // it was said, and whatever it was told is over
        }
        match self.ask(&Ask::Order(order.clone())) {
            Ok(Answer::Failed(why)) => Err(why),
            Ok(_) => Ok(()),
            Err(_) => {
                self.lose();
                Ok(())
            }
        }
    }

    pub(super) fn look(&mut self) -> Look {
        if !self.is_lost {
            match self.ask(&Ask::Look) {
                Ok(Answer::Seen(seen)) => self.last = *seen,
                _ => self.lose(),
            }
        }
        let look = self.last.clone();
        self.last.notes.clear();
        look
    }

    fn lose(&mut self) {
        self.is_lost = true;
        self.last.groups.values_mut().for_each(forget);
        let held = self.last.agents.iter().map(|agent| agent.clients).sum::<u64>();
        self.last.notes.push(format!("it was lost with {held} clients"));
        self.last.saturation = vec!["it was lost".to_owned()];
    }

    fn ask(&mut self, ask: &Ask) -> Result<Answer, String> {
        let asks = self.asks.as_mut().ok_or("it has ended")?;
        let mut line = serde_json::to_string(ask).map_err(|error| error.to_string())?;
        line.push('\n');
        asks.write_all(line.as_bytes()).map_err(|error| error.to_string())?;
        asks.flush().map_err(|error| error.to_string())?;
        loop {
            line.clear();
            match self.answers.read_line(&mut line) {
                Ok(0) => return Err("it has ended".to_owned()),
                // Whatever else the program prints is not for us.
                Ok(_) if !line.starts_with('{') => {}
                Ok(_) => return serde_json::from_str(&line).map_err(|error| error.to_string()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.asks = None;
        // Its clients go with it; a process that does not see its input end is ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Ends everything that a lost process held.
fn forget(counts: &mut Counts) {
    let bound = counts.online.min(counts.open);
    (0..bound).for_each(|_| counts.causes.count(Phase::Online, Cause::AgentLost));
    (bound..counts.open).for_each(|_| counts.causes.count(Phase::Bind, Cause::AgentLost));
    (counts.open, counts.online, counts.planned) = (0, 0, 0);
}

/// Serves a parent over standard input and output until its input ends. Returns the exit code.
pub fn serve_stdio() -> i32 {
    let (input, mut output) = (std::io::stdin().lock(), std::io::stdout());
    let mut here: Option<Here> = None;
    net::descriptors::raise();
    for line in input.lines() {
        let Ok(line) = line else { return 1 };
        let answer = match (serde_json::from_str(&line), &mut here) {
            (Ok(Ask::Begin(seed, processes)), _) => {
                here = Some(Here::new(seed, processes));
                Answer::Done {}
            }
            (Ok(Ask::Order(order)), Some(here)) => match here.order(&order) {
                Ok(()) => Answer::Done {},
                Err(why) => Answer::Failed(why),
            },
            (Ok(Ask::Look), Some(here)) => Answer::Seen(Box::new(here.look())),
            (Ok(_), None) => Answer::Failed("it has not started".to_owned()),
            (Err(error), _) => Answer::Failed(error.to_string()),
        };
        let Ok(answer) = serde_json::to_string(&answer) else { return 1 };
        if writeln!(output, "{answer}").and_then(|()| output.flush()).is_err() {
            return 1;
        }
    }
    0
}
