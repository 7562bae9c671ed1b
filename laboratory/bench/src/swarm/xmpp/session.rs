//! A session of XMPP as the measurement has it: a blocking stream that says and looks for text.
//!
//! A session costs its server as much as any client, and itself little: input is not parsed.
//! Invariant: whatever a server says, a wait for a text ends with it, in time, or with an error.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::Scram;
use client::scram::ScramProof;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longest silence before a wait is given up.
const PATIENCE: Duration = Duration::from_secs(60);

const SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";

/// The domain of all.
pub(super) const DOMAIN: &str = "localhost";

/// The password of all.
pub(super) use crate::scenario::lab::chat::accounts::PASSWORD;

/// A session that is bound.
pub(super) struct Session {
    stream: TcpStream,
    /// Input that was not looked at.
    seen: Vec<u8>,
    /// Its name.
    pub(super) name: String,
}

fn odd(why: impl Into<String>) -> io::Error {
    io::Error::other(why.into())
}

impl Session {
    /// Logs in by SCRAM-SHA-256, and says that it is there if it is to.
    pub(super) fn start(to: SocketAddr, name: &str, is_there: bool) -> io::Result<Session> {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut session = Session { stream, seen: Vec::new(), name: name.to_owned() };
        session.open()?;
        session.prove()?;
        session.open()?;
        session.say(
            "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
             <resource>bench</resource></bind></iq>",
        )?;
        session.until("</iq>")?;
        if is_there {
            session.say(
                "<iq type='get' id='roster'><query xmlns='jabber:iq:roster'/></iq><presence/>",
            )?;
            session.settle()?;
        }
        Ok(session)
    }

    fn open(&mut self) -> io::Result<()> {
        self.say(&format!(
            "<?xml version='1.0'?><stream:stream xmlns='jabber:client' version='1.0' \
             xmlns:stream='http://etherx.jabber.org/streams' to='{DOMAIN}'>"
        ))?;
        self.until("</stream:features>").map(|_| ())
    }

    fn prove(&mut self) -> io::Result<()> {
        let who = Scram { user: self.name.clone(), password: PASSWORD.to_owned() };
        let mut random = [b'r'; 18];
        // A nonce has to be another each time, and no secret here.
        for (at, byte) in self.name.bytes().rev().take(18).enumerate() {
            random[at] = byte;
        }
        let mut proof = ScramProof::new(&who, random);
        let first = STANDARD.encode(proof.first());
        self.say(&format!("<auth xmlns='{SASL}' mechanism='SCRAM-SHA-256'>{first}</auth>"))?;
        let challenge = self.until("</challenge>")?;
        let challenge = challenge.rsplit('>').nth(1).unwrap_or_default();
        let challenge = challenge.split('<').next().unwrap_or_default();
        let challenge = STANDARD.decode(challenge).map_err(|error| odd(error.to_string()))?;
        let last = proof.answer(&challenge).ok_or_else(|| odd("no challenge to this proof"))?;
        let last = STANDARD.encode(last);
        self.say(&format!("<response xmlns='{SASL}'>{last}</response>"))?;
        self.until("</success>").map(|_| ())
    }

    /// Sends a message.
    pub(super) fn say(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(text.as_bytes())
    }

    /// Reads up to and with this text.
    pub(super) fn until(&mut self, text: &str) -> io::Result<String> {
        let mut from = 0;
        loop {
            let found = self.seen[from..].windows(text.len()).position(|it| it == text.as_bytes());
            if let Some(at) = found {
                let told: Vec<u8> = self.seen.drain(..from + at + text.len()).collect();
                return Ok(String::from_utf8_lossy(&told).into_owned());
            }
            from = self.seen.len().saturating_sub(text.len() - 1);
            let mut bytes = [0; 65_536];
            let count = self.stream.read(&mut bytes).map_err(|error| {
                let seen = String::from_utf8_lossy(&self.seen);
                let seen: String = seen.chars().take(400).collect();
                odd(format!("{}: no {text:?} ({error}) in {seen:?}", self.name))
            })?;
            if count == 0 {
                let seen = String::from_utf8_lossy(&self.seen);
                return Err(odd(format!("{}: it ended before {text:?}: {seen:?}", self.name)));
            }
            self.seen.extend_from_slice(&bytes[..count]);
        }
    }

    /// Waits until what was said before is done, and has what came meanwhile.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        self.say("<iq type='get' id='settled' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>")?;
        loop {
            // Quotes are one server's and the other's.
            let told = self.until("settled")?;
            if told.ends_with("id='settled") || told.ends_with("id=\"settled") {
                return Ok(());
            }
        }
    }
}
