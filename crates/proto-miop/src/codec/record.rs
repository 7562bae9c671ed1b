//! Records: pushes inside a MSG (MIOP 4.4 and 5.5).
//!
//! ```text
//! classic    | u64 id | u32 app_id | u32 body_len | body |
//! version 7  | u64 id | u32 app_id | u8 rflags | u32 expire_at | varint, collapse | varint, body |
//! ```

use super::{FrameFault, varint};

/// One push in a classic Msg.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassicRecord<'a> {
    /// The push's id.
    pub id: u64,
    /// The product's number.
    pub app_id: u32,
    /// The push's body: never empty.
    pub body: &'a [u8],
}

impl<'a> ClassicRecord<'a> {
    /// Its length on the wire.
    pub fn bytes(&self) -> usize {
        16 + self.body.len()
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        debug_assert!(!self.body.is_empty(), "classic readers misread an empty body");
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(&self.app_id.to_be_bytes());
        out.extend_from_slice(&(self.body.len() as u32).to_be_bytes());
        out.extend_from_slice(self.body);
    }

    /// Takes one off the front of a data block.
    pub fn read(bytes: &mut &'a [u8]) -> Result<Self, FrameFault> {
        let id = u64::from_be_bytes(fixed(bytes)?);
        let app_id = u32::from_be_bytes(fixed(bytes)?);
        let length = u32::from_be_bytes(fixed(bytes)?) as usize;
        let (body, rest) = bytes.split_at_checked(length).ok_or(FrameFault::BadRecord)?;
        if body.is_empty() {
            return Err(FrameFault::BadRecord);
        }
        *bytes = rest;
        Ok(ClassicRecord { id, app_id, body })
    }
}

/// One push in a version 7 MSG.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PushRecord<'a> {
    /// The push's id.
    pub id: u64,
    /// The product's number.
    pub app_id: u32,
    /// [`PushRecord::SILENT`] and [`PushRecord::HIGH`]; other bits are written as zero and ignored.
    pub flags: u8,
    /// Unix second after which it means nothing; 0: now or never.
    pub expire_at: u32,
    /// Collapse key; empty: none.
    pub collapse: &'a [u8],
    /// The push's body; may be empty.
    pub body: &'a [u8],
}

impl<'a> PushRecord<'a> {
    /// The application on the device should show nothing.
    pub const SILENT: u8 = 0x02;
    /// The push was sent before normal pushes that may have lower ids.
    pub const HIGH: u8 = 0x04;
    /// The body is compressed: never negotiated, so refused.
    pub const COMPRESSED: u8 = 0x08;

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(&self.app_id.to_be_bytes());
        out.push(self.flags);
        out.extend_from_slice(&self.expire_at.to_be_bytes());
        for block in [self.collapse, self.body] {
            varint::write(block.len() as u32, out);
            out.extend_from_slice(block);
        }
    }

    /// Takes one off the front of a payload.
    pub fn read(bytes: &mut &'a [u8]) -> Result<Self, FrameFault> {
        let id = u64::from_be_bytes(fixed(bytes)?);
        let app_id = u32::from_be_bytes(fixed(bytes)?);
        let [flags] = fixed(bytes)?;
        let expire_at = u32::from_be_bytes(fixed(bytes)?);
        let collapse = varint::read_block(bytes).map_err(|_| FrameFault::BadRecord)?;
        let body = varint::read_block(bytes).map_err(|_| FrameFault::BadRecord)?;
        if flags & PushRecord::COMPRESSED != 0 {
            return Err(FrameFault::BadRecord);
        }
        Ok(PushRecord { id, app_id, flags, expire_at, collapse, body })
    }
}

fn fixed<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], FrameFault> {
    let (front, rest) = bytes.split_first_chunk().ok_or(FrameFault::BadRecord)?;
    *bytes = rest;
    Ok(*front)
}
