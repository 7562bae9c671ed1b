//! The state that a client stores, as a text of lines: a word, then its values.
//!
//! ```text
//! miop 1
//! of demo tom-500
//! session <token, hex> <epoch>
//! seen <ids>
//! next <number of the next Report>
//! report <number> <client id, hex> <payload, hex>
//! network <interval> <worked> <failed> <name, hex>
//! ```

use crate::heartbeat::Learned;
use crate::reports::Report;

/// The state that outlives a process.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Saved {
    pub product: String,
    pub device: String,
    pub session: Option<([u8; 32], u64)>,
    pub seen: Vec<u64>,
    pub next_seq: u32,
    pub reports: Vec<Report>,
    pub networks: Vec<Learned>,
}

impl Saved {
    pub fn to_text(&self) -> String {
        let mut text = format!("miop 1\nof {} {}\n", self.product, self.device);
        if let Some((token, epoch)) = &self.session {
            text += &format!("session {} {epoch}\n", hex(token));
        }
        let seen: Vec<String> = self.seen.iter().map(u64::to_string).collect();
        text += &format!("seen {}\nnext {}\n", seen.join(" "), self.next_seq);
        for it in &self.reports {
            let (id, payload) = (hex(it.client_id.as_bytes()), hex(&it.payload));
            text += &format!("report {} {id} {payload}\n", it.seq);
        }
        for it in &self.networks {
            let name = hex(it.network.as_bytes());
            text += &format!("network {} {} {} {name}\n", it.interval, it.worked, it.failed);
        }
        text
    }

    /// `None` if the text is none of this version.
    pub fn from_text(text: &str) -> Option<Saved> {
        let mut lines = text.lines();
        if lines.next()? != "miop 1" {
            return None;
        }
        let mut saved = Saved { next_seq: 1, ..Saved::default() };
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            saved.line(&words)?;
        }
        Some(saved)
    }

    fn line(&mut self, words: &[&str]) -> Option<()> {
        match words {
            ["of", product, device] => {
                (self.product, self.device) = ((*product).to_owned(), (*device).to_owned());
            }
            ["session", token, epoch] => {
                self.session = Some((unhex(token)?.try_into().ok()?, epoch.parse().ok()?));
            }
            ["seen", ids @ ..] => {
                let ids = ids.iter().filter(|id| !id.is_empty());
                self.seen = ids.map(|id| id.parse().ok()).collect::<Option<_>>()?;
            }
            ["next", number] => self.next_seq = number.parse().ok()?,
            ["report", seq, id, payload] => {
                let client_id = String::from_utf8(unhex(id)?).ok()?;
                let (seq, payload) = (seq.parse().ok()?, unhex(payload)?);
                self.reports.push(Report { seq, client_id, payload, sent: false });
            }
            ["network", interval, worked, failed, name] => {
                let network = String::from_utf8(unhex(name)?).ok()?;
                let (interval, worked) = (interval.parse().ok()?, worked.parse().ok()?);
                self.networks.push(Learned {
                    network,
                    interval,
                    worked,
                    failed: failed.parse().ok()?,
                });
            }
            _ => return None,
        }
        Some(())
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hexadecimal digits as bytes.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    if text.len() % 2 != 0 || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_survives_being_written() {
        let mut saved = Saved {
            product: "demo".into(),
            device: "dev".into(),
            session: Some(([7; 32], u64::MAX)),
            seen: vec![1, u64::MAX],
            next_seq: 3,
            ..Saved::default()
        };
        let (client_id, payload) = ("a b\n".to_owned(), Vec::new());
        saved.reports.push(Report { seq: 2, client_id, payload, sent: false });
        let (network, interval) = ("wifi: home".to_owned(), 120);
        saved.networks.push(Learned { network, interval, worked: 0, failed: 240 });
        assert_eq!(Saved::from_text(&saved.to_text()), Some(saved));
        let empty = Saved { next_seq: 1, ..Saved::default() };
        assert_eq!(Saved::from_text("miop 1\nof  \nseen \nnext 1\n"), Some(empty));
    }

    #[test]
    fn a_damaged_state_is_none() {
        for text in ["", "{}", "miop 2\n", "miop 1\nsession ab 1\n", "miop 1\nseen x\n"] {
            assert_eq!(Saved::from_text(text), None, "{text:?}");
        }
    }
}
