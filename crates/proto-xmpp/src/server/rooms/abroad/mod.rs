//! Rooms of this server for occupants of other servers (XEP-0045): who of them looks at which room,
//! what they say and ask there, and what they are shown.
//!
//! ```text
//! stanza of another server ─► question ─► asked of chat in its account's name ─► next step, end
//! message of a group ─► each seat of its room: a stanza for its domain
//! ```
//! A device that enters is an occupant as one of this server is; its requests are those of a
//! session ([`super`]), as errands of its account. Kept is a **seat** for each
//! device that has entered. It knows no stream, no route and no store. Invariant: seats and
//! questions are within their limits; a device that could not be sent something has no seat any
//! more, and gets notice.

mod asides;
mod asking;
mod happening;
mod seats;
mod telling;

use super::{OccupancyAsk, RoomAnswer, RoomAsk, RoomRequest, RoomWhat, Step, fault_of};
use crate::archive::ArchiveQuery;
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::render::room::put_configured;
use crate::stanza::StanzaReply;
use asking::Who;
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::foreign::{ForeignRefused, RoomWord};
use model::chat::{
    ChatDelivery, ChatFault, ClientMessageId, GROUP_SERVICE, GroupOrder, OccupantShow, RoomNews,
};
use model::limits::FederationLimits;
use model::ports::chat::ErrandWhat;
use model::timeline::Seq;
use seats::{Seats, ShowPace};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Longest time that is waited for an answer of chat: homes answer sooner.
const ASKED_TIME: Duration = Duration::from_secs(120);

/// Devices whose leave chat is asked to carry out at once. More wait.
const LEAVES_MAX: usize = 32;

/// Request of rooms to the parts around them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AbroadWord {
    /// A request to chat in the name of an account; its answer comes under the number.
    Ask {
        /// The number.
        number: u64,
        /// The account, of another server.
        account: AccountAddress,
        /// Device of the account.
        device: Box<str>,
        /// The request.
        what: Box<ErrandWhat>,
    },
    /// A stanza for another domain.
    Stanza {
        /// The domain.
        domain: Box<str>,
        /// The stanza.
        xml: Box<[u8]>,
    },
}

/// Rooms of this server for occupants of others.
pub struct RoomsAbroad {
    /// The domain of the rooms.
    service: Box<str>,
    limits: FederationLimits,
    seats: Seats,
    /// Devices that are entering, by room.
    entering: HashMap<AccountAddress, Vec<Entrant>>,
    asked: HashMap<u64, Asked>,
    /// Bytes of these.
    asked_bytes: u64,
    /// Devices that have left a room, until its home has heard that; with the number of the
    /// request, if it is asked. They are no more than the home has given seats.
    leaves: HashMap<Left, Option<u64>>,
    /// Those that are still to be asked, in their order.
    leaving: VecDeque<Left>,
    leaves_asked: usize,
    /// How often accounts have entered rooms; at most `occupants_max`.
    paces: HashMap<(AccountAddress, AccountAddress), ShowPace>,
    last: u64,
    /// First half of the ids of orders, and of messages without one.
    seed: u64,
    out: Vec<AbroadWord>,
    refused: ForeignRefused,
}

/// A room, and a device that has left it.
type Left = (AccountAddress, Who);

/// Device that is entering a room.
struct Entrant {
    who: Who,
    /// Events in the room meanwhile.
    missed: Vec<Missed>,
    /// Whether it left before it was in.
    is_left: bool,
    /// Whether it had left the room, and the home had not heard that yet.
    was_leaving: bool,
}

/// Something that a device missed while it was entering a room.
#[derive(Clone)]
enum Missed {
    Said(RoomWord),
    News(Arc<RoomNews>),
}

/// Request to chat that is unanswered.
struct Asked {
    account: AccountAddress,
    device: Box<str>,
    room: AccountAddress,
    what: AskedWhat,
    since: Instant,
}

impl Asked {
    /// Memory, bytes, roughly.
    fn weight(&self) -> u64 {
        let what = match &self.what {
            AskedWhat::Room(ask) => ask.weight(),
            _ => 0,
        };
        (size_of::<Asked>() + what) as u64
    }
}

enum AskedWhat {
    /// A question about the room, as a session has it.
    Room(Box<RoomAsk>),
    /// Message: its id, and its recipient.
    Say(Option<Box<str>>, Box<str>),
    /// A part of the room's archive, for the question with this id.
    Archive(Option<Box<str>>, Box<ArchiveQuery>),
    /// How a device is there.
    Seat,
    /// That a device has left.
    Leave,
    /// Request for voice.
    Voice,
}

impl RoomsAbroad {
    /// Makes the rooms of this domain.
    pub fn new(own: &str, limits: &FederationLimits, seed: u64) -> RoomsAbroad {
        RoomsAbroad {
            service: format!("{GROUP_SERVICE}{own}").into(),
            limits: limits.clone(),
            seats: Seats::default(),
            entering: HashMap::new(),
            asked: HashMap::new(),
            asked_bytes: 0,
            leaves: HashMap::new(),
            leaving: VecDeque::new(),
            leaves_asked: 0,
            paces: HashMap::new(),
            last: 0,
            seed,
            out: Vec::new(),
            refused: ForeignRefused::default(),
        }
    }

    /// Sets other limits. Occupants beyond them stay.
    pub fn set_limits(&mut self, limits: &FederationLimits) {
        self.limits = limits.clone();
    }

    /// The domain of the rooms.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Takes the requests since the last call.
    pub fn take_out(&mut self) -> Vec<AbroadWord> {
        std::mem::take(&mut self.out)
    }

    /// Takes the counts of refusals since the last call.
    pub fn take_refused(&mut self) -> ForeignRefused {
        std::mem::take(&mut self.refused)
    }

    /// Devices of other servers that are in rooms.
    pub fn occupants(&self) -> usize {
        self.seats.len()
    }

    /// Whether chat has questions to answer, or is to be asked.
    pub fn is_idle(&self) -> bool {
        self.asked.is_empty() && self.leaving.is_empty()
    }

    /// Chat has answered; `None`: it could not, or there was no time.
    pub fn answered(&mut self, now: Now, number: u64, told: Option<&ChatDelivery>) {
        let Some(asked) = self.asked.remove(&number) else { return };
        self.asked_bytes -= asked.weight();
        let Asked { account, device, room, what, .. } = asked;
        let who = (account, device);
        // Without an answer chat may have given the device a seat.
        if told.is_none()
            && let AskedWhat::Room(ask) = &what
            && matches!(ask.what, RoomWhat::Enter(_))
            && self.seats.at(&room, (&who.0, &who.1)).is_none()
        {
            self.has_left(now, who.clone(), &room);
        }
        let busy = ChatDelivery::Failed { number: 0, why: ChatFault::Busy };
        let told = told.unwrap_or(&busy);
        match what {
            AskedWhat::Room(ask) => self.room_answered(now, (who, room), *ask, told),
            AskedWhat::Say(id, to) => {
                let why = match told {
                    ChatDelivery::Failed { why, .. } => Some(*why),
                    ChatDelivery::Rejected(rejected) => Some(rejected.why),
                    _ => None,
                };
                if let Some(why) = why {
                    self.refuse(&who, "message", (id.as_deref(), &to), fault_of(why));
                }
            }
            AskedWhat::Archive(id, query) => {
                self.archive_answered(&who, (&room, id), *query, told);
            }
            AskedWhat::Leave => {
                let is_heard = matches!(told, ChatDelivery::Done { .. });
                self.leave_answered(now, number, (room, who), is_heard);
            }
            AskedWhat::Seat | AskedWhat::Voice => {}
        }
    }

    /// Gives up requests that chat did not answer in time.
    pub fn sweep(&mut self, now: Now) {
        let is_over = |it: &Asked| now.mono >= it.since + ASKED_TIME;
        let over = self.asked.iter().filter(|(_, it)| is_over(it)).map(|(number, _)| *number);
        let over: Vec<u64> = over.collect();
        over.into_iter().for_each(|number| self.answered(now, number, None));
        for (room, seat, show) in self.seats.take_shows(now) {
            self.seat_says(now, (seat.account, seat.device), &room, show);
        }
        self.takes_leaves(now);
        self.paces.retain(|_, pace| !pace.is_over(now));
    }

    /// Whether an account may enter a room now: so often in a minute, with whichever device.
    fn may_enter_now(&mut self, now: Now, room: &AccountAddress, account: &AccountAddress) -> bool {
        let most = self.limits.occupants_max as usize;
        if self.paces.len() >= most {
            self.paces.retain(|_, pace| !pace.is_over(now));
        }
        let of = (room.clone(), account.clone());
        let is_full = self.paces.len() >= most && !self.paces.contains_key(&of);
        !is_full && self.paces.entry(of).or_default().moves(now)
    }

    /// Tells the home of a group how a device is in its room.
    fn seat_says(&mut self, now: Now, who: Who, room: &AccountAddress, show: OccupantShow) {
        let ((account, device), room, since) = (who, room.clone(), now.mono);
        let errand = ErrandWhat::Room(room.clone().into(), OccupancyAsk::Show(show));
        let what = AskedWhat::Seat;
        let _ = self.ask(Asked { account, device, room, what, since }, errand); // counted if not
    }

    /// Tells the home of a group that a device is not in its room, again until the home has heard
    /// it.
    fn has_left(&mut self, now: Now, who: Who, room: &AccountAddress) {
        let left = (room.clone(), who);
        if !self.leaves.contains_key(&left) {
            self.leaves.insert(left.clone(), None);
            self.leaving.push_back(left);
            self.takes_leaves(now);
        }
    }

    /// Asks chat to carry out leaves, some at a time.
    fn takes_leaves(&mut self, now: Now) {
        while self.leaves_asked < LEAVES_MAX
            && let Some(left) = self.leaving.pop_front()
        {
            // One that has begun to enter the room again leaves it no more.
            if self.leaves.get(&left) != Some(&None) {
                continue;
            }
            let (room, (account, device)) = left.clone();
            let errand = ErrandWhat::Room(room.clone().into(), OccupancyAsk::Leave);
            let (what, since) = (AskedWhat::Leave, now.mono);
            self.puts(Asked { account, device, room, what, since }, errand);
            self.leaves_asked += 1;
            self.leaves.insert(left, Some(self.last));
        }
    }

    /// The home has heard that a device has left, or not: then it is asked again at the next sweep.
    fn leave_answered(&mut self, now: Now, number: u64, left: Left, is_heard: bool) {
        self.leaves_asked -= 1;
        let is_this = self.leaves.get(&left) == Some(&Some(number));
        if is_this && is_heard {
            self.leaves.remove(&left);
        } else if is_this {
            self.leaves.insert(left.clone(), None);
            self.leaving.push_back(left);
        }
        if is_heard {
            self.takes_leaves(now);
        }
    }

    /// Chat is asked something in somebody's name. False: it is asked too much already.
    fn ask(&mut self, asked: Asked, what: ErrandWhat) -> bool {
        if self.is_asked_too_much() {
            return false;
        }
        self.puts(asked, what);
        true
    }

    /// Whether there is no room for one more question, which is counted then.
    fn is_asked_too_much(&mut self) -> bool {
        let is_full = self.asked.len() >= self.limits.taking_max as usize
            || self.asked_bytes > self.limits.taking_bytes_max;
        self.refused.dropped += u64::from(is_full);
        is_full
    }

    fn puts(&mut self, asked: Asked, what: ErrandWhat) {
        self.last += 1;
        let number = self.last;
        let (account, device) = (asked.account.clone(), asked.device.clone());
        self.asked_bytes += asked.weight();
        self.asked.insert(number, asked);
        self.out.push(AbroadWord::Ask { number, account, device, what: Box::new(what) });
    }

    /// A question about a room goes on with what it needs next.
    fn ask_room(&mut self, now: Now, (who, room): (Who, AccountAddress), ask: RoomAsk) {
        let Some(errand) = self.errand_of(ask.what.request()) else { return };
        if self.is_asked_too_much() {
            // Whatever was on its way ends as it does with a fault.
            return self.room_done(now, (who, room), ask, Some(StanzaFault::ResourceConstraint));
        }
        let (account, device) = who;
        let what = AskedWhat::Room(Box::new(ask));
        self.puts(Asked { account, device, room, what, since: now.mono }, errand);
    }

    /// A session's request as an errand in an account's name.
    fn errand_of(&mut self, request: RoomRequest) -> Option<ErrandWhat> {
        Some(match request {
            RoomRequest::Members(range) => ErrandWhat::Members(Box::new(range)),
            RoomRequest::History(range) => ErrandWhat::History(Box::new(range)),
            RoomRequest::Public(range) => ErrandWhat::PublicGroups(Box::new(range)),
            RoomRequest::Recall(order) => ErrandWhat::Recall(Box::new(order)),
            RoomRequest::Room(group, ask) => ErrandWhat::Room(group.into(), ask),
            // Of an account of another server there is no list.
            RoomRequest::Conversations { .. } => return None,
            RoomRequest::Change(group, change) => {
                let ask = OccupancyAsk::Change { client_id: self.made_up(), change };
                ErrandWhat::Room(group.into(), ask)
            }
            RoomRequest::Order { group, verb, title, members } => {
                let (group, client_id) = (Some(group.into()), self.made_up());
                ErrandWhat::Group(Box::new(GroupOrder { group, client_id, verb, title, members }))
            }
        })
    }

    /// Chat has answered a question about a room.
    fn room_answered(
        &mut self,
        now: Now,
        (who, room): (Who, AccountAddress),
        mut ask: RoomAsk,
        told: &ChatDelivery,
    ) {
        let answer = match told {
            ChatDelivery::Members(page) => RoomAnswer::Members(page),
            ChatDelivery::History(page) => RoomAnswer::History(page),
            ChatDelivery::PublicGroups(page) => RoomAnswer::Public(page),
            ChatDelivery::RoomEntered(entered) => RoomAnswer::Entered(entered),
            ChatDelivery::Occupant { occupant, .. } => RoomAnswer::Occupant(occupant),
            ChatDelivery::Occupants { occupants, .. } => RoomAnswer::Occupants(occupants),
            ChatDelivery::Changed(changed) => RoomAnswer::Changed(changed.seq),
            ChatDelivery::Sent { .. } | ChatDelivery::Done { .. } => RoomAnswer::Changed(0),
            ChatDelivery::Failed { why, .. } => RoomAnswer::Failed(*why),
            _ => RoomAnswer::Failed(ChatFault::Busy),
        };
        let step = ask.what.take(who.0.as_str(), answer);
        if let (RoomAnswer::Changed(seq), Step::Done) = (answer, &step) {
            self.shows_configured(&who, (&room, seq), &ask.what);
        }
        match step {
            Step::Ask => self.ask_room(now, (who, room), ask),
            Step::Done => self.room_done(now, (who, room), ask, None),
            Step::Refused(fault) => self.room_done(now, (who, room), ask, Some(fault)),
        }
    }

    /// A device's order about a room is carried out. That the configuration has changed is shown
    /// before the result (10.2.1), and not once more when the change comes.
    fn shows_configured(
        &mut self,
        who: &Who,
        (room, seq): (&AccountAddress, Seq),
        what: &RoomWhat,
    ) {
        let RoomWhat::Order(order) = what else { return };
        let mut seats = self.seats.room_mut(room).iter_mut();
        let seat = seats.find(|it| it.account == who.0 && it.device == who.1);
        if let Some(seat) = seat.filter(|it| seq > it.place && order.is_of_settings) {
            seat.configured = seq;
            let mut xml = Vec::new();
            put_configured(&crate::render::full_jid(&who.0, &who.1), room, &mut xml);
            self.sends(&who.0, xml);
        }
    }

    /// Refuses a stanza, and sends its sender the reason.
    fn refuse(
        &mut self,
        who: &Who,
        stanza: &'static str,
        (id, to): (Option<&str>, &str),
        fault: StanzaFault,
    ) {
        let full = crate::render::full_jid(&who.0, &who.1);
        let reply = StanzaReply { name: stanza, from: Some(to), to: &full, id };
        let mut xml = Vec::new();
        match stanza {
            "presence" => {
                let inner = format!("<x xmlns='{}'/>", super::MUC);
                reply.error_whole(&inner, fault, ("", ""), &mut xml);
            }
            _ => reply.error(fault, "", &mut xml),
        }
        self.sends(&who.0, xml);
    }

    /// A stanza goes to somebody's domain.
    fn sends(&mut self, to: &AccountAddress, xml: Vec<u8>) {
        let domain = to.domain().into();
        self.out.push(AbroadWord::Stanza { domain, xml: xml.into() });
    }

    /// An id for what has none (a UUID of version 8, RFC 9562 5.8).
    fn made_up(&mut self) -> ClientMessageId {
        self.last += 1;
        let id = u128::from(self.seed) << 64 | u128::from(self.last) | 2 << 62;
        ClientMessageId((id & !(0xf << 76) | 8 << 76).to_be_bytes())
    }
}

/// The device at an address; `None`: the address names none.
fn device_of(jid: Jid) -> Option<Who> {
    Some((jid.account?, jid.resource?))
}

#[cfg(test)]
mod tests;
