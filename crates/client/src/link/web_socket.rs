//! A caller's WebSocket (RFC 6455): the upgrade, and binary messages around the protocol's bytes.
//!
//! ```text
//!  | fin 000 opcode:4 | mask length:7 | [length 2 or 8] | [mask 4] | payload
//! ```
//! Message boundaries mean nothing to MQTT, so payloads are handed on as they come, whole frame or
//! not. What a caller sends is masked, what it receives is not (RFC 6455 5.1).

use crate::Endpoint;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::close::CloseReason;
use ring::digest;

/// Longest answer to the upgrade that is read, bytes.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Longest control frame's payload (RFC 6455 5.5).
const CONTROL_BYTES_MAX: u64 = 125;

/// Framing of one connection.
#[derive(Default)]
pub(super) struct WebSocket {
    /// A header that is not whole.
    head: Vec<u8>,
    /// A header was taken, and its frame is not over.
    is_inside: bool,
    opcode: u8,
    /// Bytes of the frame that have yet to come.
    left: u64,
    /// Payload of a control frame so far.
    control: Vec<u8>,
    /// The broker said farewell.
    pub is_over: bool,
}

/// A new key for an upgrade.
pub(super) fn key() -> Result<String, String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| format!("no random numbers: {error}"))?;
    Ok(STANDARD.encode(random))
}

/// The request; a client offers the subprotocol `mqtt` (MQTT5 6.0.0-3, MQTT3 6.0.0-3).
pub(super) fn request(place: &Endpoint, path: &str, key: &str) -> String {
    let host = match place {
        Endpoint::Host(host, port) if host.contains(':') => format!("[{host}]:{port}"),
        Endpoint::Host(host, port) => format!("{host}:{port}"),
        Endpoint::Unix(_) => "localhost".to_owned(),
    };
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Protocol: mqtt\r\n\r\n"
    )
}

/// Whether the answer accepts the upgrade with this key (RFC 6455 4.1).
pub(super) fn check(head: &str, key: &str) -> Result<(), String> {
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("101") {
        return Err(format!("the broker answered `{status}`"));
    }
    let value = |name: &str| {
        let mut fields = head.split("\r\n").filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    let keyed = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, keyed.as_bytes());
    if value("Sec-WebSocket-Accept") != Some(&STANDARD.encode(hash)) {
        return Err("its answer does not belong to our key".to_owned());
    }
    match value("Sec-WebSocket-Protocol") {
        Some("mqtt") => Ok(()),
        _ => Err("it does not speak MQTT inside".to_owned()),
    }
}

impl WebSocket {
    /// Appends `payload` as one binary message.
    pub fn wrap(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), CloseReason> {
        frame(0x82, payload, out)
    }

    /// Appends a close frame, status 1000.
    pub fn farewell(&mut self, out: &mut Vec<u8>) -> Result<(), CloseReason> {
        frame(0x88, &1000u16.to_be_bytes(), out)
    }

    /// Takes the payloads out; returns what is to be answered.
    pub fn unwrap(
        &mut self,
        mut bytes: &[u8],
        inner: &mut Vec<u8>,
    ) -> Result<Vec<u8>, CloseReason> {
        let mut answer = Vec::new();
        while !self.is_over {
            if !self.is_inside {
                if !self.header(&mut bytes)? {
                    break;
                }
                self.is_inside = true;
            }
            let count = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
            let (payload, rest) = bytes.split_at(count);
            bytes = rest;
            self.left -= count as u64;
            match self.opcode {
                0x0..0x8 => inner.extend_from_slice(payload),
                _ => self.control.extend_from_slice(payload),
            }
            if self.left > 0 {
                break;
            }
            self.is_inside = false;
            self.end_control(&mut answer)?;
        }
        Ok(answer)
    }

    /// Answers a control frame that is whole.
    fn end_control(&mut self, answer: &mut Vec<u8>) -> Result<(), CloseReason> {
        let control = std::mem::take(&mut self.control);
        match self.opcode {
            0x8 => {
                self.is_over = true;
                frame(0x88, control.get(..2).unwrap_or_default(), answer)
            }
            0x9 => frame(0x8a, &control, answer),
            _ => Ok(()),
        }
    }

    /// Takes a header; false when it is not whole.
    fn header(&mut self, bytes: &mut &[u8]) -> Result<bool, CloseReason> {
        loop {
            let wanted = match self.head.get(1).map(|second| second & 0x7f) {
                None => 2,
                Some(126) => 4,
                Some(127) => 10,
                Some(_) => 2,
            };
            if self.head.len() == wanted {
                break;
            }
            let Some((&byte, rest)) = bytes.split_first() else { return Ok(false) };
            self.head.push(byte);
            *bytes = rest;
        }
        let head = std::mem::take(&mut self.head);
        let (opcode, length) = (head[0] & 0x0f, head[1]);
        self.left = match length {
            126 | 127 => head[2..].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
            _ => u64::from(length & 0x7f),
        };
        let is_known = matches!(opcode, 0x0 | 0x2 | 0x8..=0xa) && head[0] & 0x70 == 0;
        let is_control = opcode >= 8;
        if !is_known || length & 0x80 != 0 || is_control && self.left > CONTROL_BYTES_MAX {
            return Err(CloseReason::WebSocketFailed);
        }
        self.opcode = opcode;
        Ok(true)
    }
}

/// Appends a masked frame.
fn frame(first: u8, payload: &[u8], out: &mut Vec<u8>) -> Result<(), CloseReason> {
    let mut mask = [0; 4];
    getrandom::fill(&mut mask).map_err(|_| CloseReason::LocalLimit)?;
    out.push(first);
    match payload.len() {
        length @ 0..126 => out.push(0x80 | length as u8),
        length @ 126..0x1_0000 => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_the_standard_fits_its_key() {
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
            sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\
            Sec-WebSocket-Protocol: mqtt\r\n\r\n";
        assert_eq!(check(head, key), Ok(()));
        assert!(check(head, "dGhlIHNhbXBsZSBub25jZR==").is_err());
        assert!(check(&head.replace("mqtt", "chat"), key).is_err());
        assert!(check("HTTP/1.1 404 Not Found\r\n\r\n", key).is_err());
        let request = request(&Endpoint::Host("h".into(), 80), "/mqtt", key);
        assert!(request.contains("\r\nSec-WebSocket-Protocol: mqtt\r\n"));
    }

    /// Frames of a server in one string, split everywhere.
    #[test]
    fn payloads_come_out_however_frames_are_cut() {
        let mut bytes = vec![0x82, 3, b'a', b'b', b'c', 0x89, 2, b'h', b'i', 0x02, 0, 0x80, 126, 0];
        bytes.push(200);
        bytes.extend_from_slice(&[7; 200]);
        bytes.extend_from_slice(&[0x82, 1, b'd']);
        for step in 1..bytes.len() {
            let (mut web_socket, mut inner, mut answer) =
                (WebSocket::default(), Vec::new(), Vec::new());
            for piece in bytes.chunks(step) {
                answer.extend(web_socket.unwrap(piece, &mut inner).expect("good frames"));
            }
            let mut wanted = b"abc".to_vec();
            wanted.extend_from_slice(&[7; 200]);
            wanted.push(b'd');
            assert_eq!(inner, wanted, "cut in pieces of {step}");
            assert_eq!((answer[0], answer[1], answer.len()), (0x8a, 0x82, 8));
        }
    }

    #[test]
    fn a_farewell_is_answered_and_ends_it() {
        let (mut web_socket, mut inner) = (WebSocket::default(), Vec::new());
        let answer = web_socket.unwrap(&[0x88, 2, 3, 0xe8], &mut inner).expect("a good frame");
        assert_eq!(answer[..2], [0x88, 0x82]);
        assert!(web_socket.is_over);
    }

    #[test]
    fn broken_frames_are_refused() {
        for bytes in [&[0x82, 0x81][..], &[0x83, 0], &[0x81, 0], &[0xc2, 0], &[0x89, 126, 0, 200]] {
            let (mut web_socket, mut inner) = (WebSocket::default(), Vec::new());
            let refused = web_socket.unwrap(bytes, &mut inner);
            assert_eq!(refused, Err(CloseReason::WebSocketFailed), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_sent_is_masked() {
        for length in [5, 300, 70_000] {
            let mut out = Vec::new();
            frame(0x82, &vec![9; length], &mut out).expect("random numbers");
            let head = out.len() - length;
            let mask: [u8; 4] = out[head - 4..head].try_into().expect("four bytes");
            let plain = out[head..].iter().zip(mask.iter().cycle()).map(|(a, b)| a ^ b);
            assert!(plain.eq(vec![9; length]) && out[1] & 0x80 != 0);
        }
    }
}
