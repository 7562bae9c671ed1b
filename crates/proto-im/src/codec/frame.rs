//! Where frames begin and end (IM 2).
//!
//! A frame is its length, as a varint of at most five bytes, and so many bytes. A client sends four
//! bytes before its first one. A frame that is too large shows by its length, before it has come.

use super::WireFault;
use super::protobuf::{Body, Sink, varint};
use model::account::{ACCOUNT_NAME_BYTES_MAX, DOMAIN_BYTES_MAX};
use model::chat::{EXTRA_BYTES_MAX, GROUP_NAMED_MAX, REASON_BYTES_MAX, TEXT_BYTES_MAX};
use model::limits::Limits;

/// First bytes of a client: the protocol's mark, and its version (IM 1.1).
pub const PREFACE: [u8; 4] = [0xc4, b'I', b'M', 1];

/// Bytes of a frame beside the text of its message and what stands beside that: addresses, numbers,
/// ids and tags. Asserted by a test.
pub const OVERHEAD_BYTES_MAX: usize = 2048;

/// Bytes of messages from which on no further one is put into a page (IM 5.4).
pub const PAGE_BYTES_MAX: usize = 256 * 1024;

/// Bytes by which the last of several messages may go beyond that: clients of builds that had
/// smaller texts take no longer frames (IM 2.2).
pub const LAST_BYTES_MAX: usize = 128 * 1024 + OVERHEAD_BYTES_MAX;

/// Bytes of the longest address of an account.
const ADDRESS_BYTES_MAX: usize = ACCOUNT_NAME_BYTES_MAX + 1 + DOMAIN_BYTES_MAX;

/// Longest order to a group: as many names as may be in it, each with tag and length, a reason,
/// which is longer than a title, and what stands beside them (IM 10.1).
pub const ORDER_BYTES_MAX: usize =
    GROUP_NAMED_MAX * (ADDRESS_BYTES_MAX + 3) + REASON_BYTES_MAX + OVERHEAD_BYTES_MAX;

/// Longest frame of a server, whatever its limits: a page that one more message was put into.
pub const SERVER_BYTES_MAX: usize =
    PAGE_BYTES_MAX + TEXT_BYTES_MAX + EXTRA_BYTES_MAX + 2 * OVERHEAD_BYTES_MAX;

/// Longest frame of a server with these limits.
pub fn server_bytes_max(limits: &Limits) -> usize {
    let page = PAGE_BYTES_MAX + LAST_BYTES_MAX;
    page.max(message_bytes_max(limits)) + 2 * OVERHEAD_BYTES_MAX
}

fn message_bytes_max(limits: &Limits) -> usize {
    limits.chat.text_bytes_max as usize + limits.chat.extra_bytes_max as usize
}

/// Longest frame of a client that has its session: its message is as large as allowed, or it is an
/// order to a group.
pub fn client_bytes_max(limits: &Limits) -> usize {
    let unbound = limits.frame_bytes_unbound_max as usize;
    (message_bytes_max(limits) + OVERHEAD_BYTES_MAX).max(ORDER_BYTES_MAX).max(unbound)
}

/// Whether the preface stands at the front, as far as it has come; true: it is whole.
pub fn preface(bytes: &[u8]) -> Result<bool, WireFault> {
    let (mark, version) = (&PREFACE[..3], PREFACE[3]);
    let seen = &bytes[..bytes.len().min(3)];
    if !mark.starts_with(seen) {
        return Err(WireFault::Preface);
    }
    match bytes.get(3) {
        None => Ok(false),
        Some(&byte) if byte == version => Ok(true),
        Some(_) => Err(WireFault::UnknownVersion),
    }
}

/// The frame at the front, and how many bytes it takes with its length; `None`: it is not whole.
pub fn split(bytes: &[u8], bytes_max: usize) -> Result<Option<(&[u8], usize)>, WireFault> {
    let Some((length, head)) = varint(bytes, 5).map_err(|_| WireFault::Length)? else {
        return Ok(None);
    };
    let length = usize::try_from(length).map_err(|_| WireFault::TooLarge)?;
    if length > bytes_max.saturating_sub(head) {
        return Err(WireFault::TooLarge);
    }
    Ok(bytes.get(head..head + length).map(|frame| (frame, head + length)))
}

/// Appends a frame.
pub(super) fn write(frame: &impl Body, out: &mut Vec<u8>) {
    let size = frame.size();
    out.reserve(size + 5);
    out.varint(size as u64);
    frame.put(out);
}
