//! Frames of version 7 (MIOP 5).
//!
//! ```text
//!  0        2       3        4          8
//!  | 00 07 | flags | opcode | length l | [seq] | prop_len p | properties | payload |
//!                           '---------- only with BODY, l bytes after length -----'
//! ```
//! The length does not depend on the opcode, so an unknown one can be skipped.

use super::property::Props;
use super::{FrameFault, PROPERTIES_BYTES_MAX, varint};

/// Flags of the third byte (MIOP 5.1).
pub mod flag {
    /// A length and a body follow the opcode.
    pub const BODY: u8 = 0x01;
    /// The body begins with a number of four bytes.
    pub const SEQ: u8 = 0x02;
    /// The sender wants an acknowledgement.
    pub const ACK_REQ: u8 = 0x04;
    /// Compressed: never negotiated here, so refused.
    pub const COMPRESSED: u8 = 0x08;
    /// A fragment: refused.
    pub const MORE: u8 = 0x10;
    /// The frame may have been sent before.
    pub const DUP: u8 = 0x20;
    /// A receiver that does not understand this bit must refuse the frame. No one does yet.
    pub const MUST_UNDERSTAND: u8 = 0x80;
}

macro_rules! opcodes {
    ($($variant:ident $number:literal $meaning:literal;)+) => {
        /// Opcodes of version 7 (MIOP 3).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Opcode {
            $(#[doc = $meaning] $variant,)+
            /// One that is not known here: its frame is skipped.
            Unknown(u8),
        }

        impl Opcode {
            /// All known ones, in order.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$variant,)+];

            /// The opcode with this number.
            pub const fn of(number: u8) -> Opcode {
                match number { $($number => Opcode::$variant,)+ other => Opcode::Unknown(other) }
            }

            /// Its number on the wire.
            pub const fn number(self) -> u8 {
                match self { $(Opcode::$variant => $number,)+ Opcode::Unknown(number) => number }
            }
        }
    };
}

opcodes! {
    Ping 0 "Heartbeat, device to server; may carry a cumulative acknowledgement.";
    Pong 1 "Its answer.";
    Bind 2 "Attach the device.";
    Msg 3 "Pushes, server to device.";
    MsgAck 4 "The device has pushes.";
    Unbind 5 "Detach the device.";
    BindAck 6 "Answer to Bind or Auth.";
    UnbindAck 7 "Answer to Unbind.";
    Report 8 "The device reports.";
    ReportAck 9 "The server took Reports, up to a number.";
    Kick 10 "The server ended the session.";
    Redirect 11 "The server ended the session: go elsewhere.";
    Challenge 12 "The server's nonce.";
    Auth 13 "The device's signature over both nonces.";
    Config 14 "New terms.";
    Pull 15 "Send stored pushes; as answer: so many remain.";
    GoAway 16 "The server is about to go.";
    Error 17 "The server could not do what a frame asked.";
}

/// A version 7 frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// Type of the frame.
    pub opcode: Opcode,
    /// [`flag::ACK_REQ`] and [`flag::DUP`]; BODY and SEQ follow from the rest when written.
    pub flags: u8,
    /// The sender's number for it.
    pub seq: Option<u32>,
    /// Its properties.
    pub props: Props<'a>,
    /// Payload, in the opcode's format.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// A frame with properties and nothing else.
    pub fn new(opcode: Opcode, props: Props<'a>) -> Frame<'a> {
        Frame { opcode, flags: 0, seq: None, props, payload: &[] }
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        write(self, |out| out.extend_from_slice(self.payload), out);
    }
}

/// Appends a frame whose payload is written by `payload`; `frame.payload` is not looked at.
pub fn write(frame: &Frame<'_>, payload: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0, 7, frame.flags, frame.opcode.number(), 0, 0, 0, 0]);
    if let Some(seq) = frame.seq {
        out.extend_from_slice(&seq.to_be_bytes());
    }
    write_props(&frame.props, out);
    payload(out);
    let plain = frame.seq.is_none() && out.len() == start + 9;
    if plain {
        out.truncate(start + 4); // no number, no properties, no payload: no body
        return;
    }
    let length = u32::try_from(out.len() - start - 8).expect("frames are far below 4 GiB");
    out[start + 4..start + 8].copy_from_slice(&length.to_be_bytes());
    out[start + 2] |= flag::BODY | if frame.seq.is_some() { flag::SEQ } else { 0 };
}

/// Appends a property block with its length in front.
fn write_props(props: &Props<'_>, out: &mut Vec<u8>) {
    let at = out.len();
    out.push(0);
    props.write(out);
    let length = (out.len() - at - 1) as u32;
    if length < 0x80 {
        out[at] = length as u8;
    } else {
        let mut varint = Vec::with_capacity(2);
        varint::write(length, &mut varint);
        out.splice(at..=at, varint);
    }
}

/// The frame at the front of `bytes` and its length; `None` when more bytes are needed. Its
/// version must have been sniffed. A frame above `bytes_max` is a fault as soon as that shows.
pub fn parse(bytes: &[u8], bytes_max: usize) -> Result<Option<(Frame<'_>, usize)>, FrameFault> {
    let Some(&[_, _, flags, opcode]) = bytes.first_chunk() else { return Ok(None) };
    let opcode = Opcode::of(opcode);
    if flags & flag::MUST_UNDERSTAND != 0 {
        return Err(FrameFault::MustUnderstand);
    }
    let lone_seq = flags & (flag::SEQ | flag::BODY) == flag::SEQ;
    if flags & (flag::COMPRESSED | flag::MORE) != 0 || lone_seq {
        return Err(FrameFault::BadFlags);
    }
    let kept = flags & (flag::ACK_REQ | flag::DUP);
    let mut frame = Frame { opcode, flags: kept, seq: None, props: Props::default(), payload: &[] };
    if flags & flag::BODY == 0 {
        return Ok(Some((frame, 4)));
    }
    let Some(&length) = bytes[4..].first_chunk() else { return Ok(None) };
    let end = 8usize.saturating_add(u32::from_be_bytes(length) as usize);
    if end > bytes_max {
        return Err(FrameFault::TooLarge);
    }
    let Some(mut body) = bytes.get(8..end) else { return Ok(None) };
    if matches!(opcode, Opcode::Unknown(_)) {
        return Ok(Some((frame, end)));
    }
    if flags & flag::SEQ != 0 {
        let (seq, rest) = body.split_first_chunk().ok_or(FrameFault::BadLength)?;
        frame.seq = Some(u32::from_be_bytes(*seq));
        body = rest;
    }
    let props = varint::read_block(&mut body)?;
    if props.len() > PROPERTIES_BYTES_MAX {
        return Err(FrameFault::TooLarge);
    }
    frame.props = Props::read(props)?;
    frame.payload = body;
    Ok(Some((frame, end)))
}
