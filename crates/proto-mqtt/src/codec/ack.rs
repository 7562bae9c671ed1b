//! Acknowledgement packets, by packet identifier (MQTT5 3.4 to 3.7, 3.9, 3.11).
//!
//! ```text
//!  | packet identifier 2 | [reason 1] | [properties]         PUBACK, PUBREC, PUBREL, PUBCOMP
//!  | packet identifier 2 | [properties] | reason 1 | ...     SUBACK, UNSUBACK
//! ```
//! The four around PUBLISH may leave out a reason of 0, and properties; the shortest form is the
//! one that is written. The two others have a reason for each filter, in the order of the filters.
//! Before 5.0 there is the identifier alone, but for the return codes of SUBACK.

use super::block::Properties;
use super::property::place;
use super::reader::FieldReader;
use super::subscribe::write_start;
use super::writer::{framed, framed_with_texts};
use super::{DecodeRules, PacketFault, PacketKind, ReasonCode, Terms, Unsent};

/// An acknowledgement. Which of the four it is stands in [`super::Packet`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack<'a> {
    /// The packet identifier of the PUBLISH (MQTT5 2.2.1-5, MQTT3 2.3.1-6).
    pub id: u16,
    /// How it went; always success before 5.0.
    pub reason: ReasonCode,
    /// Properties of 5.0.
    pub properties: Properties<'a>,
}

impl<'a> Ack<'a> {
    /// One that says success and nothing else.
    pub fn of(id: u16) -> Ack<'static> {
        Ack { id, reason: ReasonCode::Success, properties: Properties::default() }
    }

    /// Reads the body of one of the four.
    #[inline]
    pub(crate) fn read(
        kind: PacketKind,
        reader: &mut FieldReader<'a>,
        rules: &DecodeRules,
    ) -> Result<Ack<'a>, PacketFault> {
        let mut ack = Ack::of(reader.packet_id()?);
        if reader.is_empty() || !rules.version.has_properties() {
            return Ok(ack);
        }
        ack.reason = read_reason(kind, reader, rules)?;
        if !reader.is_empty() {
            ack.properties = Properties::read(reader, place::of(kind), rules.sender)?;
        }
        Ok(ack)
    }

    /// Appends it as a packet of this kind. Before 5.0 a failure cannot be said: what is written
    /// is the bare acknowledgement (MQTT3 3.3.5-2).
    pub fn write(&self, kind: PacketKind, terms: &Terms, out: &mut Vec<u8>) -> Result<(), Unsent> {
        let bare = self.reason == ReasonCode::Success && self.properties.is_empty();
        if bare || !terms.version.has_properties() {
            return framed(kind.first_byte(), terms, out, |out| {
                out.extend_from_slice(&self.id.to_be_bytes());
                Ok(())
            });
        }
        framed_with_texts(kind, self.properties, terms, out, |properties, out| {
            out.extend_from_slice(&self.id.to_be_bytes());
            write_reason(self.reason, properties, out);
            Ok(())
        })
    }
}

/// The answer to SUBSCRIBE or UNSUBSCRIBE. Which of the two it is stands in [`super::Packet`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Suback<'a> {
    /// The packet identifier of what is answered (MQTT5 2.2.1-6, MQTT3 2.3.1-7).
    pub id: u16,
    /// Properties of 5.0.
    pub properties: Properties<'a>,
    /// One for each filter, in the order of the filters.
    pub reasons: Reasons<'a>,
}

/// A list of reason codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reasons<'a>(&'a [u8]);

impl<'a> Reasons<'a> {
    /// Reasons by numbers of reason codes; other numbers are left out.
    pub fn over(numbers: &'a [u8]) -> Reasons<'a> {
        Reasons(numbers)
    }

    /// The codes, in order.
    pub fn iter(&self) -> impl Iterator<Item = ReasonCode> + use<'a> {
        self.0.iter().filter_map(|&number| ReasonCode::of(number))
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> Suback<'a> {
    /// Reads the body of one of the two.
    pub(crate) fn read(
        kind: PacketKind,
        reader: &mut FieldReader<'a>,
        rules: &DecodeRules,
    ) -> Result<Suback<'a>, PacketFault> {
        let id = reader.packet_id()?;
        let is_new = rules.version.has_properties();
        let mut properties = Properties::default();
        if is_new {
            properties = Properties::read(reader, place::of(kind), rules.sender)?;
        } else if kind == PacketKind::Unsuback {
            return Ok(Suback { id, properties, reasons: Reasons::default() });
        }
        let numbers = reader.take_rest();
        if numbers.is_empty() {
            return Err(PacketFault::NoReason);
        }
        let fits = |&number: &u8| {
            ReasonCode::of(number).is_some_and(|reason| match is_new {
                true => reason.fits(kind, rules.sender),
                false => reason.fits_old_suback(rules.version),
            })
        };
        if !numbers.iter().all(fits) {
            return Err(PacketFault::BadReason);
        }
        Ok(Suback { id, properties, reasons: Reasons(numbers) })
    }

    /// Appends it as a packet of this kind.
    pub fn write(&self, kind: PacketKind, terms: &Terms, out: &mut Vec<u8>) -> Result<(), Unsent> {
        let version = terms.version;
        let reasons = |out: &mut Vec<u8>| match kind {
            PacketKind::Unsuback if !version.has_properties() => {}
            PacketKind::Unsuback => out.extend(self.reasons.iter().map(ReasonCode::number)),
            _ => out.extend(self.reasons.iter().map(|reason| reason.in_suback(version))),
        };
        if !version.has_properties() {
            return framed(kind.first_byte(), terms, out, |out| {
                write_start(self.id, Properties::default(), version, out);
                reasons(out);
                Ok(())
            });
        }
        framed_with_texts(kind, self.properties, terms, out, |properties, out| {
            write_start(self.id, properties, version, out);
            reasons(out);
            Ok(())
        })
    }
}

/// A reason code that this packet may carry (MQTT5 2.4).
pub(crate) fn read_reason(
    kind: PacketKind,
    reader: &mut FieldReader<'_>,
    rules: &DecodeRules,
) -> Result<ReasonCode, PacketFault> {
    let reason = ReasonCode::of(reader.u8()?).ok_or(PacketFault::BadReason)?;
    if reason.fits(kind, rules.sender) { Ok(reason) } else { Err(PacketFault::BadReason) }
}

/// Reason and properties at the end of a packet, in the shortest form.
pub(crate) fn write_reason(reason: ReasonCode, properties: Properties<'_>, out: &mut Vec<u8>) {
    if reason == ReasonCode::Success && properties.is_empty() {
        return;
    }
    out.push(reason.number());
    if !properties.is_empty() {
        properties.write(out);
    }
}
