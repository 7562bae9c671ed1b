//! A client of HTTP/1.1: requests on a connection that is kept, answered in their order.
//!
//! Its first request is its Bind: it is there once that is answered, whatever the status. It takes
//! answers of a known length, in chunks, or until the server closes (RFC 9112 6.3), and keeps
//! nothing of them but the status.

use model::close::CloseReason;
use model::machine::{Input, Outbox};
use model::virtual_client::Observation;
use std::sync::Arc;

/// What the clients of a fleet have in common.
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

/// Largest head of an answer, bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 96;

/// One client.
pub(crate) struct Client {
    profile: Arc<HttpProfile>,
    /// Requests sent on this connection, and answered.
    asked: u32,
    answered: u32,
    /// Whether the first request was answered.
    is_bound: bool,
    status: u16,
    part: Part,
}

/// What of an answer comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Head,
    /// So many bytes of its body.
    Body(u64),
    /// The line with a chunk's size.
    Size,
    /// So many bytes of a chunk and the line's end behind it.
    Chunk(u64),
    /// Lines behind the last chunk.
    Trailer,
    /// Whatever comes until the server closes.
    Rest,
}

type Out = Outbox<Observation>;

impl Client {
    pub(super) fn new(profile: Arc<HttpProfile>) -> Client {
        Client { profile, asked: 0, answered: 0, is_bound: false, status: 0, part: Part::Head }
    }

    pub(super) fn opened(&mut self, out: &mut Out) -> Result<(), CloseReason> {
        out.bytes().extend_from_slice(&self.profile.request);
        self.asked = 1;
        Ok(())
    }

    /// Sends a request; no bytes: the profile's.
    pub(super) fn ask(&mut self, bytes: &[u8], out: &mut Out) {
        let bytes = if bytes.is_empty() { &self.profile.request } else { bytes };
        out.bytes().extend_from_slice(bytes);
        self.asked += 1;
    }

    /// The connection has ended, and with it an answer that ends so.
    pub(super) fn closed(&mut self, out: &mut Out) {
        if self.part == Part::Rest {
            self.say(out);
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
            let rest = input.rest();
            if rest.is_empty() {
                return Ok(());
            }
            if self.asked == self.answered {
                return Err(CloseReason::OutOfOrder); // nobody asked for it
            }
            match self.part {
                Part::Head => match self.head(rest)? {
                    Some(bytes) => input.take(bytes),
                    None => return Ok(()),
                },
                Part::Body(left) | Part::Chunk(left) => {
                    let taken = left.min(rest.len() as u64);
                    let left = left - taken;
                    self.part = match self.part {
                        Part::Chunk(_) if left == 0 => Part::Size,
                        Part::Chunk(_) => Part::Chunk(left),
                        _ => Part::Body(left),
                    };
                    input.take(taken as usize)
                }
                Part::Size => match line(rest)? {
                    Some((text, bytes)) => {
                        let size = text.split(';').next().unwrap_or_default().trim();
                        let size = u64::from_str_radix(size, 16);
                        let size = size.map_err(|_| CloseReason::Malformed)?;
                        self.part = match size {
                            0 => Part::Trailer,
                            size => Part::Chunk(size.saturating_add(2)),
                        };
                        input.take(bytes)
                    }
                    None => return Ok(()),
                },
                Part::Trailer => match line(rest)? {
                    Some((text, bytes)) => {
                        if text.is_empty() {
                            self.part = Part::Body(0);
                        }
                        input.take(bytes)
                    }
                    None => return Ok(()),
                },
                Part::Rest => input.take(rest.len()),
            };
            if self.part == Part::Body(0) {
                self.part = Part::Head;
                self.say(out);
            }
        }
    }

    /// An answer is whole.
    fn say(&mut self, out: &mut Out) {
        self.answered += 1;
        if !std::mem::replace(&mut self.is_bound, true) {
            out.say(Observation::Bound { resumed: false, heartbeat_s: 0, offline_count: 0 });
        }
        // The first request is the Bind, which the fleet does not number.
        let seq = self.answered - 1;
        let code = u32::from(self.status);
        match (seq, self.status) {
            (0, _) => {}
            (seq, ..400) => out.say(Observation::Taken { seq }),
            (seq, _) => out.say(Observation::NotTaken { seq, code }),
        }
    }

    /// Reads a head: its bytes, once it is whole.
    fn head(&mut self, bytes: &[u8]) -> Result<Option<usize>, CloseReason> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let length = match response.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => return Ok(None),
            Ok(httparse::Status::Partial) => return Err(CloseReason::TooLarge),
            Err(_) => return Err(CloseReason::Malformed),
        };
        self.status = response.code.unwrap_or_default();
        let named = |name: &str| {
            let header = response.headers.iter().rfind(|h| h.name.eq_ignore_ascii_case(name));
            header.and_then(|header| std::str::from_utf8(header.value).ok())
        };
        let chunked = named("transfer-encoding")
            .is_some_and(|codings| codings.trim_end().to_ascii_lowercase().ends_with("chunked"));
        self.part = match self.status {
            // Another head follows.
            100..200 => Part::Head,
            204 | 304 => Part::Body(0),
            _ if chunked => Part::Size,
            _ => match named("content-length") {
                Some(count) => {
                    Part::Body(count.trim().parse().map_err(|_| CloseReason::Malformed)?)
                }
                None => Part::Rest,
            },
        };
        Ok(Some(length))
    }
}

/// A line without its end, and its bytes with it, once it is whole.
fn line(bytes: &[u8]) -> Result<Option<(&str, usize)>, CloseReason> {
    let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
        let is_bounded = bytes.len() < HEAD_BYTES_MAX;
        return if is_bounded { Ok(None) } else { Err(CloseReason::TooLarge) };
    };
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| CloseReason::Malformed)?;
    Ok(Some((text.trim_end_matches('\r'), end + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::limits::Limits;
    use model::link::{Link, Protocol};

    /// What a client that asked `asked` times says of these bytes, come in pieces of `step`.
    fn hear(asked: u32, bytes: &[u8], step: usize) -> Result<Vec<Observation>, CloseReason> {
        let mut client = Client::new(Arc::new(HttpProfile::get("h", "/")));
        let mut out = Outbox::new(HashKey::new(1, 2));
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
