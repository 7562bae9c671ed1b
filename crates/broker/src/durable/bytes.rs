//! Putting texts at the end, as [`base::bytes::ByteReader::text`] takes them off the front.

/// Appends bytes with their length, at most 65,535 of them.
pub(super) fn text(text: &[u8], out: &mut Vec<u8>) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    out.extend(length.to_le_bytes());
    out.extend_from_slice(&text[..usize::from(length)]);
}
