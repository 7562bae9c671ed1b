//! CONNACK: the server's answer to CONNECT (MQTT5 3.2, MQTT3 3.2).
//!
//! ```text
//!  | 0000000 session present | reason 1 | [properties] |
//! ```
//! Before 5.0 the reason is one of six return codes, read as the reason code that means the same.
//! 3.1 has no Session Present.

use super::ack::read_reason;
use super::block::Properties;
use super::property::place;
use super::reader::FieldReader;
use super::writer::{framed, framed_with_texts};
use super::{DecodeRules, PacketFault, PacketKind, ReasonCode, Terms, Unsent, Version};

/// CONNACK: whether a connection was accepted, and on which terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connack<'a> {
    /// Whether the server goes on with a session it had.
    pub session_present: bool,
    /// Success, or why not.
    pub reason: ReasonCode,
    /// Properties of 5.0.
    pub properties: Properties<'a>,
}

impl<'a> Connack<'a> {
    pub(crate) fn read(
        reader: &mut FieldReader<'a>,
        rules: &DecodeRules,
    ) -> Result<Connack<'a>, PacketFault> {
        let flags = reader.u8()?;
        let unused = rules.version == Version::V31;
        if flags > 1 && !unused {
            return Err(PacketFault::ConnackFlags);
        }
        let session_present = flags == 1 && !unused;
        let (reason, properties) = if rules.version.has_properties() {
            let reason = read_reason(PacketKind::Connack, reader, rules)?;
            (reason, Properties::read(reader, place::of(PacketKind::Connack), rules.sender)?)
        } else {
            let reason = ReasonCode::of_return_code(reader.u8()?).ok_or(PacketFault::BadReason)?;
            (reason, Properties::default())
        };
        if session_present && reason != ReasonCode::Success {
            return Err(PacketFault::SessionRefused);
        }
        Ok(Connack { session_present, reason, properties })
    }

    /// Appends it. A refusal never says that a session is present (MQTT5 3.2.2-6, MQTT3 3.2.2-4).
    pub fn write(&self, terms: &Terms, out: &mut Vec<u8>) -> Result<(), Unsent> {
        let kind = PacketKind::Connack;
        let present = self.session_present && self.reason == ReasonCode::Success;
        if terms.version.has_properties() {
            return framed_with_texts(kind, self.properties, terms, out, |properties, out| {
                out.extend_from_slice(&[u8::from(present), self.reason.number()]);
                properties.write(out);
                Ok(())
            });
        }
        let code = self.reason.return_code().ok_or(Unsent::NotInVersion)?;
        let present = present && terms.version == Version::V311;
        framed(kind.first_byte(), terms, out, |out| {
            out.extend_from_slice(&[u8::from(present), code]);
            Ok(())
        })
    }
}
