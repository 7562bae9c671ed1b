//! A client of MQTT that is a device of an account (IM 19): both machines on one connection.
//!
//! ```text
//! PUBLISH $im/req/OP ─► mqtt ─► broker ─► Call ─► here: a ClientFrame ─► im ─► chat, at the
//! PUBLISH answer, PUBACK ◄─ mqtt ◄─ here: a ServerFrame ◄─ im ◄───────────────  account's home
//! ```
//! The MQTT machine does not know what stands in its messages, the IM machine not in what they
//! came: this hands what the one has read to the other, and plays the broker's part towards the
//! MQTT machine. A session of chat begins when it is first needed. Chat's deliveries go to this
//! connection alone, at QoS 0, and never through the tree of topics; those that do not go out are
//! announced by one Notify, and pulled. Invariant: each request that was taken is answered once, by
//! chat, by the end of its time or by the connection's.

mod call;
mod json;
#[cfg(test)]
mod tests;

use self::call::{Fault, Pending, Reply, denial_of, frame_of, outgoing, own_number};
use base::time::{Instant, Now};
use model::chat::{
    AccountDevice, CHAT_EVENTS, CHAT_EVENTS_JSON, ChatCall, ChatDelivery, ChatFault, ChatRequest,
    EventsWanted, GrantedLogin, LoggedIn, Login, LoginRefused, SessionEnd,
};
use model::close::CloseReason;
use model::counters::ChatCounter;
use model::link::{Link, StartTlsRefusal};
use model::machine::{Input, Machine, Outbox, TurnAway};
use model::service::{Delivery, Request};
use model::session::{Denial, Denied, Outgoing, Routed, SessionDelivery};
use model::timeline::Seq;
use model::topic::Qos;
use proto_im::server::carried::{self, CarriedFrame, CarriedSession};
use proto_mqtt::server::Server;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// How long an answer, or a session, is waited for: chat gives up sooner by itself.
const ANSWER_S_MAX: u64 = 30;

/// Bytes that are kept of requests that are not answered: what stands in them while the session is
/// not there, and where and with what they are answered. Beyond, one more is answered as busy.
const KEPT_BYTES_MAX: usize = 256 * 1024;

type Out = Outbox<Request>;
type Done = Result<(), CloseReason>;

/// The machine of such a connection.
pub struct ChatOverMqtt {
    mqtt: Server,
    step: Step,
    /// User of the device, as the broker said last.
    device: Option<AccountDevice>,
    /// Requests that are not answered, by the numbers under which chat has them.
    pending: BTreeMap<u32, Pending>,
    last: u32,
    /// The inbox has more, up to here, and the device was not told; zero: it was.
    untold: Seq,
    /// Unix second until which the session was asked for; 0: for good.
    until_s: u32,
    /// When a session that was refused for now is asked for again.
    again_at: Option<Instant>,
}

enum Step {
    /// No session of chat exists.
    Out,
    /// The session was asked for; an answer is due at this time.
    Asked(Instant),
    /// The session exists, on these terms.
    In(CarriedSession, Box<LoggedIn>),
}

impl ChatOverMqtt {
    /// State of a connection of MQTT that turns to chat.
    pub fn of(mqtt: Server) -> ChatOverMqtt {
        ChatOverMqtt {
            mqtt,
            step: Step::Out,
            device: None,
            pending: BTreeMap::new(),
            last: 0,
            untold: 0,
            until_s: 0,
            again_at: None,
        }
    }

    /// The machine of MQTT, for whoever looks on.
    pub fn mqtt(&mut self) -> &mut Server {
        &mut self.mqtt
    }

    /// The client has published a request.
    fn call(&mut self, now: Now, call: ChatCall, out: &mut Out) -> Done {
        let reply = Reply::to(&call);
        let (id, qos) = (call.id, call.qos);
        let due = now.after(Duration::from_secs(ANSWER_S_MAX));
        let mut pending = Pending { own: 0, id, qos, reply, due, frame: None };
        let device = match &call.device {
            Ok(device) => device,
            Err(none) => {
                pending.own = own_number(&call, &pending.reply);
                let fault = Fault::of(ChatFault::NoSession, none.meaning());
                return self.fail(now, pending, fault, out);
            }
        };
        let frame = match frame_of(&call, &pending.reply, &device.limits) {
            Ok((frame, own)) => {
                pending.own = own;
                frame
            }
            Err(fault) => return self.fail(now, pending, fault, out),
        };
        let requests_max = usize::from(device.limits.chat.requests_a_session_max);
        // What it wants to be told is said apart, behind the answer to its SUBSCRIBE.
        self.device = Some(AccountDevice { events: self.events(), ..device.clone() });
        if self.pending.len() >= requests_max {
            let fault = Fault::of(ChatFault::Busy, "too many requests are not answered");
            return self.fail(now, pending, fault, out);
        }
        let is_in = matches!(self.step, Step::In(..));
        let kept: usize = self.pending.values().map(Pending::bytes).sum();
        let own = pending.bytes() + if is_in { 0 } else { frame.len() };
        if kept > 0 && kept + own > KEPT_BYTES_MAX {
            let fault = Fault::of(ChatFault::Busy, "too much is not answered");
            return self.fail(now, pending, fault, out);
        }
        if is_in {
            return self.ask(now, pending, &frame, out);
        }
        pending.frame = Some(frame);
        self.put(pending, out);
        self.log_in(now, out);
        Ok(())
    }

    /// Keeps a request for its answer, under the next number.
    fn put(&mut self, pending: Pending, out: &mut Out) {
        self.last = self.last.wrapping_add(1);
        remind(pending.due, out);
        self.pending.insert(self.last, pending);
    }

    /// Hands a request to the session.
    fn ask(&mut self, now: Now, mut pending: Pending, frame: &[u8], out: &mut Out) -> Done {
        let Step::In(session, _) = &mut self.step else { return Ok(()) };
        match session.ask(frame, self.last.wrapping_add(1), out) {
            Ok(CarriedFrame::Asked(own)) => {
                pending.own = own;
                self.put(pending, out);
                Ok(())
            }
            Ok(CarriedFrame::Taken) => self.taken(now, &pending, None, out),
            // It makes no sense by itself.
            Ok(CarriedFrame::Answered(frame)) => {
                self.publish(now, &pending.reply.message(&frame), out)?;
                self.taken(now, &pending, Some(Denial::PayloadFormat), out)
            }
            Err(wrong) => {
                let reason = format!("the request is malformed: {}", wrong.name());
                self.fail(now, pending, Fault::of(ChatFault::Invalid, reason), out)
            }
        }
    }

    /// A request is not done, and nobody was asked.
    fn fail(&mut self, now: Now, pending: Pending, fault: Fault, out: &mut Out) -> Done {
        out.count(ChatCounter::CallsRefused);
        let frame = carried::failed(pending.own, fault.why, &fault.reason);
        self.publish(now, &pending.reply.message(&frame), out)?;
        self.taken(now, &pending, Some(fault.denial), out)
    }

    /// Acknowledges the message that a request came in.
    fn taken(&mut self, now: Now, of: &Pending, why: Option<Denial>, out: &mut Out) -> Done {
        if of.qos == Qos::AtMostOnce {
            return Ok(());
        }
        let result = why.map_or(Ok(Routed::Matched), Err);
        let word = SessionDelivery::Taken { id: of.id, qos: of.qos, result };
        self.mqtt.command(now, word.into(), out)
    }

    fn publish(&mut self, now: Now, message: &Outgoing, out: &mut Out) -> Done {
        let word = SessionDelivery::Publish(message.clone());
        self.mqtt.command(now, word.into(), out)
    }

    /// Asks for a session, unless there is one, or one is asked for.
    fn log_in(&mut self, now: Now, out: &mut Out) {
        let (Step::Out, Some(device)) = (&self.step, &self.device) else { return };
        let login = Login {
            protocol: device.protocol,
            account: device.address.clone(),
            device: device.device.clone(),
            binds: false,
            password: None,
            method: None,
            certificate: None,
            bindings: None,
            peer: device.peer.unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))),
            near: false,
            door: 0,
            tls: false,
            crowded: false,
        };
        let (user, account) = (device.user.clone(), device.account);
        let entering = GrantedLogin { login, user, account, until_s: device.until_s };
        self.until_s = entering.until_s;
        out.say(ChatRequest::Enter(Box::new(entering)));
        let due = now.after(Duration::from_secs(ANSWER_S_MAX));
        (self.step, self.again_at) = (Step::Asked(due), None);
        remind(due, out);
    }

    /// Takes the broker's word on the client's device, and on the events that it wants.
    fn told(&mut self, now: Now, device: AccountDevice, out: &mut Out) -> Done {
        let (before, wants) = (self.events(), device.events);
        self.device = Some(device);
        if !wants.any() {
            return Ok(());
        }
        if !before.any()
            && let (Step::In(_, terms), Some(device)) = (&self.step, &self.device)
        {
            let frame = carried::logged_in(terms, &device.limits);
            self.event(now, &frame, out)?;
        }
        self.log_in(now, out);
        self.notify(now, out)
    }

    fn events(&self) -> EventsWanted {
        self.device.as_ref().map_or(EventsWanted::default(), |device| device.events)
    }

    /// Tells the device what happens, in the forms in which it wants it.
    fn event(&mut self, now: Now, frame: &[u8], out: &mut Out) -> Done {
        let events = self.events();
        let forms = [(events.plain, CHAT_EVENTS, false), (events.json, CHAT_EVENTS_JSON, true)];
        for (wanted, topic, is_json) in forms {
            let Some(wanted) = wanted else { continue };
            let id = wanted.subscription_id.map(|id| [id].into());
            let message = outgoing(topic, is_json, None, frame);
            self.publish(now, &Outgoing { subscription_ids: id, ..message }, out)?;
        }
        Ok(())
    }

    /// Tells the device by one word of all that it was not told of.
    fn notify(&mut self, now: Now, out: &mut Out) -> Done {
        let is_in = matches!(self.step, Step::In(..));
        if self.untold == 0 || !is_in || !self.events().any() {
            return Ok(());
        }
        if is_slow(out) {
            out.tell_drained();
            return Ok(());
        }
        let frame = carried::notify(std::mem::take(&mut self.untold));
        self.event(now, &frame, out)
    }

    /// Chat has something for the device.
    fn hear(&mut self, now: Now, word: ChatDelivery, out: &mut Out) -> Done {
        match word {
            ChatDelivery::LoggedIn(logged_in) => self.logged_in(now, *logged_in, out),
            ChatDelivery::Refused(refused) => self.refused(now, &refused, out),
            ChatDelivery::End(end) => self.ended(now, &end, out),
            word => self.answered(now, word, out),
        }
    }

    fn logged_in(&mut self, now: Now, terms: LoggedIn, out: &mut Out) -> Done {
        if !matches!(self.step, Step::Asked(_)) {
            // It was given up.
            let (session, reason) = (terms.session, CloseReason::BindTimeout);
            out.say(ChatRequest::Closed { session, reason });
            return Ok(());
        }
        if terms.cursor < terms.head {
            self.untold = self.untold.max(terms.head);
        }
        let device = self.device.as_ref();
        let frame = device.map(|device| carried::logged_in(&terms, &device.limits));
        self.step = Step::In(CarriedSession::new(terms.session), Box::new(terms));
        if let Some(frame) = frame {
            self.event(now, &frame, out)?;
        }
        self.notify(now, out)?;
        for (_, mut pending) in std::mem::take(&mut self.pending) {
            if let Some(frame) = pending.frame.take() {
                self.ask(now, pending, &frame, out)?;
            }
        }
        Ok(())
    }

    /// Chat does not let the device in.
    fn refused(&mut self, now: Now, refused: &LoginRefused, out: &mut Out) -> Done {
        if !matches!(self.step, Step::Asked(_)) {
            return Ok(());
        }
        self.step = Step::Out;
        if refused.retry_after_ms > 0 && self.events().any() {
            let at = now.after(Duration::from_millis(refused.retry_after_ms.into()));
            self.again_at = Some(at);
            remind(at, out);
        }
        let why = match refused.retry_after_ms {
            0 => ChatFault::NoSession,
            _ => ChatFault::Busy,
        };
        self.give_up(now, &Fault::of(why, refused.why.name()), out)
    }

    /// Answers all requests, for there is no session for them.
    fn give_up(&mut self, now: Now, fault: &Fault, out: &mut Out) -> Done {
        for (_, pending) in std::mem::take(&mut self.pending) {
            self.fail(now, pending, fault.clone(), out)?;
        }
        Ok(())
    }

    /// Whether the client has proven itself since the session was asked for, and for longer (MQTT5
    /// 4.12.1).
    fn is_renewed(&self) -> bool {
        let renewed = |it: &AccountDevice| it.until_s == 0 || it.until_s > self.until_s;
        self.until_s != 0 && self.device.as_ref().is_some_and(renewed)
    }

    /// The session is over: so is the connection, whose only device it was. One that ends with an
    /// earlier proof begins anew by the later one.
    fn ended(&mut self, now: Now, end: &SessionEnd, out: &mut Out) -> Done {
        if !matches!(self.step, Step::In(..)) {
            return Ok(());
        }
        self.step = Step::Out;
        if end.why == Denial::Expired && self.is_renewed() {
            let fault = Fault::of(ChatFault::Busy, "the session begins anew");
            self.give_up(now, &fault, out)?;
            self.log_in(now, out);
            return Ok(());
        }
        let denied = Denied::of(end.why, end.reason);
        self.end(now, "the session of chat is over", denied, out)
    }

    /// Ends the connection, and says why in words.
    fn end(&mut self, now: Now, words: &str, denied: Denied, out: &mut Out) -> Done {
        let denied = Denied { text: Some(words.into()), ..denied };
        self.mqtt.command(now, SessionDelivery::End(Box::new(denied)).into(), out)
    }

    /// An answer, or something that happens.
    fn answered(&mut self, now: Now, mut word: ChatDelivery, out: &mut Out) -> Done {
        let Step::In(session, terms) = &mut self.step else { return Ok(()) };
        let asked = word.number_mut().map(|number| (*number, number));
        let Some((number, own)) = asked else {
            terms.head = terms.head.max(place_of(&word).unwrap_or_default());
            return self.happens(now, word, out);
        };
        let Some(pending) = self.pending.remove(&number) else {
            // It came too late: who asked has been told so.
            return session.tell(word, out).map(|_| ());
        };
        *own = pending.own;
        let denial = denial_of(&word);
        let frame = session.tell(word, out)?;
        if denial.is_some() {
            self.publish(now, &pending.reply.message(&frame), out)?;
            return self.taken(now, &pending, denial, out);
        }
        self.taken(now, &pending, None, out)?;
        self.publish(now, &pending.reply.message(&frame), out)
    }

    /// Handles an event of the account. An event with a place in the inbox may be sent later by it;
    /// one without a place is not sent to a device that does not read.
    fn happens(&mut self, now: Now, word: ChatDelivery, out: &mut Out) -> Done {
        let place = place_of(&word);
        let is_told = self.events().any() && !is_slow(out) && self.untold == 0;
        if let (Some(place), false) = (place, is_told) {
            self.untold = self.untold.max(place);
            return self.notify(now, out);
        }
        if !self.events().any() {
            return Ok(());
        }
        if is_slow(out) {
            let denied = Denied::of(Denial::Quota, CloseReason::SlowConsumer);
            return self.end(now, "the client does not read what happens", denied, out);
        }
        let Step::In(session, _) = &mut self.step else { return Ok(()) };
        let frame = session.tell(word, out)?;
        self.event(now, &frame, out)
    }

    /// Drops calls whose answers have not come in time.
    fn woken(&mut self, now: Now, out: &mut Out) -> Done {
        let late = || Fault::of(ChatFault::Busy, "there was no answer in time");
        if let Step::Asked(due) = self.step
            && due <= now.mono
        {
            self.step = Step::Out;
            self.give_up(now, &late(), out)?;
        }
        while let Some(first) = self.pending.first_entry()
            && first.get().due <= now.mono
        {
            let pending = first.remove();
            self.fail(now, pending, late(), out)?;
        }
        if self.again_at.is_some_and(|at| at <= now.mono) {
            self.log_in(now, out);
        }
        let asked = if let Step::Asked(due) = self.step { Some(due) } else { None };
        let first = self.pending.values().next().map(|pending| pending.due);
        [asked, first, self.again_at].into_iter().flatten().for_each(|at| remind(at, out));
        Ok(())
    }
}

/// The place in the inbox that something has, or tells of.
fn place_of(word: &ChatDelivery) -> Option<Seq> {
    match word {
        ChatDelivery::Message { seq, .. } | ChatDelivery::Event { seq, .. } => Some(*seq),
        ChatDelivery::Notify { head } => Some(*head),
        _ => None,
    }
}

/// Whether so much waits for the socket that what may be dropped is.
fn is_slow(out: &Out) -> bool {
    out.backlog() > out.backlog_max()
}

/// Asks to be woken then, or sooner if the other machine wants that.
fn remind(at: Instant, out: &mut Out) {
    let sooner = out.take_wake().map_or(at, |other| other.min(at));
    out.wake(sooner);
}

impl Machine for ChatOverMqtt {
    type Up = Request;
    type Down = Delivery;

    fn opened(&mut self, now: Now, link: &Link, out: &mut Out) -> Done {
        self.mqtt.opened(now, link, out)
    }

    fn receive(&mut self, now: Now, input: &mut Input<'_>, out: &mut Out) -> Done {
        self.mqtt.receive(now, input, out)
    }

    fn command(&mut self, now: Now, down: Delivery, out: &mut Out) -> Done {
        match down {
            Delivery::Chat(word) => self.hear(now, word, out),
            Delivery::Topics(SessionDelivery::Call(call)) => self.call(now, *call, out),
            Delivery::Topics(SessionDelivery::Device(device)) => self.told(now, *device, out),
            down => self.mqtt.command(now, down, out),
        }
    }

    fn wake(&mut self, now: Now, out: &mut Out) -> Done {
        self.mqtt.wake(now, out)?;
        self.woken(now, out)
    }

    fn drained(&mut self, now: Now, out: &mut Out) -> Done {
        self.mqtt.drained(now, out)?;
        self.notify(now, out)
    }

    fn tls_started(
        &mut self,
        now: Now,
        link: Result<&Link, StartTlsRefusal>,
        out: &mut Out,
    ) -> Done {
        self.mqtt.tls_started(now, link, out)
    }

    fn silent(&mut self, now: Now, out: &mut Out) -> Done {
        self.mqtt.silent(now, out)
    }

    fn turn_away(&mut self, now: Now, away: TurnAway<'_>, out: &mut Out) {
        self.mqtt.turn_away(now, away, out);
    }

    fn closed(&mut self, now: Now, reason: CloseReason, out: &mut Out) {
        if let Step::In(session, _) = &self.step {
            out.say(ChatRequest::Closed { session: session.session(), reason });
        }
        self.step = Step::Out;
        self.mqtt.closed(now, reason, out);
    }
}
