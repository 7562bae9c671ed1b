//! wrk's command line.
//!
//! Flags may stand before or after the URL, as GNU getopt lets them; a short flag's value may be
//! glued to it, a long one's follow `=`. Words behind `--` belong to a script.

use super::target::WrkTarget;
use super::units::{number, span};
use std::time::Duration;

/// Text for `--help` and after a wrong flag.
pub const USAGE: &str = "\
Usage: wrk <options> <url> [-- <words for the script>]
  Options:
    -c, --connections <N>  Connections to keep open (10)
    -d, --duration    <T>  Duration of test (10s)
    -t, --threads     <N>  Number of threads to use (2)

    -s, --script      <S>  Load Lua script file
    -H, --header      <H>  Add header to request
    -L, --latency          Print latency statistics
    -U, --u_latency        Print uncorrected latency statistics besides
    -T, --timeout     <T>  Socket/request timeout (2s)
    -R, --rate        <N>  Requests a second in all, latency from their planned time
    -v, --version          Print version details

  Numeric arguments may include a SI unit (1k, 1M, 1G)
  Time arguments may include a time unit (2s, 2m, 2h)

  URL: http, https://ADDRESS[:PORT]/PATH, as for wrk
    miop, miops://PREFIX:PRODUCT@ADDRESS:PORT/, devices are PREFIX-0, PREFIX-1, ...
    mqtt, mqtts://PREFIX[:USER]@ADDRESS[:PORT]/TOPIC
    ws, wss://PREFIX:PRODUCT@ADDRESS:PORT/PATH, MIOP; MQTT below a path that ends with /mqtt
    tcp://ADDRESS:PORT
    Query, but for HTTP: version= secret=HEX key_id= password= keep=SECONDS qos=
      subscribe=FILTER protocol=miop|mqtt end=HEX ca=FILE";

/// Request of the command line.
#[derive(Clone, PartialEq, Debug)]
pub enum Invocation {
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
    /// Print percentiles of uncorrected times besides.
    pub uncorrected: bool,
    /// The script's file.
    pub script: Option<String>,
    /// Headers, which only HTTP has.
    pub headers: Vec<String>,
    /// Requests a second, in all.
    pub rate: Option<f64>,
    /// Words for the script: the URL, and what stood behind it or behind `--`.
    pub words: Vec<String>,
    /// The URL as it was given.
    pub url: String,
    /// Its parts.
    pub target: WrkTarget,
}

/// Parses the arguments behind the program's name.
pub fn parse(args: &[String]) -> Result<Invocation, String> {
    let mut wish = Raw::default();
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        let (flag, glued) = match split(word) {
            None if word == "--" => {
                wish.words.extend(rest.cloned());
                break;
            }
            None => {
                wish.words.push(word.clone());
                continue;
            }
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
            'h' => return Ok(Invocation::Help),
            'v' => return Ok(Invocation::Version),
            flag => wish.set(flag, &value)?,
        }
    }
    wish.check().map(|arguments| Invocation::Run(Box::new(arguments)))
}

/// The flag that a word names, as its short letter, and the value that is glued to it. `?` stands
/// for one that is not known; `None`: the word is no flag.
fn split(word: &str) -> Option<(char, Option<String>)> {
    const LONG: [(&str, char); 11] = [
        ("connections", 'c'),
        ("duration", 'd'),
        ("threads", 't'),
        ("script", 's'),
        ("header", 'H'),
        ("latency", 'L'),
        ("u_latency", 'U'),
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
    uncorrected: bool,
    script: Option<String>,
    headers: Vec<String>,
    rate: Option<f64>,
    words: Vec<String>,
}

impl Default for Raw {
    fn default() -> Self {
        Raw {
            threads: 2,
            connections: 10,
            duration: Duration::from_secs(10),
            timeout: Duration::from_secs(2),
            latency: false,
            uncorrected: false,
            script: None,
            headers: Vec::new(),
            rate: None,
            words: Vec::new(),
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
            'U' => self.uncorrected = true,
            'H' => self.headers.push(value.to_owned()),
            _ => self.script = Some(value.to_owned()),
        }
        Ok(())
    }

    fn check(self) -> Result<Arguments, String> {
        let url = self.words.first().ok_or("there is no URL")?.clone();
        let target = WrkTarget::parse(&url)?;
        if let Some(extra) = self.words.get(1).filter(|_| self.script.is_none()) {
            return Err(format!(
                "`{extra}` is one argument too many: there is no script to hear it"
            ));
        }
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
        let Raw { duration, timeout, latency, uncorrected, script, headers, rate, words, .. } =
            self;
        Ok(Arguments {
            threads,
            connections,
            duration,
            timeout,
            latency,
            uncorrected,
            script,
            headers,
            rate,
            words,
            url,
            target,
        })
    }
}
