//! Streams that go on after their connection (XEP-0198 5).
//!
//! ```text
//!  enabled ──► the connection ends: the session is left with the service, as it is
//!                 │ resume, over another connection
//!                 ▼
//!  what waits is taken ─► all of the client's is answered ─► resumed ─► what it has not is sent
//!                                                                       again ─► as before
//! ```
//! Kept of what a client has not acknowledged is the place of each message of the inbox, and the
//! stanza itself of all else. On the way back the inbox is read again from the first place on, and
//! the others go between as they were; what is new meanwhile stands behind them. Invariant: what
//! `resumed` says is handled is answered, and what the client has not is written once more, in
//! order, before anything that came later.

use super::acks::{Acks, Unacked, reaches};
use crate::fault::StreamFault;
use crate::forms::truth;
use crate::server::busy::Busy;
use crate::server::session::Session;
use crate::server::{End, Out};
use crate::stream::SM;
use crate::xml::scan::Element;
use base::time::{Instant, Now};
use model::chat::{
    ChatDelivery, ChatRequest, Detaching, Keeping, KeptSession, Resumed, ResumptionId,
};
use model::close::CloseReason;
use model::id::SessionRef;
use model::limits::ChatLimits;
use model::timeline::Seq;
use std::collections::VecDeque;
use std::time::Duration;

/// How long a client that resumes waits for answers to what it said before. A stanza that is not
/// answered then is not counted, and the client may send it again.
const SETTLES: Duration = Duration::from_secs(10);

/// Bytes that are written again before the rest is put off until they are gone.
const WRITTEN_BYTES: usize = 64 * 1024;

/// State for the resumption of a stream.
pub(in crate::server) struct Resumption {
    secret: u128,
    bytes_max: usize,
    stanzas_max: usize,
    /// Of all stanzas that are kept.
    pub(in crate::server) bytes: usize,
    /// To be written again, or for the first time behind such.
    replay: VecDeque<Replay>,
    /// Places of the inbox that are to be written again.
    resend: VecDeque<Seq>,
    /// All of the inbox up to here was written before, or is no stanza.
    upto: Seq,
    /// Deadline for the answer that it is resumed; `None`: it was sent.
    due: Option<Instant>,
    /// Text before and behind that answer, if it comes along with a login.
    within: Option<Box<(String, String)>>,
    /// Whether it was resumed before.
    has_resumed: bool,
}

/// How long, and how much of it, a stream is kept that may be resumed.
#[derive(Clone, Copy, Default)]
pub(in crate::server) struct KeepLimits {
    seconds: u32,
    bytes_max: usize,
    stanzas_max: usize,
}

impl KeepLimits {
    pub(in crate::server) const fn of(limits: &ChatLimits) -> KeepLimits {
        KeepLimits {
            seconds: limits.resume_s_max,
            bytes_max: limits.resume_bytes_max as usize,
            stanzas_max: limits.resume_stanzas_max as usize,
        }
    }
}

/// A stanza that is to be written behind this place.
struct Replay {
    after: Seq,
    place: Seq,
    copy: Box<[u8]>,
}

/// How a message of the inbox is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::server) enum Turn {
    First,
    /// The message was written before, and must be written again.
    Again,
    /// The message was written before.
    Had,
}

/// A client's wishes for a stream.
pub(in crate::server) struct Wish {
    resume: bool,
    seconds: Option<u32>,
}

impl Wish {
    pub(in crate::server) fn of(enable: &Element<'_, '_>) -> Wish {
        let resume = enable.attribute("resume");
        let resume = resume.is_some_and(|it| truth(it.trim()) == Some(true));
        let seconds = enable.attribute("max").and_then(|it| it.trim().parse().ok());
        Wish { resume, seconds }
    }
}

impl Resumption {
    /// Whether something goes before what is written now.
    fn is_replaying(&self) -> bool {
        self.due.is_some() || !self.replay.is_empty() || !self.resend.is_empty()
    }

    /// Sets the place of the message that was put off last. False: none is put off.
    pub(in crate::server) fn places(&mut self, place: Seq) -> bool {
        let last = self.replay.back_mut().filter(|it| it.place == 0);
        last.map(|it| it.place = place).is_some()
    }
}

/// The session that an id names, as it is said: 16 digits, and 32 of what was drawn for it.
pub(in crate::server) fn read_id(text: &str) -> Option<ResumptionId> {
    let is_id = text.len() == 48 && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
    let (session, secret) = text.split_at_checked(16).filter(|_| is_id)?;
    let session = SessionRef::from_bits(u64::from_str_radix(session, 16).ok()?);
    Some(ResumptionId { session, secret: u128::from_str_radix(secret, 16).ok()? })
}

fn id_text(session: SessionRef, secret: u128) -> String {
    format!("{:016x}{secret:032x}", session.bits())
}

/// Whether a stream may go on that ended so: not by its own fault, nor by anybody's wish.
const fn may_go_on(reason: CloseReason) -> bool {
    matches!(
        reason,
        CloseReason::PeerClosed
            | CloseReason::PeerClosedMidFrame
            | CloseReason::PeerReset
            | CloseReason::TimedOut
            | CloseReason::IoError
            | CloseReason::KeepAliveTimeout
            | CloseReason::FrameTimeout
            | CloseReason::PartialFull
            | CloseReason::TlsFailed
            | CloseReason::WebSocketFailed
            | CloseReason::SlowConsumer
            | CloseReason::Replaced
    )
}

impl Session {
    /// Acknowledgements begin, perhaps of a stream that may be resumed; what is answered.
    pub(in crate::server) fn enabled(
        &mut self,
        limits: KeepLimits,
        wish: Wish,
        out: &mut Out,
    ) -> String {
        let most = limits.seconds;
        let seconds = wish.seconds.map_or(most, |it| it.min(most));
        if !wish.resume || seconds == 0 {
            return format!("<enabled xmlns='{SM}'/>");
        }
        let secret = out.secrets().number();
        if let Some(acks) = &mut self.acks {
            acks.resumption = Some(Box::new(Resumption {
                secret,
                bytes_max: limits.bytes_max,
                stanzas_max: limits.stanzas_max,
                bytes: 0,
                replay: VecDeque::new(),
                resend: VecDeque::new(),
                upto: 0,
                due: None,
                within: None,
                has_resumed: false,
            }));
        }
        let id = ResumptionId { session: self.session, secret };
        out.say(ChatRequest::Keep(Box::new(Keeping { id, seconds })));
        let id = id_text(self.session, secret);
        format!("<enabled xmlns='{SM}' id='{id}' resume='true' max='{seconds}'/>")
    }

    fn resumption(&self) -> Option<&Resumption> {
        self.acks.as_ref()?.resumption.as_deref()
    }

    fn resumption_mut(&mut self) -> Option<&mut Resumption> {
        self.acks.as_mut()?.resumption.as_deref_mut()
    }

    /// Whether it is not said yet that the stream goes on.
    pub(in crate::server) fn is_resuming(&self) -> bool {
        self.resumption().is_some_and(|it| it.due.is_some())
    }

    /// Whether nothing may be written of the inbox: something else goes before it.
    pub(in crate::server) fn is_put_off(&self) -> bool {
        let first = |it: &Resumption| it.replay.front().is_some_and(|it| it.after <= self.place);
        self.resumption().is_some_and(|it| it.due.is_some() || first(it))
    }

    /// Whether what came while it was away is shown as it would have been.
    pub(in crate::server) fn has_resumed(&self) -> bool {
        self.resumption().is_some_and(|it| it.has_resumed)
    }

    /// Whether, and how, a message of the inbox is written.
    pub(in crate::server) fn turn_of(&mut self, place: Seq) -> Turn {
        let Some(resumption) = self.resumption_mut() else { return Turn::First };
        while resumption.resend.pop_front_if(|it| *it < place).is_some() {}
        if place > resumption.upto {
            return Turn::First;
        }
        match resumption.resend.pop_front_if(|it| *it == place) {
            Some(_) => Turn::Again,
            None => Turn::Had,
        }
    }

    /// Takes the stanza at the end of the lane back, if something goes before it.
    pub(in crate::server) fn puts_off(&mut self, out: &mut Out) -> bool {
        let place = self.place;
        let Some(acks) = &mut self.acks else { return false };
        let mark = acks.mark;
        let Some(resumption) = &mut acks.resumption else { return false };
        if !resumption.is_replaying() {
            return false;
        }
        let copy: Box<[u8]> = out.bytes().split_off(mark).into();
        resumption.bytes += copy.len();
        let after = place.max(resumption.upto);
        resumption.replay.push_back(Replay { after, place: 0, copy });
        let is_full = resumption.bytes > resumption.bytes_max;
        if is_full && resumption.due.is_none() {
            self.replays(Seq::MAX, usize::MAX, out); // the order is given up, nothing else
        }
        true
    }

    /// Writes what is due behind the place where it is.
    pub(in crate::server) fn replays_here(&mut self, out: &mut Out) {
        if self.is_put_off() && !self.is_resuming() {
            self.replays(self.place, WRITTEN_BYTES, out);
        }
    }

    /// Writes what is due behind a place, so many bytes of it.
    fn replays(&mut self, place: Seq, bytes_max: usize, out: &mut Out) {
        let begins = out.bytes().len();
        while let Some(acks) = &mut self.acks
            && let Some(resumption) = &mut acks.resumption
            && let Some(replay) = resumption.replay.pop_front_if(|it| it.after <= place)
        {
            out.bytes().extend_from_slice(&replay.copy);
            acks.sent = acks.sent.wrapping_add(1);
            acks.mark = out.bytes().len();
            acks.placed += usize::from(replay.place != 0);
            let (stanza, place, copy) = (acks.sent, replay.place, Some(replay.copy));
            acks.unacked.push_back(Unacked { stanza, place, copy });
            if out.bytes().len() - begins >= bytes_max {
                return out.tell_drained();
            }
        }
        self.bounds_copies(out);
    }

    /// With more than may be kept the stream cannot be resumed any more.
    pub(in crate::server) fn bounds_copies(&mut self, out: &mut Out) {
        let Some(acks) = &mut self.acks else { return };
        let is_within = |it: &&mut Box<Resumption>| {
            let stanzas = acks.unacked.len() + it.replay.len();
            it.bytes <= it.bytes_max && stanzas <= it.stanzas_max + acks.placed
        };
        let Some(resumption) = acks.resumption.as_mut().filter(|it| !is_within(it)) else { return };
        if !resumption.replay.is_empty() {
            return; // it is written first
        }
        let (session, secret) = (self.session, resumption.secret);
        acks.resumption = None;
        acks.unacked.retain_mut(|it| {
            it.copy = None;
            it.place != 0
        });
        let id = ResumptionId { session, secret };
        out.say(ChatRequest::Keep(Box::new(Keeping { id, seconds: 0 })));
    }

    /// The connection has ended: the session is left with the service, or is over.
    pub(in crate::server) fn ends(mut self, reason: CloseReason, out: &mut Out) {
        let session = self.session;
        if !may_go_on(reason) || self.resumption().is_none() {
            return out.say(ChatRequest::Closed { session, reason });
        }
        let handled = self.handled();
        self.stops_hearing();
        let bytes = self.weight();
        let kept = KeptSession::new(self);
        let detaching = Detaching { session, kept, bytes, handled, reason };
        out.say(ChatRequest::Detach(Box::new(detaching)));
    }

    /// Memory while it is kept, bytes, roughly.
    fn weight(&self) -> usize {
        let kept = self.acks.as_ref().map_or(0, |acks| {
            let each = size_of::<Unacked>() + size_of::<Replay>();
            let copies = acks.resumption.as_ref().map_or(0, |it| it.bytes + it.replay.len() * each);
            size_of::<Acks>() + size_of::<Resumption>() + copies + acks.unacked.len() * each
        });
        let busy = self.busy.as_ref().map_or(0, |busy| size_of::<Busy>() + busy.weight());
        size_of::<Session>() + self.jid().len() + kept + busy
    }

    /// Resumes over this connection, whose client says how many stanzas it has.
    pub(in crate::server) fn resumes(
        &mut self,
        now: Now,
        (resumed, head): (Vec<ChatDelivery>, Seq),
        (has, within): (u32, Option<Box<(String, String)>>),
        out: &mut Out,
    ) -> Result<(), End> {
        if let Some(resumption) = self.resumption_mut() {
            resumption.within = within;
        }
        self.marks(out);
        let upto = self.has_stanzas(has)?;
        self.takes_back(has, now.after(SETTLES));
        if let Some(upto) = upto {
            out.say(ChatRequest::Acknowledge { session: self.session, upto });
        }
        self.goes_on(head);
        for word in resumed {
            self.tell(now, word, out)?;
        }
        self.set(Session::READING, false);
        self.settles(now, out);
        if self.is_resuming() {
            out.wake(now.after(SETTLES));
        }
        Ok(())
    }

    /// Queues the stanzas that were sent and not acknowledged, to be sent again.
    fn takes_back(&mut self, has: u32, due: Instant) {
        let place = self.place;
        let Some(acks) = &mut self.acks else { return };
        let Some(resumption) = &mut acks.resumption else { return };
        (acks.sent, acks.had, acks.has_asked, acks.owed, acks.placed) = (has, has, false, None, 0);
        let unacked = std::mem::take(&mut acks.unacked);
        let first = unacked.iter().find(|it| it.copy.is_none()).map(|it| it.place - 1);
        let begins = first.unwrap_or(place);
        let (mut after, mut replay, mut resend) = (begins, VecDeque::new(), VecDeque::new());
        for Unacked { place, copy, .. } in unacked {
            match copy {
                Some(copy) => replay.push_back(Replay { after, place, copy }),
                None => resend.push_back(place),
            }
            after = after.max(place);
        }
        // What was not written again when it was resumed before.
        replay.append(&mut resumption.replay);
        resend.append(&mut resumption.resend);
        (resumption.replay, resumption.resend) = (replay, resend);
        resumption.upto = resumption.upto.max(place);
        (resumption.due, resumption.has_resumed) = (Some(due), true);
        self.place = begins;
    }

    /// Continues everything that was put off as far as it may, at the end of each call.
    pub(in crate::server) fn settles(&mut self, now: Now, out: &mut Out) {
        let answered = self.busy.as_ref().is_none_or(|busy| busy.first_unanswered().is_none());
        let place = self.place;
        let is_there = self.has(Session::AVAILABLE);
        let Some(resumption) = self.resumption_mut() else { return };
        if let Some(due) = resumption.due {
            if !answered && now.mono < due {
                return;
            }
            resumption.due = None;
            self.says_resumed(out);
        }
        let Some(resumption) = self.resumption_mut() else { return };
        if !is_there {
            resumption.resend.clear(); // it wants no messages; they wait
            resumption.upto = 0;
        }
        while resumption.resend.pop_front_if(|it| *it <= place).is_some() {}
        if !resumption.replay.is_empty() {
            let upto = if resumption.resend.is_empty() { Seq::MAX } else { place };
            self.replays(upto, WRITTEN_BYTES, out);
            self.pull_again(out);
        }
        self.ask_for_ack(out);
    }

    /// Writes that the stream is resumed, and how many of the client's stanzas are handled.
    fn says_resumed(&mut self, out: &mut Out) {
        let handled = self.handled();
        let session = self.session;
        let Some(acks) = &mut self.acks else { return };
        let Some(resumption) = &mut acks.resumption else { return };
        let (before, after) = resumption.within.take().map(|it| *it).unwrap_or_default();
        let id = id_text(session, resumption.secret);
        base::never!(!reaches(acks.received, handled), "more is handled than came");
        acks.received = handled;
        let resumed = format!("{before}<resumed xmlns='{SM}' previd='{id}' h='{handled}'/>{after}");
        out.bytes().extend_from_slice(resumed.as_bytes());
        self.marks(out);
        self.releases(out);
        self.pull_again(out);
        out.tell_drained(); // a part of an archive may be left to be written
    }
}

/// The state of a resumed session, if it is one of this machine's.
pub(in crate::server) fn taken(resumed: Resumed) -> Result<(Session, Vec<ChatDelivery>, Seq), End> {
    let Resumed { session, kept, waiting, head } = resumed;
    let Some(mut it) = kept.take::<Session>() else {
        return Err(End::Close(crate::server::unexpected("a session of another protocol")));
    };
    it.session = session;
    Ok((it, waiting, head))
}

/// How many stanzas a client says that it has.
pub(in crate::server) fn read_count(element: &Element<'_, '_>) -> Result<u32, StreamFault> {
    let h = element.attribute("h").and_then(|h| h.trim().parse().ok());
    h.ok_or(StreamFault::BadFormat)
}
