//! State of a device that is not at rest: an incomplete stanza, requests without an answer, an
//! inbox that is behind, rooms. It stands beside the record of a session, and goes when nothing of
//! it is left. Knows no stanza. Invariant: a request counted as unanswered was received and has no
//! answer yet.

use super::archive::ArchiveAsking;
use super::features::accounts::{BookAsking, OpenCommand};
use super::features::{Asking, Uploading};
use super::messages::Sending;
use super::messages::amendments::Finding;
use super::messages::echo::Echoes;
use super::messages::private::Knock;
use super::nodes::NodesAsking;
use super::receipts::{Awaited, Marking};
use super::rooms::Rooms;
use super::stream_management::acks::reaches;
use crate::jid::Jid;
use crate::xml::framer::Framer;
use model::chat::{Presence, RoomNews};
use model::timeline::Seq;
use std::collections::VecDeque;
use std::sync::Arc;

/// State of a device that is not at rest.
#[derive(Default)]
pub(super) struct Busy {
    pub(super) framer: Framer,
    /// Messages that are with the service.
    pub(super) sends: Vec<Sending>,
    /// Messages of `sends` whose targets are being looked up.
    pub(super) finds: Vec<Finding>,
    /// Messages of `sends` that are for one device.
    pub(super) knocks: Vec<Knock>,
    /// Questions of people that are with the service.
    pub(super) asks: Vec<Asking>,
    /// Questions of nodes that are with the service.
    pub(super) nodes: Vec<NodesAsking>,
    /// Files that the service was asked about.
    pub(super) uploads: Vec<Uploading>,
    /// Questions of accounts that are with the service.
    pub(super) book: Vec<BookAsking>,
    /// Commands whose forms were shown.
    pub(super) commands: Vec<OpenCommand>,
    /// Messages that the client has displayed and that are being looked for.
    pub(super) markings: VecDeque<Marking>,
    /// Messages of its own whose receipts it wants, in the order of their places.
    pub(super) awaited: VecDeque<Awaited>,
    /// Questions about the archive that are not answered, in their order.
    pub(super) archive: VecDeque<ArchiveAsking>,
    /// Places of messages that were shown because they were addressed to the device.
    pub(super) addressed: VecDeque<Seq>,
    /// Archives elsewhere that were asked and have not answered.
    pub(super) archives_elsewhere: VecDeque<Jid>,
    /// Stanzas that are not answered, for an error that says of what it is.
    pub(super) echoes: Echoes,
    /// The last number that one of them was given, below that of the first.
    pub(super) asked: u32,
    /// The last number that a message was given.
    pub(super) last: u32,
    /// The last place of the inbox that is known to be taken.
    pub(super) head: Seq,
    /// Presence of others that it gets when somebody looks at it.
    pub(super) quiet: Vec<Presence>,
    /// Presence of occupants of rooms that it gets when somebody looks at it.
    pub(super) quiet_rooms: Vec<Arc<RoomNews>>,
    /// Rooms that it is in, or asks about.
    pub(super) rooms: Option<Box<Rooms>>,
}

impl Busy {
    /// Number of stanzas without an answer.
    pub(super) fn waiting(&self) -> usize {
        let rooms = self.rooms.as_ref().map_or(0, |rooms| rooms.waiting());
        let others =
            self.book.len() + self.nodes.len() + self.uploads.len() + self.archive.len() + rooms;
        self.sends.len() + self.asks.len() + self.markings.len() + others
    }

    /// The place of the first stanza of the client that is not answered, of those that are heard
    /// of only if they fail.
    pub(super) fn first_unanswered(&self) -> Option<u32> {
        let send = self.sends.iter().find_map(|sending| sending.place);
        let ask = self.asks.iter().find_map(|asking| asking.place());
        let room = self.rooms.as_ref().and_then(|rooms| rooms.first_unanswered());
        let all = [send, ask, room].into_iter().flatten();
        all.reduce(|one, other| if reaches(one, other) { other } else { one })
    }

    /// Memory beside its record, bytes, roughly.
    pub(super) fn weight(&self) -> usize {
        let rooms = self.rooms.as_ref().map_or(0, |rooms| rooms.weight());
        let quiet: usize = self.quiet.iter().map(Presence::weight).sum();
        let of_rooms = size_of::<Arc<RoomNews>>() * self.quiet_rooms.len();
        quiet
            + size_of::<Sending>() * self.sends.len()
            + self.finds.iter().map(Finding::weight).sum::<usize>()
            + self.knocks.iter().map(Knock::weight).sum::<usize>()
            + size_of::<Asking>() * self.asks.len()
            + self.nodes.iter().map(NodesAsking::weight).sum::<usize>()
            + self.markings.iter().map(Marking::weight).sum::<usize>()
            + self.awaited.iter().map(Awaited::weight).sum::<usize>()
            + size_of::<Uploading>() * self.uploads.len()
            + size_of::<BookAsking>() * self.book.len()
            + size_of::<OpenCommand>() * self.commands.len()
            + self.archive.iter().map(ArchiveAsking::weight).sum::<usize>()
            + size_of::<Jid>() * self.archives_elsewhere.len()
            + self.echoes.weight()
            + size_of::<Seq>() * self.addressed.len()
            + rooms
            + of_rooms
    }
}
