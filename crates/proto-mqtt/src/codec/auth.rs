//! DISCONNECT and AUTH: a reason and properties (MQTT5 3.14, 3.15).
//!
//! Both may be left out together where the reason is 0. DISCONNECT may also leave out empty
//! properties behind another reason; AUTH may not, and names its method with every other reason.
//! Before 5.0 DISCONNECT is empty, comes from the client only, and AUTH does not exist.

use super::ack::{read_reason, write_reason};
use super::block::Properties;
use super::property::place;
use super::reader::FieldReader;
use super::writer::{framed, framed_with_texts};
use super::{DecodeRules, PacketFault, PacketKind, ReasonCode, Sender, Terms, Unsent};

/// A farewell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disconnect<'a> {
    /// Reason code of the packet.
    pub reason: ReasonCode,
    /// Properties of 5.0.
    pub properties: Properties<'a>,
}

impl<'a> Disconnect<'a> {
    /// One with a reason and nothing else.
    pub fn of(reason: ReasonCode) -> Disconnect<'static> {
        Disconnect { reason, properties: Properties::default() }
    }

    pub(crate) fn read(
        reader: &mut FieldReader<'a>,
        rules: &DecodeRules,
    ) -> Result<Disconnect<'a>, PacketFault> {
        let mut disconnect = Disconnect::of(ReasonCode::Success);
        if reader.is_empty() || !rules.version.has_properties() {
            return Ok(disconnect);
        }
        disconnect.reason = read_reason(PacketKind::Disconnect, reader, rules)?;
        if !reader.is_empty() {
            let at = place::of(PacketKind::Disconnect);
            disconnect.properties = Properties::read(reader, at, rules.sender)?;
        }
        Ok(disconnect)
    }

    /// Appends it. A server has no such packet before 5.0 (MQTT3 2.2.1), so it says who it is.
    pub fn write(&self, sender: Sender, terms: &Terms, out: &mut Vec<u8>) -> Result<(), Unsent> {
        let kind = PacketKind::Disconnect;
        if !kind.may_come_from(sender, terms.version) {
            return Err(Unsent::NotInVersion);
        }
        if !terms.version.has_properties() {
            return framed(kind.first_byte(), terms, out, |_| Ok(()));
        }
        framed_with_texts(kind, self.properties, terms, out, |properties, out| {
            write_reason(self.reason, properties, out);
            Ok(())
        })
    }
}

/// A step of an enhanced authentication (MQTT5 4.12).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Auth<'a> {
    /// Reason code, which says the step.
    pub reason: ReasonCode,
    /// The method, and what it says.
    pub properties: Properties<'a>,
}

impl<'a> Auth<'a> {
    pub(crate) fn read(
        reader: &mut FieldReader<'a>,
        rules: &DecodeRules,
    ) -> Result<Auth<'a>, PacketFault> {
        let properties = Properties::default();
        if reader.is_empty() {
            let success = ReasonCode::Success;
            let fits = success.fits(PacketKind::Auth, rules.sender);
            return if fits {
                Ok(Auth { reason: success, properties })
            } else {
                Err(PacketFault::BadReason)
            };
        }
        let reason = read_reason(PacketKind::Auth, reader, rules)?;
        let properties = Properties::read(reader, place::of(PacketKind::Auth), rules.sender)?;
        if properties.auth_method().is_none() {
            return Err(PacketFault::NoAuthMethod);
        }
        Ok(Auth { reason, properties })
    }

    /// Appends it.
    pub fn write(&self, terms: &Terms, out: &mut Vec<u8>) -> Result<(), Unsent> {
        if !terms.version.has_properties() {
            return Err(Unsent::NotInVersion);
        }
        framed_with_texts(PacketKind::Auth, self.properties, terms, out, |properties, out| {
            if self.reason != ReasonCode::Success || !properties.is_empty() {
                out.push(self.reason.number());
                properties.write(out);
            }
            Ok(())
        })
    }
}
