//! Lengths of one to five bytes: seven bits each, low ones first, the high bit says that more
//! follow (MIOP 5.3). Every number has exactly one form; a longer one is a fault.

use super::FrameFault;

/// Appends `value`.
pub fn write(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a number off the front of `bytes`, which belong to one whole frame.
pub fn read(bytes: &mut &[u8]) -> Result<u32, FrameFault> {
    let mut value = 0u32;
    for at in 0..5 {
        let (&byte, rest) = bytes.split_first().ok_or(FrameFault::BadLength)?;
        *bytes = rest;
        let overflows = at == 4 && byte > 0x0f;
        let padded = at > 0 && byte == 0;
        if overflows || padded {
            return Err(FrameFault::BadLength);
        }
        value |= u32::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(FrameFault::BadLength)
}

/// Takes a length and so many bytes off the front of `bytes`.
pub fn read_block<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], FrameFault> {
    let length = read(bytes)? as usize;
    let (block, rest) = bytes.split_at_checked(length).ok_or(FrameFault::BadLength)?;
    *bytes = rest;
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_survives_and_has_one_form() {
        for value in [0, 1, 127, 128, 16_383, 16_384, 1 << 21, 1 << 28, u32::MAX] {
            let mut bytes = Vec::new();
            write(value, &mut bytes);
            assert_eq!(read(&mut bytes.as_slice()), Ok(value));
            assert_eq!(read(&mut &bytes[..bytes.len() - 1]), Err(FrameFault::BadLength));
        }
        assert_eq!(read(&mut [0x80, 0x00].as_slice()), Err(FrameFault::BadLength));
        assert_eq!(
            read(&mut [0xff, 0xff, 0xff, 0xff, 0x1f].as_slice()),
            Err(FrameFault::BadLength)
        );
        assert_eq!(read(&mut [0xff; 6].as_slice()), Err(FrameFault::BadLength));
    }

    #[test]
    fn a_block_may_not_run_over_its_frame() {
        assert_eq!(read_block(&mut [2, 7, 8, 9].as_slice()), Ok([7, 8].as_slice()));
        assert_eq!(read_block(&mut [3, 7, 8].as_slice()), Err(FrameFault::BadLength));
        assert_eq!(
            read_block(&mut [0xff, 0xff, 0xff, 0xff, 0x0f, 1].as_slice()),
            Err(FrameFault::BadLength)
        );
    }
}
