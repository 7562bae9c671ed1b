//! The words between a server and its supervisor: notices (sd_notify(3)), and what the environment
//! says was handed over (sd_listen_fds(3), sd_watchdog_enabled(3)).
//!
//! Pure. Invariant: a name or a status never begins a line of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Notice for a supervisor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LifeSign<'a> {
    /// The server serves.
    Ready(&'a str),
    /// The server reads its configuration again, since this time of the monotonic clock.
    Reloading {
        /// Microseconds of `CLOCK_MONOTONIC`.
        monotonic_us: u64,
    },
    /// The server closes its connections.
    Stopping(&'a str),
    /// All of it turns.
    Alive(&'a str),
    /// A socket comes along, to be kept under this name.
    Keep(&'a str),
    /// The socket kept under this name is no longer wanted.
    Forget(&'a str),
}

impl fmt::Display for LifeSign<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            LifeSign::Ready(status) => write!(f, "READY=1\nSTATUS={}", Line(status)),
            LifeSign::Reloading { monotonic_us } => write!(
                f,
                "RELOADING=1\nMONOTONIC_USEC={monotonic_us}\nSTATUS=Reloading the configuration"
            ),
            LifeSign::Stopping(status) => write!(f, "STOPPING=1\nSTATUS={}", Line(status)),
            LifeSign::Alive(status) => write!(f, "WATCHDOG=1\nSTATUS={}", Line(status)),
            LifeSign::Keep(name) => write!(f, "FDSTORE=1\nFDNAME={}", Line(name)),
            LifeSign::Forget(name) => write!(f, "FDSTOREREMOVE=1\nFDNAME={}", Line(name)),
        }
    }
}

/// A text as one line.
struct Line<'a>(&'a str);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.split(|c: char| c.is_control()).try_for_each(|part| f.write_str(part))
    }
}

/// How many descriptors the environment says were handed to this process.
pub(super) fn handed(words: &BTreeMap<String, String>, pid: u32) -> usize {
    let number = |name: &str| words.get(name).and_then(|text| text.parse::<u32>().ok());
    match (number("LISTEN_PID"), number("LISTEN_FDS")) {
        (Some(whose), Some(count)) if whose == pid => count as usize,
        _ => 0,
    }
}

/// Their names, as many as there are descriptors; one without a name has none that fits.
pub(super) fn names(text: Option<&str>, count: usize) -> Vec<String> {
    let names = text.unwrap_or_default().split(':').map(str::to_owned);
    names.chain(std::iter::repeat(String::new())).take(count).collect()
}

/// The time within which the supervisor wants a sign of life of this process, if it does.
pub(super) fn watchdog(words: &BTreeMap<String, String>, pid: u32) -> Option<Duration> {
    if words.get("WATCHDOG_PID").is_some_and(|whose| whose.parse() != Ok(pid)) {
        return None;
    }
    let us = words.get("WATCHDOG_USEC")?.parse().ok().filter(|&us| us > 0)?;
    Some(Duration::from_micros(us))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(of: &[(&str, &str)]) -> BTreeMap<String, String> {
        of.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn signs_are_the_supervisors_words() {
        for (sign, text) in [
            (LifeSign::Ready("3 listeners"), "READY=1\nSTATUS=3 listeners"),
            (
                LifeSign::Reloading { monotonic_us: 7 },
                "RELOADING=1\nMONOTONIC_USEC=7\nSTATUS=Reloading the configuration",
            ),
            (LifeSign::Stopping("bye"), "STOPPING=1\nSTATUS=bye"),
            (LifeSign::Alive("1 connection"), "WATCHDOG=1\nSTATUS=1 connection"),
            (LifeSign::Keep("mqtt.0"), "FDSTORE=1\nFDNAME=mqtt.0"),
            (LifeSign::Forget("mqtt.0"), "FDSTOREREMOVE=1\nFDNAME=mqtt.0"),
            (LifeSign::Forget("a\nSTOPPING=1\0"), "FDSTOREREMOVE=1\nFDNAME=aSTOPPING=1"),
        ] {
            assert_eq!(sign.to_string(), text);
        }
    }

    #[test]
    fn descriptors_are_this_processs_or_nobodys() {
        for (found, count) in [
            (&[("LISTEN_PID", "7"), ("LISTEN_FDS", "2")][..], 2),
            (&[("LISTEN_PID", "8"), ("LISTEN_FDS", "2")], 0),
            (&[("LISTEN_FDS", "2")], 0),
            (&[("LISTEN_PID", "7")], 0),
            (&[("LISTEN_PID", "7"), ("LISTEN_FDS", "-1")], 0),
            (&[("LISTEN_PID", "7"), ("LISTEN_FDS", "4294967296")], 0),
            (&[("LISTEN_PID", "x"), ("LISTEN_FDS", "2")], 0),
        ] {
            assert_eq!(handed(&words(found), 7), count, "{found:?}");
        }
    }

    #[test]
    fn each_descriptor_has_its_name_or_none() {
        assert_eq!(names(Some("a:b.1"), 2), ["a", "b.1"]);
        assert_eq!(names(Some("a"), 2), ["a", ""]);
        assert_eq!(names(Some("a:b:c"), 2), ["a", "b"]);
        assert_eq!(names(None, 1), [""]);
    }

    #[test]
    fn a_watchdog_is_this_processs_and_not_zero() {
        let of = |found: &[(&str, &str)]| watchdog(&words(found), 7).map(|it| it.as_micros());
        assert_eq!(of(&[("WATCHDOG_USEC", "3000000")]), Some(3_000_000));
        assert_eq!(of(&[("WATCHDOG_USEC", "5"), ("WATCHDOG_PID", "7")]), Some(5));
        assert_eq!(of(&[("WATCHDOG_USEC", "5"), ("WATCHDOG_PID", "8")]), None);
        assert_eq!(of(&[("WATCHDOG_USEC", "5"), ("WATCHDOG_PID", "")]), None);
        assert_eq!(of(&[("WATCHDOG_USEC", "0")]), None);
        assert_eq!((of(&[("WATCHDOG_USEC", "-5")]), of(&[])), (None, None));
    }
}
