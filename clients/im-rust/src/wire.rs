//! Frames: a length, and as many bytes of protobuf (IM 2).

use crate::pb::{ClientFrame, ServerFrame};
use prost::Message;

/// First bytes that a client sends.
pub const PREFACE: [u8; 4] = *b"\xc4IM\x01";
/// The largest frame of a server whose limits are the usual ones (IM 2.2).
pub const FRAME_BYTES_MAX: usize = 397_312;
/// Bytes of a server's frame beside the text and the extra of a message (IM 2.2).
pub(crate) const BESIDE_CONTENT_BYTES: usize = 4_096;
const LENGTH_BYTES_MAX: usize = 5;

/// The server sent what it must not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The length has more than five bytes.
    Length,
    /// The frame is larger than a server may send.
    TooLarge,
    /// No protobuf of this schema, or an answer that does not fit the state.
    Malformed,
}

/// A frame with its length.
pub fn encode(frame: &ClientFrame) -> Vec<u8> {
    frame.encode_length_delimited_to_vec()
}

/// The frame at the beginning of `data` and its length; `None` if it is not whole.
pub fn decode(data: &[u8], bytes_max: usize) -> Result<Option<(ServerFrame, usize)>, Fault> {
    let head = &data[..data.len().min(LENGTH_BYTES_MAX)];
    let Some(last) = head.iter().position(|byte| byte & 0x80 == 0) else {
        return if head.len() == LENGTH_BYTES_MAX { Err(Fault::Length) } else { Ok(None) };
    };
    let digits = head[..=last].iter().rev();
    let size = digits.fold(0u64, |sum, byte| (sum << 7) | u64::from(byte & 0x7f));
    let begin = last + 1;
    let end = begin as u64 + size;
    if end > bytes_max as u64 {
        return Err(Fault::TooLarge);
    }
    let Some(body) = data.get(begin..end as usize) else { return Ok(None) };
    let frame = ServerFrame::decode(body).map_err(|_| Fault::Malformed)?;
    Ok(Some((frame, end as usize)))
}
