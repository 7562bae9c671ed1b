//! The state that a client stores, as a text of lines: a word, then its values.
//!
//! ```text
//! im 1
//! of <account, hex> <device, hex>
//! last <place up to which the application has the inbox>
//! send <client id, hex> <to, hex> <Content, hex>
//! network <interval> <worked> <failed> <name, hex>
//! ```

use crate::heartbeat::Learned;
use crate::outbox::Queued;
use crate::pb::Content;
use prost::Message;

/// The state that outlives a process.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Saved {
    pub account: String,
    pub device: String,
    /// `None`: there was no session yet.
    pub last: Option<u64>,
    pub queue: Vec<Queued>,
    pub networks: Vec<Learned>,
}

impl Saved {
    pub fn to_text(&self) -> String {
        let (account, device) = (hex(self.account.as_bytes()), hex(self.device.as_bytes()));
        let mut text = format!("im 1\nof {account} {device}\n");
        if let Some(last) = self.last {
            text += &format!("last {last}\n");
        }
        for it in &self.queue {
            let (id, to) = (hex(&it.client_id), hex(it.to.as_bytes()));
            text += &format!("send {id} {to} {}\n", hex(&it.content.encode_to_vec()));
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
        if lines.next()? != "im 1" {
            return None;
        }
        let mut saved = Saved::default();
        for line in lines {
            saved.line(&line.split(' ').collect::<Vec<_>>())?;
        }
        Some(saved)
    }

    fn line(&mut self, words: &[&str]) -> Option<()> {
        match words {
            ["of", account, device] => {
                (self.account, self.device) = (text(account)?, text(device)?);
            }
            ["last", place] => self.last = Some(place.parse().ok()?),
            ["send", id, to, content] => self.queue.push(Queued {
                client_id: unhex(id)?.try_into().ok()?,
                to: text(to)?,
                content: Content::decode(&unhex(content)?[..]).ok()?,
            }),
            ["network", interval, worked, failed, name] => self.networks.push(Learned {
                network: text(name)?,
                interval: interval.parse().ok()?,
                worked: worked.parse().ok()?,
                failed: failed.parse().ok()?,
            }),
            _ => return None,
        }
        Some(())
    }
}

fn text(digits: &str) -> Option<String> {
    String::from_utf8(unhex(digits)?).ok()
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}"); // a String takes all
    }
    text
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
        let content = Content { text: "a\nb".into(), extra: vec![0, 255], ..Content::default() };
        let network = "wifi: home".to_owned();
        let saved = Saved {
            account: "ann b".into(),
            device: "phone".into(),
            last: Some(u64::MAX),
            queue: vec![Queued { client_id: [7; 16], to: "bob".into(), content }],
            networks: vec![Learned { network, interval: 120, worked: 0, failed: 240 }],
        };
        assert_eq!(Saved::from_text(&saved.to_text()), Some(saved));
        assert_eq!(Saved::from_text("im 1\nof  \n"), Some(Saved::default()));
    }

    #[test]
    fn a_damaged_state_is_none() {
        let bad =
            ["", "{}", "im 2\n", "im 1\nlast x\n", "im 1\nsend 00 00 00\n", "im 1\nof zz 00\n"];
        for text in bad {
            assert_eq!(Saved::from_text(text), None, "{text:?}");
        }
    }
}
