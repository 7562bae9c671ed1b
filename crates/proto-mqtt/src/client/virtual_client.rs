//! A client in the words of the laboratory.
//!
//! The client reports by `Observation` and is ordered by `Action`; its topics and subscriptions are
//! formulas of its profile, so it owns no text. Its messages upstream are numbered from 1 without
//! gaps. At QoS 0 the server sends no answer, and they count as taken when the socket has taken
//! them.

use super::send::Parts;
use super::{Client, EventTranslator, Heard, Profile, Unpublished};
use crate::codec::Qos;
use crate::codec::ack::Reasons;
use base::time::Now;
use model::close::CloseReason;
use model::link::Link;
use model::machine::{Input, Machine, Outbox, TurnAway};
use model::ports::virtual_client::{Action, DeliveryClaim, HEAD_BYTES, NOTE_BYTES, Observation};
use model::topic::Publication;
use std::sync::Arc;

type Out = Outbox<Observation>;

/// A simulated client.
pub struct VirtualClient {
    pub(super) client: Client,
    /// Number of the last message it sent.
    sent: u32,
    /// Of the last one of QoS 0 that the socket has not taken; 0: none.
    unwritten: u32,
}

const _: () = assert!(size_of::<VirtualClient>() <= 64, "an idle simulated client is 64 bytes");

impl VirtualClient {
    /// Client `number` of its profile. Its subscriptions are made when it has no session.
    pub fn new(profile: Arc<Profile>, number: u32) -> VirtualClient {
        VirtualClient { client: Client::new(profile, number), sent: 0, unwritten: 0 }
    }

    /// Whether the server has accepted it on this connection.
    pub fn is_bound(&self) -> bool {
        self.client.is_online()
    }

    /// Publishes to a topic that is not one of its profile's, with this QoS (0, 1 or 2; else the
    /// profile's) and retained or not. It counts among its messages upstream, and does nothing
    /// while the server has not accepted it.
    pub fn publish_to(
        &mut self,
        now: Now,
        topic: &str,
        (qos, retain): (u8, bool),
        body: &[u8],
        out: &mut Out,
    ) {
        if self.client.is_online() {
            let qos = Qos::of(qos).unwrap_or(self.client.profile.qos);
            self.publish(now, &parts(topic, qos, retain, body), out);
            self.client.sent_ms = now.mono.millis() as u32;
        }
    }

    fn publish(&mut self, now: Now, parts: &Parts<'_>, out: &mut Out) {
        self.sent += 1;
        let (seq, qos) = (self.sent, parts.qos);
        let fits = qos == Qos::AtMostOnce || self.client.has_room();
        let keeps = self.client.profile.keeps_session();
        let keep = || keeps.then(|| Arc::new(publication(parts)));
        let sent = match fits {
            true => self.client.send(now, seq, parts, keep, out),
            false => Err(Unpublished::QueueFull),
        };
        match sent {
            Err(why) => out.say(Observation::NotTaken { seq, code: code(why) }),
            Ok(()) if qos == Qos::AtMostOnce => {
                self.unwritten = seq;
                out.tell_drained();
            }
            Ok(()) => {}
        }
    }

    fn act(&mut self, now: Now, action: Action, out: &mut Out) -> Result<(), CloseReason> {
        if !self.client.is_online() {
            return Ok(());
        }
        let profile = self.client.profile.clone();
        let own = self.client.number;
        match action {
            Action::Ping => self.client.ping(out),
            Action::Report(body) => {
                if let Some(topic) = profile.topics.first() {
                    let (topic, qos) = (topic.of(own), profile.qos);
                    self.publish(now, &parts(&topic, qos, false, &body), out);
                }
            }
            Action::Publish { topic, number, qos, retain, body } => {
                if let Some(topic) = profile.topics.get(usize::from(topic)) {
                    let topic = topic.of(number.unwrap_or(own));
                    let qos = Qos::of(qos).unwrap_or(profile.qos);
                    self.publish(now, &parts(&topic, qos, retain, &body), out);
                }
            }
            Action::Subscribe(begin) => {
                return self.client.step(now, out, |client, out| client.want(begin, out));
            }
            Action::Pull(_) => {}
            Action::Unbind => {
                return self.client.step(now, out, |client, out| {
                    client.leave(crate::codec::ReasonCode::Success, &Default::default(), out)
                });
            }
        }
        self.client.sent_ms = now.mono.millis() as u32;
        Ok(())
    }
}

fn parts<'a>(topic: &'a str, qos: Qos, retain: bool, payload: &'a [u8]) -> Parts<'a> {
    Parts { qos, retain, topic, properties: &[], expire_at: 0, payload }
}

fn publication(parts: &Parts<'_>) -> Publication {
    let mut made = Publication::new(parts.topic, parts.properties, parts.payload);
    made.qos = parts.qos;
    made.retain = parts.retain;
    made
}

/// The protocol's code, where there is one; else a number above all of them.
fn code(why: Unpublished) -> u32 {
    match why {
        Unpublished::Refused(reason) => u32::from(reason.number()),
        Unpublished::QueueFull => 0x100,
        Unpublished::TooLarge => 0x101,
        Unpublished::QosNotServed => 0x102,
        Unpublished::RetainNotServed => 0x103,
        Unpublished::Expired => 0x104,
        Unpublished::Offline => 0x105,
    }
}

/// The answer to a subscription or to the end of one.
fn answered(reasons: Reasons<'_>, at_qos: [u16; 3]) -> Observation {
    let refused = reasons.iter().filter(|reason| reason.is_failure());
    let refused: Box<[u8]> = refused.map(|reason| reason.number()).collect();
    let granted = (reasons.len() - refused.len()) as u16;
    Observation::Subscribed { granted, at_qos, refused }
}

impl EventTranslator for Observation {
    fn of(_: Now, heard: Heard<'_>) -> Option<Observation> {
        Some(match heard {
            Heard::Connected { session_present, keep_alive_s, .. } => Observation::Bound {
                resumed: session_present,
                heartbeat_s: keep_alive_s,
                offline_count: 0,
            },
            Heard::Refused { code, .. } => {
                Observation::Refused { code: u32::from(code), retry_after_ms: 0 }
            }
            Heard::Message { topic, publish, .. } => {
                let mut head = [0; HEAD_BYTES];
                let (front, rest) = publish.payload.split_at(publish.payload.len().min(head.len()));
                head[..front.len()].copy_from_slice(front);
                let bytes = u32::try_from(publish.payload.len()).unwrap_or(u32::MAX);
                let mut note = [0; NOTE_BYTES];
                let shown = rest.len().min(NOTE_BYTES);
                note[..shown].copy_from_slice(&rest[..shown]);
                let claim = DeliveryClaim::Publish {
                    topic: crc32fast::hash(topic.as_bytes()),
                    qos: publish.qos as u8,
                    retain: publish.retain,
                    note,
                };
                let rest = crc32fast::hash(rest);
                Observation::Heard { bytes, head, rest, again: publish.dup, claim }
            }
            Heard::Published { token, result: Err(why), .. } => {
                Observation::NotTaken { seq: token, code: code(why) }
            }
            Heard::Published { token, up_to: None, .. } => Observation::TakenAlone { seq: token },
            Heard::Published { up_to: Some(seq), .. } => Observation::Taken { seq },
            Heard::Subscribed { reasons, .. } => {
                let at = |qos: u8| reasons.iter().filter(|reason| reason.number() == qos).count();
                answered(reasons, [0, 1, 2].map(|qos| at(qos) as u16))
            }
            Heard::Unsubscribed { reasons, .. } => answered(reasons, [0; 3]),
            Heard::Pong => Observation::Pong,
            Heard::Disconnected { reason, .. } => {
                Observation::Kicked { code: u32::from(reason.number()) }
            }
            Heard::Lost { .. }
            | Heard::Challenge { .. }
            | Heard::Authenticated { .. }
            | Heard::Relay(_) => return None,
        })
    }
}

impl Machine for VirtualClient {
    type Up = Observation;
    type Down = Action;

    fn opened(&mut self, now: Now, _: &Link, out: &mut Out) -> Result<(), CloseReason> {
        self.unwritten = 0;
        self.client.open(now, out)
    }

    fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        self.client.hear(now, input, out)
    }

    fn command(&mut self, now: Now, action: Action, out: &mut Out) -> Result<(), CloseReason> {
        self.act(now, action, out)
    }

    fn wake(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        self.client.wake_up(now, out)
    }

    /// Reports messages of QoS 0 that the socket has taken; those of another QoS are reported by
    /// their answers.
    fn drained(&mut self, _: Now, out: &mut Out) -> Result<(), CloseReason> {
        let seq = std::mem::take(&mut self.unwritten);
        match self.client.under_way() {
            _ if seq == 0 => {}
            0 => out.say(Observation::Taken { seq }),
            _ => out.say(Observation::Written { seq }),
        }
        Ok(())
    }

    fn silent(&mut self, _: Now, _: &mut Out) -> Result<(), CloseReason> {
        Err(CloseReason::KeepAliveTimeout)
    }

    fn turn_away(&mut self, _: Now, _: TurnAway<'_>, _: &mut Out) {}

    fn closed(&mut self, now: Now, _: CloseReason, out: &mut Out) {
        self.client.end(now, out);
    }
}
