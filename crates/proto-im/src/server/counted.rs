//! Which frames came and went, by the field that stands in their envelope.
//!
//! A machine takes and writes whole frames, so this reads only the first bytes of each.

use super::Out;
use crate::codec::frame::{PREFACE, split};
use crate::codec::protobuf::varint;
use model::counters::frames::{FrameKind, FrameLane};
use model::machine::Input;

/// Counts the frames at the front of what was shown before, up to what is left of it.
pub(super) fn taken(before: &[u8], input: &Input<'_>, out: &mut Out) {
    let taken = &before[..before.len() - input.rest().len()];
    let frames = taken.strip_prefix(&PREFACE).unwrap_or(taken);
    fields(frames, |field| out.count_frame(FrameKind::of(FrameLane::ImIn, field)));
}

/// Counts the frames that are to be sent.
pub(super) fn sent(out: &mut Out) {
    out.count_wire(|bytes, kinds| {
        fields(bytes, |field| kinds.push(FrameKind::of(FrameLane::ImOut, field)));
    });
}

/// The numbers of the fields that whole frames begin with, in order; zero: there is none.
fn fields(mut bytes: &[u8], mut each: impl FnMut(u32)) {
    while let Ok(Some((frame, length))) = split(bytes, bytes.len()) {
        let tag = varint(frame, 5).ok().flatten().map_or(0, |(tag, _)| tag >> 3);
        each(u32::try_from(tag).unwrap_or_default());
        bytes = &bytes[length..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::ImSchema;
    use crate::server::tests::harness::*;

    #[test]
    fn each_frame_is_counted_once_however_its_bytes_come() {
        let mut side = in_session();
        let names = |side: &mut Side| {
            let counters = side.take_counters();
            let lanes = [FrameLane::ImIn, FrameLane::ImOut].into_iter();
            let kinds = lanes.flat_map(FrameKind::of_lane);
            let counted = kinds.filter(|kind| counters.frames_of(*kind) > 0);
            let counted = counted.map(|kind| (kind.name(), counters.frames_of(kind)));
            counted.collect::<Vec<_>>()
        };
        assert_eq!(names(&mut side), [("login", 1), ("logged_in", 1)]);
        let mut bytes = client(&ClientFrame::Ping).repeat(2);
        bytes.extend(client(&ClientFrame::Acknowledge(7)));
        for byte in &bytes {
            side.hear(now(), &[*byte]);
        }
        assert_eq!(names(&mut side), [("acknowledge", 1), ("ping", 2), ("pong", 2)]);
        side.hear(now(), &bytes);
        assert_eq!(names(&mut side), [("acknowledge", 1), ("ping", 2), ("pong", 2)]);
        side.hear(now(), &client(&ClientFrame::Goodbye));
        assert_eq!(names(&mut side), [("goodbye", 1)]);
    }

    #[test]
    fn names_of_kinds_are_those_of_the_schema() {
        for (envelope, lane) in
            [("ClientFrame", FrameLane::ImIn), ("ServerFrame", FrameLane::ImOut)]
        {
            let lines = ImSchema::get().lines(envelope);
            let mut said: Vec<(u8, &str)> =
                lines.iter().map(|line| (line.number as u8, line.name)).collect();
            said.sort_unstable();
            assert_eq!(lane.names(), said, "{envelope}: counters/frames.rs has them all");
        }
    }
}
