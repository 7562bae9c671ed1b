//! Properties of version 7: a key of one byte, a length, a value (MIOP 5.4).
//!
//! Declared once, in the table below; reading and writing follow from it. An unknown key below 128
//! is skipped, one from 128 on is a fault, and a known key stands at most once, `addr` and `tag`
//! excepted.

use super::{ADDRESS_BYTES_MAX, ADDRESSES_MAX, FrameFault, varint};

/// Longest value, bytes (MIOP 8).
pub const VALUE_BYTES_MAX: usize = 512;

/// Most tags in one frame (MIOP 8); the limit for a device may be lower.
pub const TAGS_MAX: usize = 64;

/// Key of an address; may be repeated.
pub const ADDR: u8 = 19;
/// Key of a tag; may be repeated.
pub const TAG: u8 = 30;

/// Bits of `caps` (MIOP 5.4). Bits that are not known are signed like the others and ignored.
pub mod cap {
    // Bit 0 is kept for a signature over keying material of the TLS connection.
    /// The device fetches stored pushes itself, with PULL.
    pub const PULLS: u32 = 2;
}

/// A type of value: how many bytes it has and how they are read.
trait Value<'a>: Sized {
    fn read(bytes: &'a [u8]) -> Option<Self>;
    fn bytes(&self) -> usize;
    fn write(&self, out: &mut Vec<u8>);
}

macro_rules! number {
    ($($type:ty)+) => { $(
        impl Value<'_> for $type {
            fn read(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(<$type>::from_be_bytes)
            }
            fn bytes(&self) -> usize {
                size_of::<$type>()
            }
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
    )+ };
}

number! { u8 u16 u32 u64 }

impl<const N: usize> Value<'_> for [u8; N] {
    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
    fn bytes(&self) -> usize {
        N
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl<'a> Value<'a> for &'a [u8] {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        Some(bytes)
    }
    fn bytes(&self) -> usize {
        self.len()
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

/// Wished, shortest and longest heartbeat, each a u16 of seconds.
impl Value<'_> for (u16, u16, u16) {
    fn read(bytes: &[u8]) -> Option<Self> {
        let &[a, b, c, d, e, f] = bytes else { return None };
        let number = |high, low| u16::from_be_bytes([high, low]);
        Some((number(a, b), number(c, d), number(e, f)))
    }
    fn bytes(&self) -> usize {
        6
    }
    fn write(&self, out: &mut Vec<u8>) {
        [self.0, self.1, self.2].iter().for_each(|s| out.extend_from_slice(&s.to_be_bytes()));
    }
}

macro_rules! properties {
    ($($key:literal $name:ident: $type:ty, $doc:literal;)+) => {
        /// The properties of a frame, those that are known here.
        #[derive(Clone, PartialEq, Eq, Default)]
        pub struct Props<'a> {
            $(#[doc = $doc] pub $name: Option<$type>,)+
            /// Addresses, `ip:port`.
            pub addrs: Vec<&'a str>,
            /// Tags; a single empty one says "none".
            pub tags: Vec<&'a [u8]>,
        }

        impl<'a> Props<'a> {
            /// Keys and names, in the order in which they are written.
            pub const KEYS: &'static [(u8, &'static str)] = &[$(($key, stringify!($name)),)+];

            fn set(&mut self, key: u8, value: &'a [u8]) -> Result<(), FrameFault> {
                match key {
                    $($key => set(&mut self.$name, value),)+
                    ADDR => self.add_addr(value),
                    TAG => self.add_tag(value),
                    128.. => Err(FrameFault::CriticalProperty),
                    _ => Ok(()),
                }
            }

            fn write_known(&self, out: &mut Vec<u8>) {
                $(if let Some(value) = &self.$name { write($key, value, out); })+
            }
        }

        impl std::fmt::Debug for Props<'_> {
            /// Names only: values may be signatures and tokens.
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut list = f.debug_list();
                $(if self.$name.is_some() { list.entry(&stringify!($name)); })+
                list.entries(&self.addrs).entries(self.tags.iter().map(|_| "tag")).finish()
            }
        }
    };
}

properties! {
    1 device_id: &'a [u8], "The device.";
    2 product_key: &'a [u8], "Its product.";
    3 client_ts: u64, "The device's clock, Unix milliseconds.";
    4 heartbeat_wish: (u16, u16, u16), "Wished, shortest, longest heartbeat, seconds; 0: no wish.";
    5 heartbeat: u16, "The agreed heartbeat, seconds.";
    6 client_nonce: [u8; 16], "Random, never used before.";
    7 server_nonce: [u8; 16], "The challenge.";
    8 auth_type: u8, "Kind of proof: 0 none, 1 HMAC, 2 token, 3 certificate.";
    9 key_id: u32, "Which of the product's secrets signed.";
    10 mac: [u8; 32], "The signature.";
    11 token: &'a [u8], "A bearer token.";
    12 resume_token: [u8; 32], "Goes on with a session.";
    13 last_msg_id: u64, "Everything up to here.";
    14 session_epoch: u64, "The session's number.";
    15 result: u8, "A result code.";
    16 reason: &'a [u8], "Words for a log.";
    17 retry_after_ms: u32, "Come back after so long; 0 or absent: do not.";
    20 caps: u32, "What the device can do, in bits.";
    21 max_frame: u32, "Largest frame the sender takes, bytes.";
    22 max_inflight: u16, "Unacknowledged pushes.";
    23 ack_timeout_ms: u32, "After so long an unacknowledged push is sent again.";
    27 offline_count: u32, "Stored pushes.";
    28 server_time: u64, "The server's clock, Unix milliseconds.";
    31 count: u16, "How many.";
    33 report_seq: u32, "A Report's number.";
}

impl<'a> Props<'a> {
    /// Reads a whole property block.
    pub fn read(mut block: &'a [u8]) -> Result<Props<'a>, FrameFault> {
        let mut props = Props::default();
        while let Some((&key, rest)) = block.split_first() {
            block = rest;
            let value = varint::read_block(&mut block)?;
            if value.len() > VALUE_BYTES_MAX {
                return Err(FrameFault::BadProperty);
            }
            props.set(key, value)?;
        }
        Ok(props)
    }

    /// Appends the block, without its length.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_known(out);
        self.addrs.iter().for_each(|addr| write(ADDR, &addr.as_bytes(), out));
        self.tags.iter().for_each(|tag| write(TAG, tag, out));
    }

    /// Whether nothing is set, so that a frame needs no body for it.
    pub fn is_empty(&self) -> bool {
        *self == Props::default()
    }

    fn add_addr(&mut self, value: &'a [u8]) -> Result<(), FrameFault> {
        if self.addrs.len() == ADDRESSES_MAX || !(1..=ADDRESS_BYTES_MAX).contains(&value.len()) {
            return Err(FrameFault::BadProperty);
        }
        self.addrs.push(std::str::from_utf8(value).map_err(|_| FrameFault::BadProperty)?);
        Ok(())
    }

    fn add_tag(&mut self, value: &'a [u8]) -> Result<(), FrameFault> {
        if self.tags.len() == TAGS_MAX {
            return Err(FrameFault::TooLarge);
        }
        self.tags.push(value);
        Ok(())
    }
}

fn set<'a, T: Value<'a>>(slot: &mut Option<T>, value: &'a [u8]) -> Result<(), FrameFault> {
    if slot.is_some() {
        return Err(FrameFault::BadProperty);
    }
    *slot = Some(T::read(value).ok_or(FrameFault::BadProperty)?);
    Ok(())
}

fn write<'a, T: Value<'a>>(key: u8, value: &T, out: &mut Vec<u8>) {
    debug_assert!(value.bytes() <= VALUE_BYTES_MAX);
    out.push(key);
    varint::write(value.bytes() as u32, out);
    value.write(out);
}
