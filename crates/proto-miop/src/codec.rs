//! Bytes to frames and frames to bytes, for both directions and all versions.
//!
//! A parser is shown the front of a byte string and says: more is needed, one frame of so many
//! bytes, or a [`FrameFault`]. Frames borrow; nothing is allocated by a length that was only
//! announced, and a length is held against the limit before its bytes have arrived. Which frame is
//! allowed when is not known here: that is the machines' part.

pub mod classic;
pub mod fault;
pub mod frame;
pub mod property;
pub mod record;
pub mod result;
pub mod text;
pub mod varint;

pub use fault::FrameFault;

/// The versions that are served (MIOP 2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum Version {
    /// Classic, several Binds on one connection.
    V5 = 5,
    /// Classic, one Bind.
    V6 = 6,
    /// Binary properties, lengths that do not depend on the opcode.
    V7 = 7,
}

impl Version {
    /// The version at the front of `bytes`; `None` when it is not known yet.
    pub fn sniff(bytes: &[u8]) -> Result<Option<Version>, FrameFault> {
        match *bytes {
            [] | [0] => Ok(None),
            [0, 5, ..] => Ok(Some(Version::V5)),
            [0, 6, ..] => Ok(Some(Version::V6)),
            [0, 7, ..] => Ok(Some(Version::V7)),
            [0, newer, ..] if newer > 7 => Err(FrameFault::NewerVersion),
            _ => Err(FrameFault::UnknownVersion),
        }
    }

    /// The name in events and queries.
    pub const fn name(self) -> &'static str {
        match self {
            Version::V5 => "miop5",
            Version::V6 => "miop6",
            Version::V7 => "miop7",
        }
    }

    /// Whether frames have text properties and their length depends on the opcode.
    pub const fn is_classic(self) -> bool {
        !matches!(self, Version::V7)
    }
}

/// Largest property block of a frame, bytes, in every version (MIOP 8).
pub const PROPERTIES_BYTES_MAX: usize = 8 * 1024;

/// Most addresses in one frame, and the longest, bytes (MIOP 8).
pub const ADDRESSES_MAX: usize = 4;
/// Longest address, bytes (MIOP 8).
pub const ADDRESS_BYTES_MAX: usize = 64;

/// The addresses that a frame carries of those it was given.
pub(crate) fn carried(addrs: &[String]) -> impl Iterator<Item = &str> {
    let fits = |addr: &&str| (1..=ADDRESS_BYTES_MAX).contains(&addr.len());
    addrs.iter().map(String::as_str).filter(fits).take(ADDRESSES_MAX)
}

#[cfg(test)]
mod tests;
