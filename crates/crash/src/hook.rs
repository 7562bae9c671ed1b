//! The application's webhook: a small HTTP server that takes Reports, and sometimes answers 500.
//!
//! The webhook lives as long as the run, while servers come and go. A Report counts as heard when
//! its batch was answered with 200. Every body names its sender, so a Report that nobody sent is
//! noticed.

use crate::book::Violation;
use crate::dice::{Dice, mix};
use crate::plan::{DeviceNumber, by_name};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// Batches in a hundred that are answered with 500.
const REFUSED_PERCENT: u64 = 12;
/// Largest batch, bytes.
const BATCH_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The body of Report `number`.
pub fn report(seed: u64, number: u64, device: DeviceNumber, filler: u64) -> String {
    let check = mix(seed, number);
    format!("report {number} {device} {check:016x} {}", "~".repeat(filler as usize))
}

/// Reports that the application has heard.
#[derive(Default)]
pub struct Heard {
    /// Reports, by number, and how often.
    times: HashMap<u64, u32>,
    /// For each device its Reports as they came first.
    firsts: HashMap<DeviceNumber, Vec<u64>>,
    /// Reports that nobody sent.
    wrong: Vec<String>,
    /// Batches answered with 200 and with 500.
    pub batches: (u64, u64),
}

/// A listening webhook.
pub struct Hook {
    /// Address that the webhook listens on.
    pub address: SocketAddr,
    heard: Arc<Mutex<Heard>>,
}

impl Hook {
    /// Begins to listen. Its threads end with the process.
    pub fn listen(seed: u64) -> io::Result<Hook> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let heard = Arc::new(Mutex::new(Heard::default()));
        let hook = Hook { address: listener.local_addr()?, heard: heard.clone() };
        std::thread::Builder::new().name("hook".into()).spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let (heard, dice) = (heard.clone(), Dice::new(seed, number as u64));
                let serve = move || serve(&stream, seed, dice, &heard);
                // Without a thread the connection is dropped and the batch comes again.
                let _ = std::thread::Builder::new().name("hook line".into()).spawn(serve);
            }
        })?;
        Ok(hook)
    }

    /// Looks at what was heard.
    pub fn look<T>(&self, look: impl FnOnce(&Heard) -> T) -> T {
        look(&self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Heard {
    /// Takes a batch.
    pub fn take(&mut self, seed: u64, batch: &Value) {
        for event in batch["events"].as_array().into_iter().flatten() {
            if event["type"] != "report" {
                continue;
            }
            match self.check(seed, event) {
                Some((number, device)) => {
                    let times = self.times.entry(number).or_default();
                    *times += 1;
                    if *times == 1 {
                        self.firsts.entry(device).or_default().push(number);
                    }
                }
                None => self.wrong.push(event.to_string().chars().take(300).collect()),
            }
        }
    }

    fn check(&self, seed: u64, event: &Value) -> Option<(u64, DeviceNumber)> {
        let body = event["body"].as_str()?;
        let mut words = body.split(' ');
        let number = words.nth(1)?.parse().ok()?;
        let device = words.next()?.parse().ok()?;
        let filler = words.nth(1)?.len();
        let same = *body == report(seed, number, device, filler as u64);
        let named = event["device"].as_str().and_then(by_name) == Some(device);
        (same && named).then_some((number, device))
    }

    /// Reports heard at least once, and how often more.
    pub fn counts(&self) -> (u64, u64) {
        let more = self.times.values().map(|times| u64::from(times - 1)).sum();
        (self.times.len() as u64, more)
    }

    /// Of `taken`, those not heard yet.
    pub fn missing(&self, taken: &HashSet<u64>) -> Vec<u64> {
        taken.iter().copied().filter(|number| !self.times.contains_key(number)).collect()
    }

    /// Violations among the Reports: all of `taken` must have been heard, and nothing that is not
    /// in `said`.
    pub fn judge(
        &self,
        life: u32,
        taken: &HashSet<u64>,
        said: &HashMap<u64, DeviceNumber>,
    ) -> Vec<Violation> {
        let wrong = |kind, text| Violation { kind, life, text };
        let mut found: Vec<Violation> = self
            .wrong
            .iter()
            .map(|text| wrong("a report that was never sent", text.clone()))
            .collect();
        let missing = self.missing(taken);
        found.extend(missing.iter().map(|number| {
            let text = format!("report {number} of device {:?}", said.get(number));
            wrong("a report was taken and not posted", text)
        }));
        let unsaid = self.times.keys().filter(|number| !said.contains_key(number));
        found.extend(
            unsaid.map(|number| wrong("a report that was never sent", format!("report {number}"))),
        );
        for (device, numbers) in &self.firsts {
            let taken: Vec<u64> = numbers.iter().copied().filter(|it| taken.contains(it)).collect();
            if let Some(pair) = taken.windows(2).find(|pair| pair[0] > pair[1]) {
                let text = format!("device {device}: {} after {}", pair[1], pair[0]);
                found.push(wrong("reports in wrong order", text));
            }
        }
        found
    }
}

fn serve(stream: &TcpStream, seed: u64, mut dice: Dice, heard: &Mutex<Heard>) -> io::Result<()> {
    let (mut input, mut output) = (BufReader::new(stream), stream);
    loop {
        let mut length = None;
        loop {
            let mut line = String::new();
            if input.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or_default();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok().filter(|length| *length <= BATCH_BYTES_MAX);
            }
        }
        let length: usize = length.ok_or_else(|| io::Error::other("a batch without a length"))?;
        let mut body = vec![0; length];
        input.read_exact(&mut body)?;
        let batch = serde_json::from_slice(&body).unwrap_or_default();
        let refused = dice.percent(REFUSED_PERCENT);
        {
            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
            if refused {
                heard.batches.1 += 1;
            } else {
                heard.batches.0 += 1;
                heard.take(seed, &batch);
            }
        }
        let status = if refused { "500 Internal Server Error" } else { "200 OK" };
        output.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn batch(reports: &[(u64, &str)]) -> Value {
        let events = reports.iter().map(|(number, device)| {
            let body = report(7, *number, by_name(device).unwrap(), 3);
            json!({ "type": "report", "device": device, "body": body })
        });
        json!({ "lost": 0, "events": events.collect::<Vec<_>>() })
    }

    fn kinds(batches: &[Value], taken: &[u64], said: &[u64]) -> Vec<&'static str> {
        let mut heard = Heard::default();
        batches.iter().for_each(|batch| heard.take(7, batch));
        let taken = taken.iter().copied().collect();
        let said = said.iter().map(|number| (*number, 1)).collect();
        heard.judge(1, &taken, &said).iter().map(|found| found.kind).collect()
    }

    #[test]
    fn all_that_was_taken_came_and_some_came_twice() {
        let batches = [batch(&[(1, "d-01"), (2, "d-01")]), batch(&[(2, "d-01"), (3, "d-01")])];
        assert_eq!(kinds(&batches, &[1, 3], &[1, 2, 3, 4]), [""; 0]);
    }

    #[test]
    fn a_report_that_is_missing_unsent_changed_or_early_is_found() {
        let missing = kinds(&[batch(&[(1, "d-01")])], &[1, 2], &[1, 2]);
        assert_eq!(missing, ["a report was taken and not posted"]);
        let unsent = kinds(&[batch(&[(1, "d-01"), (5, "d-01")])], &[1], &[1]);
        assert_eq!(unsent, ["a report that was never sent"]);
        let mut changed = batch(&[(1, "d-01")]);
        changed["events"][0]["device"] = json!("d-02");
        assert_eq!(kinds(&[changed], &[], &[1]), ["a report that was never sent"]);
        let early = kinds(&[batch(&[(2, "d-01"), (1, "d-01")])], &[1, 2], &[1, 2]);
        assert_eq!(early, ["reports in wrong order"]);
    }
}
