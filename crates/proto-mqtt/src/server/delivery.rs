//! A message to the client (MQTT5 3.3, MQTT3 3.3): as quickly as can be.
//!
//! A message for one receiver is written into the lane. A message for several receivers of this
//! shard is encoded once for all of its shape: short frames are copied and their packet identifier
//! put in, of long ones the tail is shared behind a head of one's own, and the payload of large
//! ones is not copied at all. QoS 0 is dropped while too much waits for the socket, and a message
//! larger than the client takes is never begun.

use super::Out;
use super::state::{Bound, Marks};
use crate::codec::block::Properties;
use crate::codec::fanout::{Alias, FanoutMessage, ReceiverFields, Shape, id_at, patch};
use crate::codec::{Qos, Unsent, Version};
use base::time::Now;
use model::machine::SharedBytes;
use model::session::{AckStep, Drop, Outgoing, SessionRequest};
use model::topic::Publication;

/// Frames below this are copied: to share one costs more.
const SHARE_BYTES_MIN: usize = 1_024;
/// A payload of so many bytes is sent from where it lies: its frame is never made as a whole.
const LARGE_BYTES_MIN: usize = 64 * 1024;
/// Number of dropped messages that are reported at once, so that a client that never catches up is
/// noticed soon.
const DROPPED_MAX: u32 = 64;
/// Bit of the form under which a tail is kept, apart from the shapes of whole frames.
const TAIL: u8 = 8;

impl Bound {
    /// Sends a message, or says why not.
    pub(super) fn deliver(&mut self, now: Now, outgoing: &Outgoing, out: &mut Out) {
        let is_qos_0 = outgoing.qos == Qos::AtMostOnce;
        let (backlog, backlog_max) = (out.backlog(), out.backlog_max());
        if backlog > backlog_max / 2 || (outgoing.retain && is_qos_0) {
            out.tell_drained();
        }
        if is_qos_0 && backlog > backlog_max {
            self.more().dropped += 1;
            if self.more().dropped >= DROPPED_MAX {
                self.tell_dropped(out);
            }
            return;
        }
        self.tell_dropped(out);
        let session = self.session;
        match self.send(now, outgoing, out) {
            Ok(()) => out.packets(0, 1),
            Err(_) if is_qos_0 => {
                let (count, why) = (1, Drop::TooLarge);
                out.say(SessionRequest::Dropped { session, count, why });
            }
            Err(_) => {
                let (id, step) = (outgoing.id, AckStep::Unsendable);
                out.say(SessionRequest::Acked { session, id, step });
            }
        }
    }

    fn send(&mut self, now: Now, outgoing: &Outgoing, out: &mut Out) -> Result<(), Unsent> {
        let (terms, content) = (self.terms(), &*outgoing.message);
        let version = terms.version;
        let has_properties = version.has_properties();
        let shape = Shape { version, qos: outgoing.qos, retain: outgoing.retain };
        let is_aliased = self.more.as_ref().is_some_and(|more| more.aliases_out.are_used());
        let subscription_ids = outgoing.subscription_ids.as_deref().filter(|_| has_properties);
        let is_alike = outgoing.shared && content.id != 0;
        let is_long = content.payload().len() >= SHARE_BYTES_MIN;
        // What a message has left to live changes with the second.
        let expires = has_properties && content.expire_at != 0;
        let second = if expires { (now.unix_s() as u8) << 6 } else { 0 };
        if is_alike && !is_long && !is_aliased && subscription_ids.is_none() {
            let key = (content.id, shape.number() | second);
            let encode = |bytes: &mut Vec<u8>| {
                let message = message(now, version, content);
                message.frame(shape, bytes).expect("its topic came in a packet");
            };
            let make_own = |frame: &mut [u8]| {
                if shape.qos != Qos::AtMostOnce {
                    patch(frame, id_at(frame), outgoing.id, outgoing.again);
                }
            };
            let is_sent = out.copy_encoded(key, terms.packet_bytes_max as usize, encode, make_own);
            return if is_sent { Ok(()) } else { Err(Unsent::TooLarge) };
        }
        let message = message(now, version, content);
        let aliases = self.more.as_ref().map(|more| &more.aliases_out);
        let alias = aliases.map_or(Alias::None, |aliases| aliases.look_up(message.topic));
        let subscription_ids = subscription_ids.unwrap_or_default();
        let own = ReceiverFields { id: outgoing.id, dup: outgoing.again, alias, subscription_ids };
        if content.payload().len() >= LARGE_BYTES_MIN {
            message.head(shape, &own, message.measure(version), &terms, out.bytes())?;
            message.properties_of_tail(version, out.bytes());
            out.share(SharedBytes::Payload(outgoing.message.clone()));
        } else if is_alike && is_long {
            let form = TAIL | version.level() | second;
            message.head(shape, &own, message.measure(version), &terms, out.bytes())?;
            out.share_encoded(content.id, form, |bytes| {
                message.tail(version, bytes);
            });
        } else {
            message.write(shape, &own, &terms, out.bytes())?;
        }
        if alias != Alias::None {
            self.more().aliases_out.sent(alias, message.topic);
        }
        Ok(())
    }

    /// Tells of messages that were dropped because too much waited for the socket.
    pub(super) fn tell_dropped(&mut self, out: &mut Out) {
        let Some(more) = self.more.as_mut().filter(|more| more.dropped > 0) else { return };
        let (session, count) = (self.session, std::mem::take(&mut more.dropped));
        let why = Drop::SlowReader;
        out.say(SessionRequest::Dropped { session, count, why });
    }

    /// All that was queued has been written.
    pub(super) fn drained(&mut self, out: &mut Out) {
        self.tell_dropped(out);
        out.say(SessionRequest::Ready { session: self.session });
    }

    /// Whether nothing is read from the client for now.
    pub(super) fn is_held(&self) -> bool {
        self.marks.has(Marks::HELD)
    }
}

/// A publication as the codec takes it.
fn message(now: Now, version: Version, content: &Publication) -> FanoutMessage<'_> {
    let expires = version.has_properties() && content.expire_at != 0;
    FanoutMessage {
        topic: content.topic(),
        properties: Properties::of_message(content.properties()),
        expiry_s: expires.then(|| content.expire_at.saturating_sub(now.unix_s())),
        payload: content.payload(),
    }
}
