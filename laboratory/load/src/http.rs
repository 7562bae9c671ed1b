//! HTTP/1 as callers need it: the answers on one connection, read as they come, and the requests of
//! a text counted.
//!
//! The reader knows no connection: it gets bytes and takes complete parts. `httparse` reads heads;
//! this module finds where a body ends (RFC 9112 6.3). Headers and bodies are kept only for whoever
//! wants them, and within limits.

use model::close::CloseReason;
use std::collections::VecDeque;

/// Longest head of an answer, bytes.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Headers of an answer, at most.
const HEADERS_MAX: usize = 128;
/// Longest body that is kept, bytes.
pub const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Requests in one text, at most.
pub const PIPELINE_MAX: usize = 4_096;

/// Name and value, as they came.
pub type HttpHeader = (Vec<u8>, Vec<u8>);

/// An answer that is whole.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HttpAnswer {
    /// Its status.
    pub status: u16,
    /// Its headers, where they are kept.
    pub headers: Vec<HttpHeader>,
    /// Its body, where it is kept.
    pub body: Vec<u8>,
    /// The connection goes on.
    pub goes_on: bool,
}

/// Why an answer cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HttpError {
    /// The answer breaks the rules of HTTP.
    Malformed,
    /// Its head or its body is longer than allowed.
    TooLarge,
    /// An answer came without a request.
    Unasked,
}

impl From<HttpError> for CloseReason {
    fn from(error: HttpError) -> CloseReason {
        match error {
            HttpError::Malformed => CloseReason::Malformed,
            HttpError::TooLarge => CloseReason::TooLarge,
            HttpError::Unasked => CloseReason::OutOfOrder,
        }
    }
}

/// Next part of the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Head,
    /// Bytes of the body.
    Body(u64),
    /// Body until the connection ends.
    UntilClose,
    /// A chunk's size.
    Size,
    /// Bytes of a chunk, with its line's end.
    Chunk(u64),
    /// The lines behind the last chunk.
    Trailer,
}

/// Reads the answers of one connection.
#[derive(Debug)]
pub struct AnswerReader {
    next: Next,
    /// The answer that is being read.
    answer: HttpAnswer,
    /// For each request without an answer: whether its answer has no body.
    asked: VecDeque<bool>,
    /// Headers and bodies are kept.
    keeps: bool,
}

impl AnswerReader {
    /// Makes a reader before any request.
    pub fn new(keeps: bool) -> AnswerReader {
        let answer = HttpAnswer::default();
        AnswerReader { next: Next::Head, answer, asked: VecDeque::new(), keeps }
    }

    /// Notes that these requests are sent: for each whether it is a HEAD.
    pub fn asked(&mut self, heads: impl IntoIterator<Item = bool>) {
        self.asked.extend(heads);
    }

    /// Whether an answer has begun and is not whole.
    pub fn is_inside(&self) -> bool {
        self.next != Next::Head
    }

    /// Takes what it can of `bytes`: how many, and an answer if one became whole by them. It is to
    /// be called again until it takes nothing and has no answer.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(usize, Option<HttpAnswer>), HttpError> {
        if bytes.is_empty() {
            return Ok((0, None));
        }
        match self.next {
            Next::Head => self.head(bytes),
            Next::Body(left) => {
                let taken = self.body(bytes, left)?;
                self.next = Next::Body(left - taken as u64);
                Ok((taken, (left == taken as u64).then(|| self.whole())))
            }
            Next::UntilClose => Ok((self.body(bytes, u64::MAX)?, None)),
            Next::Size => self.size(bytes).map(|taken| (taken, None)),
            Next::Chunk(2) if bytes.len() < 2 => Ok((0, None)),
            Next::Chunk(2) if bytes.starts_with(b"\r\n") => {
                self.next = Next::Size;
                Ok((2, None))
            }
            Next::Chunk(2) => Err(HttpError::Malformed),
            Next::Chunk(left) => {
                let taken = self.body(bytes, left - 2)?;
                self.next = Next::Chunk(left - taken as u64);
                Ok((taken, None))
            }
            Next::Trailer => {
                let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                    return if bytes.len() > HEAD_BYTES_MAX {
                        Err(HttpError::TooLarge)
                    } else {
                        Ok((0, None))
                    };
                };
                let last = bytes[..end].iter().all(|byte| *byte == b'\r');
                Ok((end + 1, last.then(|| self.whole())))
            }
        }
    }

    /// The connection has ended between two bytes: the answer that ends by that.
    pub fn ended(&mut self) -> Option<HttpAnswer> {
        (self.next == Next::UntilClose).then(|| self.whole())
    }

    fn whole(&mut self) -> HttpAnswer {
        self.next = Next::Head;
        self.asked.pop_front();
        std::mem::take(&mut self.answer)
    }

    fn head(&mut self, bytes: &[u8]) -> Result<(usize, Option<HttpAnswer>), HttpError> {
        let bodiless = *self.asked.front().ok_or(HttpError::Unasked)?;
        let mut room = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Response::new(&mut room);
        let taken = match head.parse(bytes) {
            Ok(httparse::Status::Complete(taken)) => taken,
            Ok(httparse::Status::Partial) if bytes.len() <= HEAD_BYTES_MAX => {
                return Ok((0, None));
            }
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return Err(HttpError::TooLarge);
            }
            Err(_) => return Err(HttpError::Malformed),
        };
        let status = head.code.ok_or(HttpError::Malformed)?;
        if (100..200).contains(&status) && status != 101 {
            return Ok((taken, None)); // an interim answer: the real one follows (RFC 9110 15.2)
        }
        let Framing { length, chunked, close, keep } = Framing::of(head.headers)?;
        let old = head.version == Some(0);
        self.answer.status = status;
        self.answer.goes_on = if old { keep && !close } else { !close };
        if self.keeps {
            let kept = head.headers.iter();
            let kept = kept.map(|header| (header.name.as_bytes().to_vec(), header.value.to_vec()));
            self.answer.headers = kept.collect();
        }
        if bodiless || status == 204 || status == 304 {
            return Ok((taken, Some(self.whole())));
        }
        self.next = match (chunked, length) {
            (true, _) => Next::Size,
            (false, Some(0)) => return Ok((taken, Some(self.whole()))),
            (false, Some(length)) => Next::Body(length),
            (false, None) => {
                self.answer.goes_on = false;
                Next::UntilClose
            }
        };
        Ok((taken, None))
    }

    /// Takes at most `left` bytes of a body.
    fn body(&mut self, bytes: &[u8], left: u64) -> Result<usize, HttpError> {
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        if self.keeps {
            if self.answer.body.len() + taken > BODY_BYTES_MAX {
                return Err(HttpError::TooLarge);
            }
            self.answer.body.extend_from_slice(&bytes[..taken]);
        }
        Ok(taken)
    }

    fn size(&mut self, bytes: &[u8]) -> Result<usize, HttpError> {
        match httparse::parse_chunk_size(bytes) {
            Ok(httparse::Status::Complete((taken, 0))) => {
                self.next = Next::Trailer;
                Ok(taken)
            }
            Ok(httparse::Status::Complete((taken, size))) => {
                self.next = Next::Chunk(size.checked_add(2).ok_or(HttpError::TooLarge)?);
                Ok(taken)
            }
            Ok(httparse::Status::Partial) if bytes.len() <= HEAD_BYTES_MAX => Ok(0),
            Ok(httparse::Status::Partial) => Err(HttpError::TooLarge),
            Err(_) => Err(HttpError::Malformed),
        }
    }
}

/// Headers that decide where a message ends.
#[derive(Default)]
struct Framing {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep: bool,
}

impl Framing {
    fn of(headers: &[httparse::Header<'_>]) -> Result<Framing, HttpError> {
        let mut this = Framing::default();
        for header in headers {
            let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
            if header.name.eq_ignore_ascii_case("content-length") {
                let length = value.parse().map_err(|_| HttpError::Malformed)?;
                if this.length.is_some_and(|other| other != length) {
                    return Err(HttpError::Malformed);
                }
                this.length = Some(length);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                let last = value.rsplit(',').next().unwrap_or_default().trim();
                this.chunked = last.eq_ignore_ascii_case("chunked");
            } else if header.name.eq_ignore_ascii_case("connection") {
                let has =
                    |word: &str| value.split(',').any(|w| w.trim().eq_ignore_ascii_case(word));
                this.close |= has("close");
                this.keep |= has("keep-alive");
            }
        }
        Ok(this)
    }
}

/// The requests in a text, for each whether it is a HEAD. An error says what is wrong with it.
pub fn requests(text: &[u8]) -> Result<Vec<bool>, String> {
    let mut heads = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let at = text.len() - rest.len();
        let wrong = |what: &dyn std::fmt::Display| {
            format!("request() did not return an HTTP request, at byte {at}: {what}")
        };
        let mut room = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Request::new(&mut room);
        let taken = match head.parse(rest).map_err(|error| wrong(&error))? {
            httparse::Status::Complete(taken) => taken,
            httparse::Status::Partial => return Err(wrong(&"its header is incomplete")),
        };
        let framing =
            Framing::of(head.headers).map_err(|_| wrong(&"its Content-Length is wrong"))?;
        heads.push(head.method == Some("HEAD"));
        rest = &rest[taken..];
        if framing.chunked {
            rest = behind_chunks(rest).ok_or_else(|| wrong(&"its last chunk is missing"))?;
        } else {
            let length = usize::try_from(framing.length.unwrap_or(0)).unwrap_or(usize::MAX);
            let short = || wrong(&format!("its body is shorter than its Content-Length {length}"));
            rest = rest.get(length..).ok_or_else(short)?;
        }
        if heads.len() > PIPELINE_MAX {
            return Err(wrong(&format!("more than {PIPELINE_MAX} requests")));
        }
    }
    if heads.is_empty() {
        return Err("request() returned an empty text".to_owned());
    }
    Ok(heads)
}

fn behind_chunks(text: &[u8]) -> Option<&[u8]> {
    let mut reader = AnswerReader::new(false);
    reader.next = Next::Size;
    let mut rest = text;
    loop {
        let (taken, whole) = reader.read(rest).ok()?;
        rest = &rest[taken..];
        if whole.is_some() {
            return Some(rest);
        }
        if taken == 0 {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All answers to `asked` requests, fed in pieces of `step` bytes.
    fn read(text: &[u8], asked: &[bool], step: usize) -> Result<Vec<HttpAnswer>, HttpError> {
        let mut reader = AnswerReader::new(true);
        reader.asked(asked.iter().copied());
        let (mut answers, mut waiting) = (Vec::new(), Vec::new());
        for piece in text.chunks(step) {
            waiting.extend_from_slice(piece);
            loop {
                let (taken, answer) = reader.read(&waiting)?;
                waiting.drain(..taken);
                let found = answer.is_some();
                answers.extend(answer);
                if taken == 0 && !found {
                    break;
                }
            }
        }
        answers.extend(reader.ended());
        Ok(answers)
    }

    const THREE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\
        X-A: b\r\n\r\nhelloHTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n\
        1\r\nd\r\n0\r\nT: u\r\n\r\nHTTP/1.0 200 OK\r\n\r\nuntil the end";

    #[test]
    fn answers_end_where_they_say_whatever_the_pieces() {
        for step in [1, 2, 7, 4_096] {
            let got = read(THREE, &[false; 3], step).expect("whole answers");
            let bodies: Vec<_> = got.iter().map(|answer| answer.body.as_slice()).collect();
            assert_eq!(bodies, [&b"hello"[..], b"abcd", b"until the end"], "{step}");
            let kinds: Vec<_> = got.iter().map(|answer| (answer.status, answer.goes_on)).collect();
            assert_eq!(kinds, [(200, true), (404, true), (200, false)]);
            assert_eq!(got[0].headers[1], (b"X-A".to_vec(), b"b".to_vec()));
        }
    }

    #[test]
    fn some_answers_have_no_body_and_some_end_the_connection() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 204 No\r\n\
            Connection: close\r\n\r\n";
        let got = read(text, &[true, false], 3).expect("a HEAD's answer and an empty one");
        assert_eq!(got.len(), 2);
        assert!(got[0].goes_on && !got[1].goes_on);
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(read(b"HELLO\r\n\r\n", &[false], 99), Err(HttpError::Malformed));
        assert_eq!(read(b"HTTP/1.1 200 OK\r\n\r\n", &[], 99), Err(HttpError::Unasked));
        let two = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab";
        assert_eq!(read(two, &[false], 99), Err(HttpError::Malformed));
        let bad = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
        assert_eq!(read(bad, &[false], 99), Err(HttpError::Malformed));
        let long = [b"HTTP/1.1 200 OK\r\nA: ".as_slice(), &[b'x'; HEAD_BYTES_MAX + 9]].concat();
        assert_eq!(read(&long, &[false], 1 << 20), Err(HttpError::TooLarge));
    }

    #[test]
    fn requests_of_a_text_are_counted() {
        let text = b"GET / HTTP/1.1\r\nHost: x\r\n\r\nHEAD /a HTTP/1.1\r\n\r\n\
            POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc\
            POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
        assert_eq!(requests(text), Ok(vec![false, true, false, false]));
        for bad in [
            &b""[..],
            b"hello",
            b"GET / HTTP/1.1\r\n",
            b"POST / HTTP/1.1\r\n\
            Content-Length: 9\r\n\r\nabc",
        ] {
            assert!(requests(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }
}
