//! Frames of MIOP 7 (docs/wire/miop.md): bytes to values and back.
//!
//! It knows no state: which frame is allowed when, the machine decides. A fault has its name of
//! MIOP 9.

use crate::sha256::hmac;
use std::fmt;

/// Opcodes (MIOP 3).
#[allow(missing_docs)]
pub mod opcode {
    pub const PING: u8 = 0;
    pub const PONG: u8 = 1;
    pub const BIND: u8 = 2;
    pub const MSG: u8 = 3;
    pub const MSG_ACK: u8 = 4;
    pub const UNBIND: u8 = 5;
    pub const BIND_ACK: u8 = 6;
    pub const UNBIND_ACK: u8 = 7;
    pub const REPORT: u8 = 8;
    pub const REPORT_ACK: u8 = 9;
    pub const KICK: u8 = 10;
    pub const REDIRECT: u8 = 11;
    pub const CHALLENGE: u8 = 12;
    pub const AUTH: u8 = 13;
    pub const CONFIG: u8 = 14;
    pub const PULL: u8 = 15;
    pub const GO_AWAY: u8 = 16;
    pub const ERROR: u8 = 17;
}

/// Capability: the device fetches stored pushes with PULL.
pub const CAP_PULLS: u32 = 2;

const BODY: u8 = 0x01;
const SEQ: u8 = 0x02;
const ACK_REQ: u8 = 0x04;
const COMPRESSED_OR_MORE: u8 = 0x18;
const DUP: u8 = 0x20;
const MUST_UNDERSTAND: u8 = 0x80;
const PROPERTIES_BYTES_MAX: usize = 8_192;
const VALUE_BYTES_MAX: usize = 512;
const ADDRESSES_MAX: usize = 4;
const ADDRESS_BYTES_MAX: usize = 64;
const TAGS_MAX: usize = 64;

/// The server sent what it must not; the name is one of MIOP 9.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault(pub &'static str);

const BAD_LENGTH: Fault = Fault("bad_length");
const BAD_PROPERTY: Fault = Fault("bad_property");
const BAD_RECORD: Fault = Fault("bad_record");
const MISSING_PROPERTY: Fault = Fault("missing_property");

/// The word of a result (MIOP 9).
pub fn word(result: u8) -> String {
    let word = match result {
        0 => "bound",
        1 => "resumed",
        10 => "malformed",
        11 => "version",
        12 => "too_large",
        20 => "auth_failed",
        21 => "clock_skew",
        22 => "replay",
        23 => "unknown_product",
        24 => "device_blocked",
        30 => "busy",
        31 => "quota",
        32 => "draining",
        33 => "redirect",
        40 => "replaced",
        41 => "kicked",
        42 => "heartbeat_timeout",
        43 => "slow_consumer",
        44 => "bind_timeout",
        50 => "internal",
        other => return format!("result_{other}"),
    };
    word.to_owned()
}

/// A type of value: how it is read and written.
trait Value: Sized {
    fn read(bytes: &[u8]) -> Option<Self>;
    fn write(&self, out: &mut Vec<u8>);
}

macro_rules! number {
    ($($type:ty)+) => { $(
        impl Value for $type {
            fn read(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(<$type>::from_be_bytes)
            }
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
    )+ };
}

number! { u8 u16 u32 u64 }

impl<const N: usize> Value for [u8; N] {
    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl Value for Vec<u8> {
    fn read(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl Value for String {
    fn read(bytes: &[u8]) -> Option<Self> {
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl Value for [u16; 3] {
    fn read(bytes: &[u8]) -> Option<Self> {
        let &[a, b, c, d, e, f] = bytes else { return None };
        Some([[a, b], [c, d], [e, f]].map(u16::from_be_bytes))
    }
    fn write(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
    }
}

macro_rules! properties {
    ($($key:literal $name:ident: $type:ty, $doc:literal;)+) => {
        /// The properties of a frame (MIOP 5.4).
        #[derive(Clone, PartialEq, Default)]
        pub struct Properties {
            $(#[doc = $doc] pub $name: Option<$type>,)+
            /// Addresses, `ip:port`.
            pub addrs: Vec<String>,
            /// Tags; a single empty one says "none".
            pub tags: Vec<String>,
        }

        impl Properties {
            fn set(&mut self, key: u8, value: &[u8]) -> Result<(), Fault> {
                match key {
                    $($key => {
                        let read = Value::read(value).ok_or(BAD_PROPERTY)?;
                        if self.$name.replace(read).is_some() {
                            return Err(BAD_PROPERTY);
                        }
                    })+
                    19 => self.add_addr(value)?,
                    30 => self.add_tag(value)?,
                    128.. => return Err(Fault("critical_property")),
                    _ => {}
                }
                Ok(())
            }

            /// Appends the properties in the order of their keys.
            fn write(&self, out: &mut Vec<u8>) {
                // Every value has a key below 64.
                for wanted in 0..64u8 {
                    $(if let (true, Some(value)) = ($key == wanted, &self.$name) {
                        write_property(wanted, value, out);
                    })+
                    match wanted {
                        19 => self.addrs.iter().for_each(|it| write_property(19, it, out)),
                        30 => self.tags.iter().for_each(|it| write_property(30, it, out)),
                        _ => {}
                    }
                }
            }
        }

        impl fmt::Debug for Properties {
            /// Names alone: values may be signatures and tokens.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut list = f.debug_list();
                $(if self.$name.is_some() { list.entry(&stringify!($name)); })+
                list.entries(&self.addrs).finish()
            }
        }
    };
}

properties! {
    1 device_id: String, "The device.";
    2 product_key: String, "Its product.";
    3 client_ts: u64, "The device's clock, Unix milliseconds.";
    4 heartbeat_wish: [u16; 3], "Wished, shortest, longest heartbeat, seconds; 0: no wish.";
    5 heartbeat: u16, "The agreed heartbeat, seconds.";
    6 client_nonce: [u8; 16], "Random, never used before.";
    7 server_nonce: [u8; 16], "The challenge.";
    8 auth_type: u8, "Kind of proof: 0 none, 1 HMAC, 2 token, 3 certificate.";
    9 key_id: u32, "Which of the product's secrets signed.";
    10 mac: [u8; 32], "The signature.";
    11 token: Vec<u8>, "A bearer token.";
    12 resume_token: [u8; 32], "Resumes a session.";
    13 last_msg_id: u64, "A push, and all that were sent before it.";
    14 session_epoch: u64, "The session's number.";
    15 result: u8, "A result (MIOP 9).";
    16 reason: String, "Words for a log.";
    17 retry_after_ms: u32, "Come back after so long.";
    20 caps: u32, "What the device can do, in bits.";
    21 max_frame: u32, "The largest frame that the sender reads, bytes.";
    22 max_inflight: u16, "Unacknowledged pushes.";
    23 ack_timeout_ms: u32, "After so long an unacknowledged push is sent again.";
    27 offline_count: u32, "Stored pushes.";
    28 server_time: u64, "The server's clock, Unix milliseconds.";
    31 count: u16, "How many.";
    33 report_seq: u32, "A Report's number.";
}

impl Properties {
    fn add_addr(&mut self, value: &[u8]) -> Result<(), Fault> {
        if self.addrs.len() == ADDRESSES_MAX || !(1..=ADDRESS_BYTES_MAX).contains(&value.len()) {
            return Err(BAD_PROPERTY);
        }
        self.addrs.push(text(value)?);
        Ok(())
    }

    fn add_tag(&mut self, value: &[u8]) -> Result<(), Fault> {
        if self.tags.len() == TAGS_MAX {
            return Err(Fault("too_large"));
        }
        self.tags.push(text(value)?);
        Ok(())
    }

    fn read(block: &[u8]) -> Result<Properties, Fault> {
        let (mut properties, mut reader) = (Properties::default(), Reader(block, BAD_LENGTH));
        while !reader.0.is_empty() {
            let [key] = reader.fixed()?;
            let value = reader.block()?;
            if value.len() > VALUE_BYTES_MAX {
                return Err(BAD_PROPERTY);
            }
            properties.set(key, value)?;
        }
        Ok(properties)
    }
}

fn text(value: &[u8]) -> Result<String, Fault> {
    std::str::from_utf8(value).map(str::to_owned).map_err(|_| BAD_PROPERTY)
}

fn write_property<T: Value>(key: u8, value: &T, out: &mut Vec<u8>) {
    let mut bytes = Vec::new();
    value.write(&mut bytes);
    debug_assert!(bytes.len() <= VALUE_BYTES_MAX, "checked when a client is made");
    out.push(key);
    write_varint(bytes.len() as u32, out);
    out.extend_from_slice(&bytes);
}

/// A push in a MSG (MIOP 5.5).
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// Unique in the cluster.
    pub id: u64,
    /// The product's number.
    pub app_id: u32,
    /// Show nothing.
    pub silent: bool,
    /// The push may have overtaken others.
    pub high: bool,
    /// Unix second after which the push means nothing; 0: deliver now or never.
    pub expire_at: u32,
    /// A newer push with the same key replaces an older one; empty: none.
    pub collapse: Vec<u8>,
    /// The body; may be empty.
    pub body: Vec<u8>,
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record {} of {} bytes", self.id, self.body.len())
    }
}

/// A frame. Of a MSG the payload is in `records`; an unknown opcode is `skipped` unread.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Frame {
    /// The opcode (MIOP 3).
    pub opcode: u8,
    /// Its properties.
    pub properties: Properties,
    /// The payload, as the opcode defines it.
    pub payload: Vec<u8>,
    /// The sender's number for it.
    pub seq: Option<u32>,
    /// An acknowledgement is wanted.
    pub ack_req: bool,
    /// The server may have sent the push before.
    pub dup: bool,
    /// The pushes of a MSG.
    pub records: Vec<Record>,
    /// An unknown opcode.
    pub skipped: bool,
}

impl Frame {
    /// A frame with properties and nothing else.
    pub fn new(opcode: u8, properties: Properties) -> Frame {
        Frame { opcode, properties, ..Frame::default() }
    }

    /// The bytes of a frame of a device.
    pub fn encode(&self) -> Vec<u8> {
        let mut block = Vec::new();
        self.properties.write(&mut block);
        if self.seq.is_none() && block.is_empty() && self.payload.is_empty() {
            return vec![0, 7, 0, self.opcode];
        }
        let mut body = Vec::new();
        body.extend(self.seq.iter().flat_map(|seq| seq.to_be_bytes()));
        write_varint(block.len() as u32, &mut body);
        body.extend_from_slice(&block);
        body.extend_from_slice(&self.payload);
        let flags = BODY | if self.seq.is_some() { SEQ } else { 0 };
        let mut out = vec![0, 7, flags, self.opcode];
        out.extend_from_slice(&(body.len() as u32).to_be_bytes());
        out.extend_from_slice(&body);
        out
    }

    /// The frame at the front and its length; `None` if more bytes are needed.
    pub fn decode(bytes: &[u8], frame_bytes_max: usize) -> Result<Option<(Frame, usize)>, Fault> {
        check_version(bytes)?;
        let Some(&[_, _, flags, opcode]) = bytes.first_chunk() else { return Ok(None) };
        if flags & MUST_UNDERSTAND != 0 {
            return Err(Fault("must_understand"));
        }
        if flags & COMPRESSED_OR_MORE != 0 || flags & (SEQ | BODY) == SEQ {
            return Err(Fault("bad_flags"));
        }
        let (ack_req, dup) = (flags & ACK_REQ != 0, flags & DUP != 0);
        let skipped = opcode > opcode::ERROR;
        let mut frame = Frame { opcode, ack_req, dup, skipped, ..Frame::default() };
        let mut end = 4;
        if flags & BODY != 0 {
            let Some(&length) = bytes[4..].first_chunk() else { return Ok(None) };
            end = 8usize.saturating_add(u32::from_be_bytes(length) as usize);
            if end > frame_bytes_max {
                return Err(Fault("too_large"));
            }
            let Some(body) = bytes.get(8..end) else { return Ok(None) };
            if !skipped {
                frame.read_body(body, flags & SEQ != 0)?;
            }
        }
        if !skipped {
            frame.check()?;
        }
        Ok(Some((frame, end)))
    }

    fn read_body(&mut self, body: &[u8], has_seq: bool) -> Result<(), Fault> {
        let mut reader = Reader(body, BAD_LENGTH);
        if has_seq {
            self.seq = Some(u32::from_be_bytes(reader.fixed()?));
        }
        let block = reader.block()?;
        if block.len() > PROPERTIES_BYTES_MAX {
            return Err(Fault("too_large"));
        }
        self.properties = Properties::read(block)?;
        self.payload = reader.0.to_vec();
        Ok(())
    }

    /// What the specification demands of the frames that a device reads. What else a BIND_ACK that
    /// lets in must have, the machine checks.
    fn check(&mut self) -> Result<(), Fault> {
        let it = &self.properties;
        match self.opcode {
            opcode::MSG => {
                self.records = read_records(&std::mem::take(&mut self.payload))?;
                Ok(())
            }
            opcode::BIND_ACK if it.result.is_none() => Err(MISSING_PROPERTY),
            opcode::CHALLENGE if it.server_nonce.is_none() => Err(MISSING_PROPERTY),
            opcode::REPORT_ACK if it.report_seq.is_none() => Err(MISSING_PROPERTY),
            _ => Ok(()),
        }
    }
}

fn check_version(bytes: &[u8]) -> Result<(), Fault> {
    match bytes {
        [] | [0] | [0, 7, ..] => Ok(()),
        [0, 5 | 6, ..] => Err(Fault("version_changed")),
        [0, 8..=255, ..] => Err(Fault("newer_version")),
        _ => Err(Fault("unknown_version")),
    }
}

fn read_records(payload: &[u8]) -> Result<Vec<Record>, Fault> {
    let (mut records, mut reader) = (Vec::new(), Reader(payload, BAD_RECORD));
    while !reader.0.is_empty() {
        let id = u64::from_be_bytes(reader.fixed()?);
        let app_id = u32::from_be_bytes(reader.fixed()?);
        let [flags] = reader.fixed()?;
        let expire_at = u32::from_be_bytes(reader.fixed()?);
        let collapse = reader.block()?.to_vec();
        let body = reader.block()?.to_vec();
        if flags & 8 != 0 {
            return Err(BAD_RECORD);
        }
        let (silent, high) = (flags & 2 != 0, flags & 4 != 0);
        records.push(Record { id, app_id, silent, high, expire_at, collapse, body });
    }
    if records.is_empty() {
        return Err(Fault("empty_block"));
    }
    Ok(records)
}

/// Bytes to read from, and what a short one is called.
struct Reader<'a>(&'a [u8], Fault);

impl<'a> Reader<'a> {
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (front, rest) = self.0.split_first_chunk().ok_or(self.1)?;
        self.0 = rest;
        Ok(*front)
    }

    /// A varint in its shortest form (MIOP 5.3), and so many bytes.
    fn block(&mut self) -> Result<&'a [u8], Fault> {
        let mut length = 0u32;
        for at in 0..5 {
            let [byte] = self.fixed()?;
            if (at > 0 && byte == 0) || (at == 4 && byte > 0x0f) {
                return Err(self.1);
            }
            length |= u32::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                let length = length as usize;
                if length > self.0.len() {
                    return Err(self.1);
                }
                let (front, rest) = self.0.split_at(length);
                self.0 = rest;
                return Ok(front);
            }
        }
        Err(self.1)
    }
}

fn write_varint(mut value: u32, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The fields that a device signs.
#[derive(Clone)]
pub struct Claim {
    /// The product's secret.
    pub secret: Vec<u8>,
    /// The product's key.
    pub product: String,
    /// The device's id.
    pub device: String,
    /// The device's clock.
    pub client_ts: u64,
    /// Random.
    pub client_nonce: [u8; 16],
    /// The device's capabilities.
    pub caps: u32,
}

impl Claim {
    /// The signature of a BIND (MIOP 6.1); `server_nonce` is empty, or that of a challenge.
    pub fn sign(&self, server_nonce: &[u8]) -> [u8; 32] {
        let parts: [&[u8]; 8] = [
            b"MIOP7-BIND",
            self.product.as_bytes(),
            self.device.as_bytes(),
            &self.client_ts.to_be_bytes(),
            &self.client_nonce,
            &self.caps.to_be_bytes(),
            b"",
            server_nonce,
        ];
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u16).to_be_bytes());
            bytes.extend_from_slice(part);
        }
        hmac(&self.secret, &bytes)
    }
}
