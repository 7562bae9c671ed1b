//! A client's machine, whatever its protocol: what a shard drives.
//!
//! The machines of MIOP and MQTT are the protocols' own; each says its words into an outbox of its
//! own, from which they are carried over. HTTP's and TCP's are here: they send what they are given
//! and know where an answer ends. No machine knows a script or a plan.

use base::hash::HashKey;
use base::time::Now;
use load::http::{AnswerReader, BODY_BYTES_MAX, HttpAnswer};
use model::close::CloseReason;
use model::link::Link;
use model::machine::{Input, Machine, Outbox, Piece, TurnAway};
use model::ports::virtual_client::{Action, Observation};
use model::topic::{Publication, Qos};
use proto_mqtt::client::{ClientOrder, MqttEvent};
use std::sync::{Arc, Mutex, PoisonError};

/// Event of a client.
#[derive(Debug)]
pub enum Said {
    /// Its Bind was accepted.
    Bound,
    /// Its Bind was refused.
    Refused {
        /// The protocol's code.
        code: u32,
        /// Milliseconds after which to try again.
        retry_after_ms: u32,
    },
    /// A heartbeat was answered.
    Pong,
    /// A report or message was answered with this code; zero: taken.
    Settled(u32),
    /// A request was answered.
    Answer(Box<HttpAnswer>),
    /// A message that was not asked for.
    Message {
        /// Its topic, where it has one.
        topic: Box<str>,
        /// Body of the message.
        body: Box<[u8]>,
    },
    /// The server ended the session, with this code.
    Kicked(u32),
    /// The server asks to leave and come back after so many milliseconds.
    GoAway(u32),
}

/// Order to a client.
#[derive(Debug)]
pub enum ClientTask {
    /// Send this: requests, for each of which it is said whether it is a HEAD.
    Send(Arc<[u8]>, Arc<[bool]>),
    /// Send a heartbeat.
    Ping,
    /// Send a report.
    Report(Box<[u8]>),
    /// Publish this.
    Publish(Box<Publication>),
}

/// The outboxes of the protocols' own words. One a thread.
pub struct Scratch(Mutex<(Outbox<Observation>, Outbox<MqttEvent>)>);

impl Scratch {
    /// Two empty outboxes.
    pub fn new(key: HashKey) -> Arc<Scratch> {
        Arc::new(Scratch(Mutex::new((Outbox::new(key, [0; 32]), Outbox::new(key, [0; 32])))))
    }
}

/// The machine of one protocol.
pub enum ProtocolMachine {
    /// HTTP.
    Http(Box<AnswerReader>),
    /// MIOP.
    Miop(proto_miop::client::Client, Arc<Scratch>),
    /// MQTT.
    Mqtt(Box<proto_mqtt::client::Client>, Arc<Scratch>),
    /// Bytes; an answer ends with these, or is what comes first.
    Tcp {
        /// Bytes that end an answer.
        end: Arc<[u8]>,
        /// An answer is kept for a script.
        keeps: bool,
        /// Answers that are due.
        open: u32,
    },
}

/// A client's machine and its place in the logic.
pub struct ClientSlot {
    /// The machine.
    pub wire: ProtocolMachine,
    /// Its place.
    pub virtual_client: u32,
    /// Messages of QoS 0 that the socket has not taken.
    pub unwritten: u32,
}

const _: () = assert!(size_of::<ClientSlot>() <= 80, "a client's machine is too large");

type Out = Outbox<Said>;
type Told = Result<(), CloseReason>;

/// Lets the protocol's machine do something, and carries over what it wants; HTTP and TCP have
/// none.
macro_rules! drive {
    ($slot:ident, $out:ident, |$client:ident, $inner:ident| $act:expr) => {
        drive!($slot, $out, |$client, $inner| $act, |$client, $inner| $act)
    };
    ($slot:ident, $out:ident, |$miop:ident, $said:ident| $do:expr,
     |$mqtt:ident, $told:ident| $order:expr) => {
        match &mut $slot.wire {
            ProtocolMachine::Miop($miop, scratch) => {
                let mut boxes = scratch.0.lock().unwrap_or_else(PoisonError::into_inner);
                let result = {
                    let $said = &mut boxes.0;
                    $do
                };
                carry(&mut boxes.0, $out, of_miop);
                result
            }
            ProtocolMachine::Mqtt($mqtt, scratch) => {
                let mut boxes = scratch.0.lock().unwrap_or_else(PoisonError::into_inner);
                let result = {
                    let $told = &mut boxes.1;
                    $order
                };
                let unwritten = &mut $slot.unwritten;
                carry(&mut boxes.1, $out, |event| of_mqtt(event, unwritten));
                result
            }
            ProtocolMachine::Http(_) | ProtocolMachine::Tcp { .. } => Ok(()),
        }
    };
}

impl ClientSlot {
    fn hear_http(reader: &mut AnswerReader, input: &mut Input<'_>, out: &mut Out) -> Told {
        loop {
            let (taken, answer) = reader.read(input.rest())?;
            input.take(taken);
            match answer {
                Some(answer) => out.say(Said::Answer(Box::new(answer))),
                None if taken == 0 => return Ok(()),
                None => {}
            }
        }
    }

    fn hear_tcp(
        (end, keeps, open): (&[u8], bool, &mut u32),
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Told {
        while !input.rest().is_empty() {
            let rest = input.rest();
            let length = match end.is_empty() {
                true => Some(rest.len()),
                false => rest.windows(end.len()).position(|at| at == end).map(|at| at + end.len()),
            };
            let Some(length) = length else {
                let long = rest.len() > BODY_BYTES_MAX;
                return if long { Err(CloseReason::TooLarge) } else { Ok(()) };
            };
            let bytes = input.take(length);
            if *open == 0 {
                out.say(Said::Message { topic: Box::default(), body: bytes.into() });
                continue;
            }
            *open -= 1;
            let body = if keeps { bytes.to_vec() } else { Vec::new() };
            out.say(Said::Answer(Box::new(HttpAnswer {
                body,
                goes_on: true,
                ..HttpAnswer::default()
            })));
        }
        Ok(())
    }
}

impl Machine for ClientSlot {
    type Up = Said;
    type Down = ClientTask;

    fn opened(&mut self, now: Now, link: &Link, out: &mut Out) -> Told {
        drive!(self, out, |client, out| client.opened(now, link, out))
    }

    fn receive(&mut self, now: Now, input: &mut Input<'_>, out: &mut Out) -> Told {
        match &mut self.wire {
            ProtocolMachine::Http(reader) => Self::hear_http(reader, input, out),
            ProtocolMachine::Tcp { end, keeps, open } => {
                Self::hear_tcp((end, *keeps, open), input, out)
            }
            _ => drive!(self, out, |client, out| client.receive(now, input, out)),
        }
    }

    fn command(&mut self, now: Now, ask: ClientTask, out: &mut Out) -> Told {
        match (&mut self.wire, ask) {
            (ProtocolMachine::Http(reader), ClientTask::Send(bytes, heads)) => {
                reader.asked(heads.iter().copied());
                out.share(bytes);
                Ok(())
            }
            (ProtocolMachine::Tcp { open, .. }, ClientTask::Send(bytes, _)) => {
                *open += 1;
                out.share(bytes);
                Ok(())
            }
            (ProtocolMachine::Mqtt(..), ClientTask::Publish(message)) => {
                let qos0 = message.qos == Qos::AtMostOnce;
                let order = ClientOrder::Publish { token: 0, message: Arc::from(message) };
                // A message of QoS 0 is settled when the socket has taken it, not before.
                self.unwritten += u32::from(qos0);
                drive!(self, out, |_miop, _out| Ok(()), |client, out| {
                    client.command(now, order, out)
                })?;
                if qos0 {
                    out.tell_drained();
                }
                Ok(())
            }
            (_, ClientTask::Ping) => drive!(
                self,
                out,
                |client, out| client.command(now, Action::Ping, out),
                |client, out| client.command(now, ClientOrder::Ping, out)
            ),
            (ProtocolMachine::Miop(..), ClientTask::Report(body)) => drive!(
                self,
                out,
                |client, out| client.command(now, Action::Report(body), out),
                |_mqtt, _out| Ok(())
            ),
            // The logic asks a machine for what its protocol has.
            _ => Err(CloseReason::Internal),
        }
    }

    fn wake(&mut self, now: Now, out: &mut Out) -> Told {
        drive!(self, out, |client, out| client.wake(now, out))
    }

    fn drained(&mut self, now: Now, out: &mut Out) -> Told {
        for _ in 0..std::mem::take(&mut self.unwritten) {
            out.say(Said::Settled(0));
        }
        drive!(self, out, |client, out| client.drained(now, out))
    }

    fn silent(&mut self, now: Now, out: &mut Out) -> Told {
        drive!(self, out, |client, out| client.silent(now, out))
    }

    fn turn_away(&mut self, _: Now, _: TurnAway<'_>, _: &mut Out) {}

    fn closed(&mut self, now: Now, reason: CloseReason, out: &mut Out) {
        if let ProtocolMachine::Http(reader) = &mut self.wire
            && reason == CloseReason::PeerClosed
            && let Some(answer) = reader.ended()
        {
            out.say(Said::Answer(Box::new(answer)));
        }
        // An end says nothing that the reason does not.
        let _: Told = drive!(self, out, |client, out| {
            client.closed(now, reason, out);
            Ok(())
        });
    }
}

/// Empties one outbox into another, its words translated.
fn carry<U>(from: &mut Outbox<U>, to: &mut Out, mut word: impl FnMut(U) -> Option<Said>) {
    from.drain_wire(|piece| match piece {
        Piece::Own(bytes) => to.bytes().extend_from_slice(bytes),
        Piece::Shared(frame) => to.share(frame),
    });
    from.words().filter_map(&mut word).for_each(|said| to.say(said));
    from.counts().for_each(|counter| to.count(counter));
    let (received, sent) = from.take_packets();
    to.packets(received, sent);
    (0..from.take_beats()).for_each(|_| to.beat());
    if let Some(at) = from.take_wake() {
        to.wake(at);
    }
    if let Some(ms) = from.take_silence() {
        to.silence(ms);
    }
    if let Some(hold) = from.take_hold() {
        to.hold(hold);
    }
    if from.take_tell_drained() {
        to.tell_drained();
    }
}

fn of_miop(word: Observation) -> Option<Said> {
    Some(match word {
        Observation::Bound { .. } => Said::Bound,
        Observation::Refused { code, retry_after_ms } => Said::Refused { code, retry_after_ms },
        Observation::Pong => Said::Pong,
        Observation::Message { body, .. } => Said::Message { topic: Box::default(), body },
        Observation::Taken { .. } => Said::Settled(0),
        Observation::NotTaken { code, .. } => Said::Settled(code.max(1)),
        Observation::Kicked { code } => Said::Kicked(code),
        Observation::GoAway { retry_after_ms, .. } => Said::GoAway(retry_after_ms),
        _ => return None,
    })
}

/// Status of what an MQTT client did not send: above all codes of the protocol.
const UNSENT: u32 = 0x100;

fn of_mqtt(event: MqttEvent, unwritten: &mut u32) -> Option<Said> {
    Some(match event {
        MqttEvent::Connected(_) => Said::Bound,
        MqttEvent::Refused(why) => {
            Said::Refused { code: u32::from(why.reason.number()), retry_after_ms: 0 }
        }
        MqttEvent::Message { message, .. } => {
            Said::Message { topic: message.topic().into(), body: message.payload().into() }
        }
        MqttEvent::Published { result, .. } => match result {
            // Of QoS 0: `drained` will say it.
            Ok(_) if *unwritten > 0 => return None,
            Ok(_) => Said::Settled(0),
            Err(why) => {
                *unwritten = unwritten.saturating_sub(1);
                Said::Settled(match why {
                    proto_mqtt::client::Unpublished::Refused(code) => u32::from(code.number()),
                    _ => UNSENT,
                })
            }
        },
        MqttEvent::Lost { .. } => Said::Settled(UNSENT),
        MqttEvent::Pong => Said::Pong,
        MqttEvent::Disconnected(why) => Said::Kicked(u32::from(why.reason.number())),
        _ => return None,
    })
}
