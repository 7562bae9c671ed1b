//! Which frames came and went, by their opcodes.
//!
//! A machine takes and writes whole frames, so this reads only the header of each.

use super::Out;
use crate::codec::Version;
use crate::codec::classic::ClassicOpcode;
use crate::codec::frame::flag;
use model::counters::frames::{FrameKind, FrameLane};
use model::machine::Input;

/// Counts the frames at the front of what was shown before, up to what is left of it.
pub(super) fn taken(before: &[u8], input: &Input<'_>, out: &mut Out) {
    let taken = before.len() - input.rest().len();
    opcodes(&before[..taken], |opcode| out.count_frame(kind(FrameLane::MiopIn, opcode)));
}

/// Counts the frames that are to be sent.
pub(super) fn sent(out: &mut Out) {
    out.count_wire(|bytes, kinds| {
        opcodes(bytes, |opcode| kinds.push(kind(FrameLane::MiopOut, opcode)));
    });
}

/// Zero is for what has no name.
const fn kind(lane: FrameLane, opcode: u8) -> FrameKind {
    FrameKind::of(lane, opcode as u32 + 1)
}

/// The opcodes of whole frames, in order.
fn opcodes(mut bytes: &[u8], mut each: impl FnMut(u8)) {
    while let Some(&[_, version, flags, opcode]) = bytes.first_chunk() {
        let is_newest = version == Version::V7 as u8;
        // Four zeros behind a classic Bind are no frame (MIOP 4.3).
        if version != 0 {
            each(opcode);
        }
        let length = match is_newest {
            true if flags & flag::BODY == 0 => Some(4),
            true => length_at(bytes, 4).map(|length| length.saturating_add(8)),
            false => classic_length(bytes, version, opcode),
        };
        bytes = length.and_then(|length| bytes.get(length..)).unwrap_or_default();
    }
}

fn classic_length(bytes: &[u8], version: u8, opcode: u8) -> Option<usize> {
    let has_properties = match opcode {
        opcode if opcode == ClassicOpcode::UnbindAck as u8 => version == Version::V5 as u8,
        opcode => opcode > ClassicOpcode::Pong as u8,
    };
    if version == 0 || !has_properties {
        return Some(4);
    }
    let &[high, low] = bytes.get(4..)?.first_chunk()?;
    let end = 6 + usize::from(u16::from_be_bytes([high, low]));
    if opcode != ClassicOpcode::Msg as u8 {
        return Some(end);
    }
    length_at(bytes, end).map(|length| length.saturating_add(end + 4))
}

fn length_at(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.first_chunk().map(|&length| u32::from_be_bytes(length) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::classic as wire;
    use crate::codec::frame::{self, Frame, Opcode};
    use crate::codec::property::Props;
    use crate::codec::record::ClassicRecord;

    #[test]
    fn every_opcode_has_the_name_of_its_number_in_one_direction_at_least() {
        for opcode in Opcode::ALL {
            let lanes = [FrameLane::MiopIn, FrameLane::MiopOut];
            let names = lanes.map(|lane| kind(lane, opcode.number()).name().replace('_', ""));
            let own = format!("{opcode:?}").to_lowercase();
            assert!(names.contains(&own), "{opcode:?}: {names:?}");
            assert!(names.iter().all(|name| *name == own || name == "other"), "{names:?}");
        }
    }

    #[test]
    fn frames_are_found_whatever_their_lengths_and_versions() {
        let mut newest = Vec::new();
        for opcode in Opcode::ALL {
            Frame::new(*opcode, Props::default()).write(&mut newest);
            let mut msg = Frame::new(*opcode, Props { count: Some(3), ..Props::default() });
            msg.seq = Some(9);
            frame::write(&msg, |out| out.extend_from_slice(&[7; 300]), &mut newest);
        }
        let mut found = Vec::new();
        opcodes(&newest, |opcode| found.push(opcode));
        let twice: Vec<u8> = Opcode::ALL.iter().flat_map(|it| [it.number(); 2]).collect();
        assert_eq!(found, twice);
        for version in [Version::V5, Version::V6] {
            let (mut bytes, mut found) = (Vec::new(), Vec::new());
            wire::write_bind_ack(version, Some("shop"), 0, &[], &mut bytes);
            bytes.extend_from_slice(&[0; 4]);
            wire::write_header(version, ClassicOpcode::Pong, &mut bytes);
            let record = ClassicRecord { id: 7, app_id: 3, body: b"hello" };
            wire::write_msg(version, &record, &mut bytes);
            wire::write_unbind_ack(version, 3, &mut bytes);
            wire::write_header(version, ClassicOpcode::Ping, &mut bytes);
            opcodes(&bytes, |opcode| found.push(opcode));
            assert_eq!(found, [6, 1, 3, 7, 0], "{version:?}");
            // Bytes that end within a frame are no reason to go on.
            (0..bytes.len()).for_each(|end| opcodes(&bytes[..end], |_| ()));
        }
    }
}
