//! Frames of versions 5 and 6 (MIOP 4).
//!
//! ```text
//!  0        2        4           6            6+p        10+p
//!  | version | opcode | prop_len p | properties | data_len d | data |
//! ```
//! Which of the blocks are there depends on the opcode, so an unknown opcode ends the connection.
//! Classic readers stall or misread when a block is empty: none is ever written, and none is taken.

use super::record::ClassicRecord;
use super::text::Text;
use super::{FrameFault, PROPERTIES_BYTES_MAX, Version, carried};
use std::io::Write;

/// Largest data block a classic device can hold, bytes (MIOP 8).
pub const DATA_BYTES_MAX: usize = 5 * 1024 * 1024 - 1;

/// Classic opcodes (MIOP 3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum ClassicOpcode {
    /// Heartbeat, device to server.
    Ping = 0,
    /// Its answer.
    Pong = 1,
    /// Attach a device.
    Bind = 2,
    /// Pushes, server to device.
    Msg = 3,
    /// The device has a push.
    MsgAck = 4,
    /// Detach a device.
    Unbind = 5,
    /// Answer to Bind; later: the server detached the device.
    BindAck = 6,
    /// Answer to Unbind.
    UnbindAck = 7,
}

impl ClassicOpcode {
    const ALL: [ClassicOpcode; 8] = {
        use ClassicOpcode::*;
        [Ping, Pong, Bind, Msg, MsgAck, Unbind, BindAck, UnbindAck]
    };

    fn has_properties(self, version: Version) -> bool {
        match self {
            ClassicOpcode::Ping | ClassicOpcode::Pong => false,
            ClassicOpcode::UnbindAck => version == Version::V5,
            _ => true,
        }
    }
}

/// A classic frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassicFrame<'a> {
    /// Type of the frame.
    pub opcode: ClassicOpcode,
    /// Its properties; none for frames that are a header only.
    pub props: Text<'a>,
    /// Records of a Msg; empty for all others.
    pub data: &'a [u8],
}

/// The frame at the front of `bytes` and its length; `None` when more bytes are needed. Its
/// version must have been sniffed. A frame above `bytes_max` is a fault as soon as that shows.
pub fn parse(
    version: Version,
    bytes: &[u8],
    bytes_max: usize,
) -> Result<Option<(ClassicFrame<'_>, usize)>, FrameFault> {
    let Some(&[_, _, high, low]) = bytes.first_chunk() else { return Ok(None) };
    let number = usize::from(u16::from_be_bytes([high, low]));
    let opcode = *ClassicOpcode::ALL.get(number).ok_or(FrameFault::UnknownOpcode)?;
    if !opcode.has_properties(version) {
        return Ok(Some((ClassicFrame { opcode, props: Text::NONE, data: &[] }, 4)));
    }
    let Some(&length) = bytes[4..].first_chunk() else { return Ok(None) };
    let props_end = 6 + usize::from(u16::from_be_bytes(length));
    if props_end == 6 {
        return Err(FrameFault::EmptyBlock);
    }
    if props_end > bytes_max || props_end - 6 > PROPERTIES_BYTES_MAX {
        return Err(FrameFault::TooLarge);
    }
    let Some(props) = bytes.get(6..props_end) else { return Ok(None) };
    let props = Text::read(props)?;
    if opcode != ClassicOpcode::Msg {
        return Ok(Some((ClassicFrame { opcode, props, data: &[] }, props_end)));
    }
    let Some(&length) = bytes[props_end..].first_chunk() else { return Ok(None) };
    let (start, length) = (props_end + 4, u32::from_be_bytes(length) as usize);
    if length == 0 {
        return Err(FrameFault::EmptyBlock);
    }
    if length > DATA_BYTES_MAX || start + length > bytes_max {
        return Err(FrameFault::TooLarge);
    }
    let Some(data) = bytes.get(start..start + length) else { return Ok(None) };
    Ok(Some((ClassicFrame { opcode, props, data }, start + length)))
}

/// Appends a frame that is a header only.
pub fn write_header(version: Version, opcode: ClassicOpcode, out: &mut Vec<u8>) {
    debug_assert!(!opcode.has_properties(version));
    out.extend_from_slice(&[0, version as u8, 0, opcode as u8]);
}

/// Appends a frame with `props`, lines joined by LF, and no data.
pub fn write_props(version: Version, opcode: ClassicOpcode, props: &[u8], out: &mut Vec<u8>) {
    debug_assert!(opcode.has_properties(version) && Text::read(props).is_ok());
    let length = u16::try_from(props.len()).expect("callers write short properties");
    out.extend_from_slice(&[0, version as u8, 0, opcode as u8]);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(props);
}

/// Appends a BindAck: `id` is the app id as far as it is known, `code` is 0 or why not.
pub fn write_bind_ack(
    version: Version,
    id: Option<&str>,
    code: u8,
    addrs: &[String],
    out: &mut Vec<u8>,
) {
    let mut props = Vec::with_capacity(64);
    let mut line = |text: std::fmt::Arguments<'_>| {
        let separator = if props.is_empty() { "" } else { "\n" };
        write!(props, "{separator}{text}").expect("a Vec takes all");
    };
    if let Some(id) = id {
        line(format_args!("id:{id}"));
    }
    line(format_args!("r:{code}"));
    for (at, addr) in carried(addrs).enumerate() {
        line(format_args!("addr{at}:{addr}"));
    }
    write_props(version, ClassicOpcode::BindAck, &props, out);
}

/// Appends the UnbindAck that this version's readers expect (MIOP 4.5).
pub fn write_unbind_ack(version: Version, id: u32, out: &mut Vec<u8>) {
    if version == Version::V5 {
        write_props(version, ClassicOpcode::UnbindAck, format!("id:{id}\nr:0").as_bytes(), out);
    } else {
        write_header(version, ClassicOpcode::UnbindAck, out);
    }
}

/// Appends a Msg with one record, named by its id in `ack`.
pub fn write_msg(version: Version, record: &ClassicRecord<'_>, out: &mut Vec<u8>) {
    write_props(version, ClassicOpcode::Msg, format!("ack:{}", record.id).as_bytes(), out);
    let length = u32::try_from(record.bytes()).expect("pushes are far below 4 GiB");
    out.extend_from_slice(&length.to_be_bytes());
    record.write(out);
}
