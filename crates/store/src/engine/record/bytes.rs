//! Numbers in bytes: the few shapes that records and state rows are made of.
//!
//! Fixed ones are little endian; small ones are written seven bits a byte, the lowest first, and
//! differences with their sign in the lowest bit. It knows no meaning. Invariant: reading never
//! goes beyond the end, it says `None`.

/// Reads from the front of some bytes.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// A small number.
    pub(crate) fn small(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A small number that fits 32 bits.
    pub(crate) fn small_u32(&mut self) -> Option<u32> {
        self.small()?.try_into().ok()
    }

    /// The number that differs so from `before`.
    pub(crate) fn from(&mut self, before: u64) -> Option<u64> {
        let folded = self.small()?;
        let difference = (folded >> 1) as i64 ^ -((folded & 1) as i64);
        Some(before.wrapping_add(difference as u64))
    }
}

/// Appends a small number.
pub(crate) fn put_small(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends how `number` differs from `before`.
pub(crate) fn put_from(before: u64, number: u64, out: &mut Vec<u8>) {
    let difference = number.wrapping_sub(before) as i64;
    put_small((difference << 1 ^ difference >> 63) as u64, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_the_end_is_seen() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        let mut out = Vec::new();
        for number in numbers {
            put_small(number, &mut out);
            put_from(1_000, number, &mut out);
        }
        let mut bytes = Bytes(&out);
        for number in numbers {
            assert_eq!(bytes.small(), Some(number));
            assert_eq!(bytes.from(1_000), Some(number));
        }
        assert_eq!(bytes.small(), None);
        assert_eq!(Bytes(&[0xff; 10]).small(), None, "more than 64 bits");
        assert_eq!(Bytes(&[1, 2, 3]).u32(), None);
    }
}
