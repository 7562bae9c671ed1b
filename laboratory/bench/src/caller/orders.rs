//! The caller as a process: one order a line of input, one answer a line of output.
//!
//! | order | answer |
//! | --- | --- |
//! | `open COUNT WINDOW FIRST` | `done COUNT` |
//! | `exchange MILLISECONDS DEPTH` | `done MESSAGES` |
//! | `pace MILLISECONDS PER_SECOND` | `done MESSAGES` |
//! | `listen PUSHES MILLISECONDS` | `listening`, then `done PUSHES` |
//! | `close` | `done 0` |
//!
//! A failed order is answered by `failed` and the reason. The end of the input ends the caller.
//! [`Remote`] is the other end: it starts a caller and gives it orders.

use super::Caller;
use super::speech::Speech;
use crate::caller::sockets;
use crate::child::Child;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// Runs a caller: `to SPEECH [PRODUCT PREFIX]`, SPEECH being mute, hello, ping or report.
pub fn run(arguments: &[String]) -> io::Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (to, speech) = match words[..] {
        [to, "mute"] => (to, Speech::Mute),
        [to, "hello"] => (to, Speech::Hello),
        [to, kind @ ("ping" | "report"), product, prefix] => {
            let (product, prefix) = (product.to_owned(), prefix.to_owned());
            (to, Speech::Miop { product, prefix, reports: kind == "report" })
        }
        _ => return Err(io::Error::other("ADDRESS mute|hello|ping|report [PRODUCT PREFIX]")),
    };
    let to: SocketAddr = to.parse().map_err(io::Error::other)?;
    let mut caller = Caller::new(to, speech)?;
    sockets::obey(|line| obey(&mut caller, line))
}

fn obey(caller: &mut Caller, order: &str) -> io::Result<u64> {
    let odd = || io::Error::other(format!("no order: {order}"));
    let mut words = order.split(' ');
    let name = words.next().unwrap_or_default();
    let numbers: Vec<u64> =
        words.map(|word| word.parse().map_err(|_| odd())).collect::<Result<_, _>>()?;
    match (name, &numbers[..]) {
        ("open", &[count, window, first]) => {
            caller.open(count as usize, window as usize, first as u32)?;
            Ok(count)
        }
        ("exchange", &[ms, depth]) => caller.exchange(Duration::from_millis(ms), depth as u32),
        ("pace", &[ms, per_s]) => caller.pace(Duration::from_millis(ms), per_s as u32),
        ("listen", &[count, ms]) => {
            caller.listen(count, Duration::from_millis(ms), || writeln!(io::stdout(), "listening"))
        }
        ("close", []) => {
            caller.close();
            Ok(0)
        }
        _ => Err(odd()),
    }
}

/// A caller in a process of its own.
pub struct Remote(Child);

impl Remote {
    /// Starts one that calls `to`, on core `core` alone if there is one.
    pub fn start(to: SocketAddr, speech: &Speech, core: Option<usize>) -> io::Result<Remote> {
        let to = to.to_string();
        let mut arguments = vec!["caller", &to];
        match speech {
            Speech::Mute => arguments.push("mute"),
            Speech::Hello => arguments.push("hello"),
            Speech::Miop { product, prefix, reports } => {
                arguments.push(if *reports { "report" } else { "ping" });
                arguments.extend([product.as_str(), prefix.as_str()]);
            }
        }
        Ok(Remote(Child::again(&arguments, core)?))
    }

    /// Lets everybody else on its core go first: a device that is timed beside these must wait for
    /// the server, not for them.
    pub fn give_way(&self) -> io::Result<()> {
        let pid = rustix::process::Pid::from_raw(self.0.pid() as i32);
        Ok(rustix::process::setpriority_process(pid, 19)?)
    }

    /// Opens lines ([`Caller::open`]).
    pub fn open(&mut self, count: u32, window: u32, first: u32) -> io::Result<()> {
        self.order(&format!("open {count} {window} {first}")).map(drop)
    }

    /// Exchanges messages ([`Caller::exchange`]).
    pub fn exchange(&mut self, span: Duration, depth: u32) -> io::Result<u64> {
        self.order(&format!("exchange {} {depth}", span.as_millis()))
    }

    /// Sends messages at a pace ([`Caller::pace`]).
    pub fn pace(&mut self, span: Duration, per_s: u32) -> io::Result<u64> {
        self.order(&format!("pace {} {per_s}", span.as_millis()))
    }

    /// Begins to take pushes ([`Caller::listen`]); [`Remote::heard`] tells how many came.
    pub fn listen(&mut self, count: u64, span: Duration) -> io::Result<()> {
        match self.0.ask(&format!("listen {count} {}", span.as_millis()))?.as_str() {
            "listening" => Ok(()),
            other => Err(io::Error::other(format!("the caller {other}"))),
        }
    }

    /// Waits until the pushes have come, and counts them.
    pub fn heard(&mut self) -> io::Result<u64> {
        count(&self.0.line()?)
    }

    /// Closes all lines.
    pub fn close(&mut self) -> io::Result<()> {
        self.order("close").map(drop)
    }

    fn order(&mut self, order: &str) -> io::Result<u64> {
        count(&self.0.ask(order)?)
    }
}

fn count(answer: &str) -> io::Result<u64> {
    let count = answer.strip_prefix("done ").and_then(|count| count.parse().ok());
    count.ok_or_else(|| io::Error::other(format!("the caller {answer}")))
}
