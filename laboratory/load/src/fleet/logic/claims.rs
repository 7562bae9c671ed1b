//! Properties of messages and sessions that a protocol claims, compared with the true ones: the
//! QoS, the topic, the flags of a PUBLISH, the sender of a chat message, the session that a server
//! keeps.
//!
//! This module knows no packet. A message whose body bears no note is not judged, nor is the QoS
//! where the subscriptions of this client were not granted as asked in this run.

use super::FleetLogic;
use super::hearing::Came;
use super::lately::Rank;
use crate::fleet::client::FleetProfile;
use crate::fleet::client::im::sender_sum;
use crate::fleet::stamp::{PublishNote, Sign};
use crate::fleet::virtual_client::Flags;
use model::ports::virtual_client::DeliveryClaim;
use proto_mqtt::client::Clean;
use proto_mqtt::codec::Version;

impl FleetLogic {
    /// Compares what the protocol said of a message with what its sender wrote into it.
    pub(super) fn look_at_claim(
        &mut self,
        virtual_client: u32,
        came: &Came<'_>,
        sign: &Sign,
        rank: Option<Rank>,
    ) {
        match came.claim {
            DeliveryClaim::Nothing => {}
            DeliveryClaim::Sender(sum) => {
                let other = self.sender_of(sign).is_some_and(|sender| sender != sum);
                self.pool.log.other_sender += u64::from(other);
            }
            DeliveryClaim::Publish { topic, qos, retain, note } => {
                let flags = self.pool.at(virtual_client).flags;
                // On a connection without an earlier session nothing was sent before (MQTT 4.4).
                // Of members of a shared subscription another one may have been sent it.
                let first = !flags.has(Flags::RESUMED) && !self.pool.plan.hearing.is_shared;
                let early = came.again && rank == Some(Rank::New) && first;
                self.pool.log.early_dup += u64::from(early);
                let Some(noted) = PublishNote::read(&note) else { return };
                let wanted = noted.qos.min(self.wanted_qos().unwrap_or(noted.qos));
                let is_other_qos = flags.has(Flags::GRANTED) && qos != wanted;
                let log = &mut self.pool.log;
                log.other_qos += u64::from(is_other_qos);
                log.other_topic += u64::from(topic != noted.topic);
                log.retained_live += u64::from(retain && !noted.retain);
            }
        }
    }

    /// CRC-32 of the account that a message of this group bears; `None`: another group sent it.
    fn sender_of(&self, sign: &Sign) -> Option<u32> {
        let account = match &self.pool.plan.profile {
            FleetProfile::Im(profile) => profile.account.of(sign.publisher),
            FleetProfile::Xmpp(profile) if profile.password.is_some() => {
                profile.user.of(sign.publisher)
            }
            _ => return None,
        };
        (sign.tag == self.pool.plan.tag).then(|| sender_sum(&account))
    }

    /// QoS that the clients ask for; `None`: they subscribe to nothing.
    fn wanted_qos(&self) -> Option<u8> {
        let FleetProfile::Mqtt(profile) = &self.pool.plan.profile else { return None };
        profile.wanted.first().map(|wanted| wanted.options.qos as u8)
    }

    /// Subscriptions were granted, so many at each QoS.
    pub(super) fn granted(&mut self, virtual_client: u32, at_qos: [u16; 3], all: bool) {
        let Some(wanted) = self.wanted_qos() else { return };
        let lowered: u16 = at_qos[..usize::from(wanted)].iter().sum();
        self.pool.log.lowered += u64::from(lowered);
        let flags = &mut self.pool.at(virtual_client).flags;
        match all && lowered == 0 {
            true => flags.set(Flags::GRANTED),
            false => _ = flags.take(Flags::GRANTED),
        }
    }

    /// A client is bound: counts a session that the server should have kept and has not.
    pub(super) fn look_at_session(&mut self, virtual_client: u32, resumed: bool) {
        let keeps = match &self.pool.plan.profile {
            // 3.1 does not say whether there is a session.
            FleetProfile::Mqtt(profile) => {
                profile.version != Version::V31
                    && profile.clean == Clean::Never
                    && profile.keeps_session()
            }
            _ => false,
        };
        let flags = &mut self.pool.at(virtual_client).flags;
        match resumed {
            true => flags.set(Flags::RESUMED),
            false => _ = flags.take(Flags::RESUMED),
        }
        let was_known = flags.has(Flags::KNOWN);
        flags.set(Flags::KNOWN);
        self.pool.log.lost_sessions += u64::from(keeps && was_known && !resumed);
    }
}
