//! Frames and stanzas by protocol, direction and kind.
//!
//! A kind is a place in one flat table, so that counting one is an addition there. Kinds have the
//! numbers that their protocol writes (opcodes of MIOP, fields of IM's envelopes), and whatever has
//! no name here is counted as `other`: no peer can make a sample of its own. Packets of MQTT are
//! counted by [`ProcessCounter`](super::ProcessCounter) alone. Invariant: a test of each protocol
//! holds its names against this table.

/// A kind of frame: its place in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameKind(u8);

macro_rules! lanes {
    ($($(#[doc = $doc:literal])+ $lane:ident $metric:literal $help:literal
        [$($number:literal $name:literal),+];)+) => {
        /// A protocol and a direction, as the server sees it.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum FrameLane { $($(#[doc = $doc])+ $lane,)+ }

        impl FrameLane {
            /// All lanes.
            pub const ALL: &'static [FrameLane] = &[$(FrameLane::$lane,)+];

            /// The metric's name, without the prefix `holdline_`.
            pub const fn metric(self) -> &'static str {
                match self { $(FrameLane::$lane => $metric,)+ }
            }

            /// The metric's explanation.
            pub const fn help(self) -> &'static str {
                match self { $(FrameLane::$lane => $help,)+ }
            }

            /// The kinds that have a name, with their numbers.
            pub const fn names(self) -> &'static [(u8, &'static str)] {
                match self { $(FrameLane::$lane => &[$(($number, $name),)+],)+ }
            }
        }
    };
}

lanes! {
    /// Frames of devices; the number is one more than the opcode.
    MiopIn "miop_frames_received_total" "MIOP frames received, by kind." [
        1 "ping", 3 "bind", 5 "msg_ack", 6 "unbind", 9 "report", 14 "auth", 16 "pull"
    ];
    /// Frames to devices; the number is one more than the opcode.
    MiopOut "miop_frames_sent_total" "MIOP frames sent, by kind." [
        2 "pong", 4 "msg", 7 "bind_ack", 8 "unbind_ack", 10 "report_ack", 11 "kick",
        12 "redirect", 13 "challenge", 15 "config", 16 "pull", 17 "go_away", 18 "error"
    ];
    /// Frames of devices of accounts; the number is that of the field in `ClientFrame`.
    ImIn "im_frames_received_total" "IM frames received, by kind." [
        1 "login", 2 "proceed", 3 "send", 4 "pull", 5 "history", 6 "acknowledge", 7 "ping",
        8 "goodbye", 9 "group", 10 "members", 11 "mark_read", 12 "set", 13 "conversations",
        14 "recall", 15 "contacts", 16 "contact", 17 "presence", 18 "transient", 20 "search",
        22 "upload", 24 "push", 25 "push_settings", 30 "readers", 31 "privacy",
        32 "chatroom_order", 33 "join_chatroom", 34 "leave_chatroom", 35 "token"
    ];
    /// Frames to devices of accounts; the number is that of the field in `ServerFrame`.
    ImOut "im_frames_sent_total" "IM frames sent, by kind." [
        1 "logged_in", 2 "challenge", 3 "refused", 4 "sent", 5 "failed", 6 "message", 7 "notify",
        8 "page", 9 "history", 10 "end", 11 "pong", 12 "changed", 13 "members", 14 "event",
        15 "marked_read", 16 "set", 17 "conversations", 18 "contacts", 19 "done", 20 "contact",
        21 "presence", 22 "transient", 24 "found", 26 "upload", 28 "push_status", 29 "push_code",
        30 "readers", 31 "privacy", 32 "chatroom_joined", 33 "chatroom_message",
        34 "chatroom_missed", 35 "chatroom_news", 36 "delivered", 37 "token"
    ];
    /// Stanzas of clients and what they send beside: `sm` is stream management, `stream` are
    /// headers of streams, `login` is whatever comes before the device is bound.
    XmppIn "xmpp_stanzas_received_total"
        "XMPP stanzas and other elements received, by kind." [
        1 "message", 2 "presence", 3 "iq", 4 "sm", 5 "stream", 6 "login"
    ];
    /// Stanzas to clients and what they are sent beside, likewise; features and errors of streams
    /// are `stream`.
    XmppOut "xmpp_stanzas_sent_total"
        "XMPP stanzas and other elements sent, by kind." [
        1 "message", 2 "presence", 3 "iq", 4 "sm", 5 "stream", 6 "login"
    ];
}

const LANES: usize = FrameLane::ALL.len();

/// Where each lane begins in the table; behind the last one the table ends.
const BEGINS: [u8; LANES + 1] = {
    let (mut begins, mut lane) = ([0; LANES + 1], 0);
    while lane < LANES {
        let names = FrameLane::ALL[lane].names();
        let room = names[names.len() - 1].0 as usize + 1;
        let next = begins[lane] as usize + room;
        assert!(next <= u8::MAX as usize, "a kind is one byte");
        begins[lane + 1] = next as u8;
        lane += 1;
    }
    begins
};

/// Names by their places; where there is none, it is nobody's place.
const NAMES: [&str; FrameKind::COUNT] = {
    let (mut all, mut lane) = ([""; FrameKind::COUNT], 0);
    while lane < LANES {
        let (begin, names) = (BEGINS[lane] as usize, FrameLane::ALL[lane].names());
        all[begin] = "other";
        let mut at = 0;
        while at < names.len() {
            all[begin + names[at].0 as usize] = names[at].1;
            at += 1;
        }
        lane += 1;
    }
    all
};

impl FrameKind {
    /// Places in the table.
    pub const COUNT: usize = BEGINS[LANES] as usize;

    /// The kind with this number; `other` if it has no name.
    pub const fn of(lane: FrameLane, number: u32) -> FrameKind {
        let (begin, end) = (BEGINS[lane as usize], BEGINS[lane as usize + 1]);
        if number >= (end - begin) as u32 || NAMES[begin as usize + number as usize].is_empty() {
            return FrameKind(begin);
        }
        FrameKind(begin + number as u8)
    }

    /// Its place.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Its name, which is one of its lane's, or `other`.
    pub const fn name(self) -> &'static str {
        NAMES[self.0 as usize]
    }

    /// All of a lane, `other` first.
    pub fn of_lane(lane: FrameLane) -> impl Iterator<Item = FrameKind> {
        let (begin, end) = (BEGINS[lane as usize], BEGINS[lane as usize + 1]);
        (begin..end).map(FrameKind).filter(|kind| !kind.name().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;

    #[test]
    fn every_kind_has_its_own_place_and_what_has_no_name_is_other() {
        let mut counters = Counters::default();
        let all = || {
            let of = |&lane: &FrameLane| FrameKind::of_lane(lane).map(move |kind| (lane, kind));
            FrameLane::ALL.iter().flat_map(of)
        };
        for (lane, kind) in all() {
            counters.frame(kind);
            let number = lane.names().iter().find(|(_, name)| *name == kind.name());
            let number = number.map_or(0, |(number, _)| u32::from(*number));
            assert_eq!(FrameKind::of(lane, number), kind, "{lane:?} {}", kind.name());
        }
        assert!(all().all(|(_, kind)| counters.frames_of(kind) == 1), "each its own");
        for &lane in FrameLane::ALL {
            for unknown in [0, 200, 255, 256, u32::MAX] {
                assert_eq!(FrameKind::of(lane, unknown).name(), "other", "{lane:?} {unknown}");
            }
        }
        // 2 is BindAck's place among what a device may send, which no device sends.
        assert_eq!(FrameKind::of(FrameLane::MiopIn, 2).name(), "other");
        let mut twice = counters.clone();
        twice.add(&counters);
        assert!(all().all(|(_, kind)| twice.frames_of(kind) == 2), "they add up");
    }
}
