//! wrk's command line.
//!
//! Flags may stand before or after the URL, as GNU getopt lets them; a short flag's value may be
//! glued to it, a long one's follow `=`. Words behind `--` belong to a script.

use super::target::Target;
use super::units::{number, span};
use std::time::Duration;

/// What is printed for `--help` and after a wrong flag.
pub const USAGE: &str = "\
Usage: wrk <options> <url>
  Options:
    -c, --connections <N>  Connections to keep open (10)
    -d, --duration    <T>  Duration of test (10s)
    -t, --threads     <N>  Number of threads to use (2)

    -R, --rate        <N>  Heartbeats a second in all, latency from their planned time
    -s, --script      <S>  Lua script (comes with the laboratory)
    -H, --header      <H>  Accepted, without meaning for MIOP
    -L, --latency          Print latency statistics
    -T, --timeout     <T>  Time to wait for an answer (2s)
    -v, --version          Print version details

  Numeric arguments may include a SI unit (1k, 1M, 1G)
  Time arguments may include a time unit (2s, 2m, 2h)

  URL: miop://HOST:PRODUCT@ADDRESS:PORT/, devices are HOST-0, HOST-1, ...
    Schemes: miop, miops (TLS), ws and wss (MIOP in WebSocket, with its path)
    Query: version=5|6|7 secret=HEX key_id=N keep=SECONDS ca=FILE";

/// What the command line asks for.
#[derive(Clone, PartialEq, Debug)]
pub enum Wish {
    /// Print how it is used.
    Help,
    /// Print the version.
    Version,
    /// Run a test.
    Run(Box<Arguments>),
}

/// A test's arguments.
#[derive(Clone, PartialEq, Debug)]
pub struct Arguments {
    /// Threads.
    pub threads: u16,
    /// Connections, in all.
    pub connections: u32,
    /// How long the test takes.
    pub duration: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Print percentiles.
    pub latency: bool,
    /// Headers, which only HTTP has.
    pub headers: Vec<String>,
    /// Heartbeats a second, in all.
    pub rate: Option<f64>,
    /// The URL as it was given.
    pub url: String,
    /// Its parts.
    pub target: Target,
}

/// Parses the arguments behind the program's name.
pub fn parse(args: &[String]) -> Result<Wish, String> {
    let (mut wish, mut url) = (Raw::default(), None);
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        let (flag, glued) = match split(word) {
            None if word == "--" => break,
            None if url.is_none() => {
                url = Some(word.clone());
                continue;
            }
            None => return Err(format!("`{word}` is one argument too many")),
            Some(parts) => parts,
        };
        if flag == '?' {
            return Err(format!("`{word}` is not known"));
        }
        let takes_value = "ctdsHTR".contains(flag);
        let value = match glued {
            Some(_) if !takes_value => return Err(format!("`{word}` takes no value")),
            Some(value) => value,
            None if takes_value => {
                rest.next().cloned().ok_or_else(|| format!("`{word}` needs a value"))?
            }
            None => String::new(),
        };
        match flag {
            'h' => return Ok(Wish::Help),
            'v' => return Ok(Wish::Version),
            flag => wish.set(flag, &value)?,
        }
    }
    wish.check(url.ok_or("there is no URL")?).map(|arguments| Wish::Run(Box::new(arguments)))
}

/// The flag that a word names, as its short letter, and the value that is glued to it. `?` stands
/// for one that is not known; `None`: the word is no flag.
fn split(word: &str) -> Option<(char, Option<String>)> {
    const LONG: [(&str, char); 10] = [
        ("connections", 'c'),
        ("duration", 'd'),
        ("threads", 't'),
        ("script", 's'),
        ("header", 'H'),
        ("latency", 'L'),
        ("timeout", 'T'),
        ("rate", 'R'),
        ("version", 'v'),
        ("help", 'h'),
    ];
    let body = word.strip_prefix('-').filter(|body| !body.is_empty() && *body != "-")?;
    if let Some(long) = body.strip_prefix('-') {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        let known = LONG.iter().find(|(long, _)| *long == name);
        return Some((known.map_or('?', |(_, short)| *short), value));
    }
    let mut letters = body.chars();
    let letter = letters.next()?;
    let known = LONG.iter().any(|(_, short)| *short == letter);
    let value = Some(letters.as_str().to_owned()).filter(|value| !value.is_empty());
    if known { Some((letter, value)) } else { Some(('?', None)) }
}

struct Raw {
    threads: u64,
    connections: u64,
    duration: Duration,
    timeout: Duration,
    latency: bool,
    headers: Vec<String>,
    rate: Option<f64>,
}

impl Default for Raw {
    fn default() -> Self {
        Raw {
            threads: 2,
            connections: 10,
            duration: Duration::from_secs(10),
            timeout: Duration::from_secs(2),
            latency: false,
            headers: Vec::new(),
            rate: None,
        }
    }
}

impl Raw {
    fn set(&mut self, flag: char, value: &str) -> Result<(), String> {
        match flag {
            'c' => self.connections = number("-c", value)?,
            't' => self.threads = number("-t", value)?,
            'd' => self.duration = span("-d", value)?,
            'T' => self.timeout = span("-T", value)?,
            'R' => self.rate = Some(number("-R", value)? as f64),
            'L' => self.latency = true,
            'H' => self.headers.push(value.to_owned()),
            _ => {
                return Err(format!(
                    "-s {value}: Lua scripts come with the laboratory; without -s each device \
                     sends its next heartbeat as soon as the last was answered"
                ));
            }
        }
        Ok(())
    }

    fn check(self, url: String) -> Result<Arguments, String> {
        let target = Target::parse(&url)?;
        let threads = u16::try_from(self.threads).ok().filter(|count| (1..1_024).contains(count));
        let threads = threads.ok_or("-t: threads must be 1 to 1023")?;
        let connections = u32::try_from(self.connections).ok().filter(|count| *count > 0);
        let connections = connections.ok_or("-c: connections must be 1 to 4294967295")?;
        if connections < u32::from(threads) {
            return Err(format!(
                "number of connections must be >= threads: -c {connections} is below -t {threads}"
            ));
        }
        if self.duration.is_zero() || self.timeout.is_zero() || self.rate == Some(0.0) {
            return Err("-d, -T and -R must be above zero".to_owned());
        }
        let Raw { duration, timeout, latency, headers, rate, .. } = self;
        Ok(Arguments {
            threads,
            connections,
            duration,
            timeout,
            latency,
            headers,
            rate,
            url,
            target,
        })
    }
}
