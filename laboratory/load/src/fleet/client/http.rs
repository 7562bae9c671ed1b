//! A client of HTTP/1.1: requests on a connection that is kept, answered in their order.
//!
//! Its first request is its Bind: it is there once that is answered, whatever the status. It takes
//! answers of a known length, in chunks, or until the server closes (RFC 9112 6.3), and keeps
//! nothing of them but the status.

use crate::http::AnswerReader;
use model::close::CloseReason;
use model::machine::{Input, Outbox};
use model::ports::virtual_client::Observation;
use std::sync::Arc;

/// Profile that the clients of a fleet share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpProfile {
    /// The first request, and every one that is not told otherwise; whole, as it is sent.
    pub request: Arc<[u8]>,
}

impl HttpProfile {
    /// GETs `path` from `authority` (host and port).
    pub fn get(authority: &str, path: &str) -> HttpProfile {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: holdline-load\r\n\
             Accept: */*\r\n\r\n"
        );
        HttpProfile { request: request.into_bytes().into() }
    }
}

/// One client.
pub(crate) struct Client {
    profile: Arc<HttpProfile>,
    reader: AnswerReader,
    /// Requests answered on this connection.
    answered: u32,
}

type Out = Outbox<Observation>;

impl Client {
    pub(super) fn new(profile: Arc<HttpProfile>) -> Client {
        Client { profile, reader: AnswerReader::new(false), answered: 0 }
    }

    pub(super) fn opened(&mut self, out: &mut Out) -> Result<(), CloseReason> {
        self.ask(&[], out);
        Ok(())
    }

    /// Sends a request; no bytes: the profile's.
    pub(super) fn ask(&mut self, bytes: &[u8], out: &mut Out) {
        let bytes = if bytes.is_empty() { &self.profile.request } else { bytes };
        out.bytes().extend_from_slice(bytes);
        self.reader.asked([false]);
    }

    /// The connection has ended, and with it an answer that ends so.
    pub(super) fn closed(&mut self, out: &mut Out) {
        if let Some(answer) = self.reader.ended() {
            self.say(answer.status, out);
        }
        let profile = self.profile.clone();
        *self = Client::new(profile);
    }

    pub(super) fn receive(
        &mut self,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        loop {
            let (taken, answer) = self.reader.read(input.rest())?;
            input.take(taken);
            match answer {
                Some(answer) => self.say(answer.status, out),
                None if taken == 0 => return Ok(()),
                None => {}
            }
        }
    }

    /// An answer is whole.
    fn say(&mut self, status: u16, out: &mut Out) {
        // The first request is the Bind, which the fleet does not number.
        let (seq, code) = (self.answered, u32::from(status));
        self.answered += 1;
        out.say(match (seq, status) {
            (0, _) => Observation::Bound { resumed: false, heartbeat_s: 0, offline_count: 0 },
            (seq, ..400) => Observation::Taken { seq },
            (seq, _) => Observation::NotTaken { seq, code },
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::HEAD_BYTES_MAX;
    use base::hash::HashKey;
    use model::limits::Limits;
    use model::link::{Link, Protocol};

    /// Observations of a client that asked `asked` times, for these bytes, cut into pieces of
    /// `step`.
    fn hear(asked: u32, bytes: &[u8], step: usize) -> Result<Vec<Observation>, CloseReason> {
        let mut client = Client::new(Arc::new(HttpProfile::get("h", "/")));
        let mut out = Outbox::new(HashKey::new(1, 2), [0; 32]);
        client.opened(&mut out)?;
        (1..asked).for_each(|_| client.ask(&[], &mut out));
        let (limits, link) = (Limits::default(), Link::loopback(Protocol::Http));
        let (mut kept, mut said) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(step) {
            kept.extend_from_slice(piece);
            let mut input = Input::new(&kept, &link, &limits);
            client.receive(&mut input, &mut out)?;
            let taken = input.taken();
            kept.drain(..taken);
            said.extend(out.words());
        }
        Ok(said)
    }

    #[test]
    fn answers_of_every_kind_are_told_apart_however_they_come() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc\
            HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\
            Transfer-Encoding: gzip, chunked\r\n\r\n\
            4\r\nab\r\n\r\n5;x=y\r\nhello\r\n0\r\nX: y\r\n\r\n\
            HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n\
            HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n\
            HTTP/1.0 200 OK\r\n\r\nuntil the end";
        let bound = Observation::Bound { resumed: false, heartbeat_s: 0, offline_count: 0 };
        let wanted = [
            bound,
            Observation::Taken { seq: 1 },
            Observation::NotTaken { seq: 2, code: 503 },
            Observation::Taken { seq: 3 },
        ];
        for step in [1, 2, 7, 1_000] {
            assert_eq!(hear(5, bytes, step).as_deref(), Ok(&wanted[..]), "{step}");
        }
    }

    #[test]
    fn what_is_no_answer_or_was_not_asked_for_ends_the_connection() {
        let wrong: [(&[u8], CloseReason); 4] = [
            (b"SSH-2.0-OpenSSH\r\n", CloseReason::Malformed),
            (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", CloseReason::Malformed),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                CloseReason::Malformed,
            ),
            (b"HTTP/1.1 204 OK\r\n\r\nHTTP/1.1 204 OK\r\n\r\n", CloseReason::OutOfOrder),
        ];
        for (bytes, reason) in wrong {
            assert_eq!(hear(1, bytes, 1_000), Err(reason));
        }
        let endless = vec![b'a'; HEAD_BYTES_MAX];
        let head = [b"HTTP/1.1 200 OK\r\nX: ", &endless[..]].concat();
        assert_eq!(hear(1, &head, 1_000_000), Err(CloseReason::TooLarge));
    }
}
