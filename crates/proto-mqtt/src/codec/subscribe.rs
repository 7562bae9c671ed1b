//! SUBSCRIBE and UNSUBSCRIBE: lists of topic filters (MQTT5 3.8, 3.10; MQTT3 3.8, 3.10).
//!
//! ```text
//!  | packet identifier 2 | [properties] | filter | options 1 | filter | options 1 | ...
//!                                       | filter | filter | ...        (UNSUBSCRIBE)
//! ```
//! The list is checked once, when its packet is read, and kept as it came; its entries are found
//! by walking. To be written, a list is put into a `Vec` with [`push_subscription`] or
//! [`push_filter`].

use super::block::Properties;
use super::name::{check_filter, split_share};
use super::property::place;
use super::reader::FieldReader;
use super::writer::{framed, write_binary};
use super::{DecodeRules, PacketFault, PacketKind, Qos, Terms, Unsent, Version};

/// When retained messages are sent for a subscription (MQTT5 3.8.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum RetainHandling {
    /// Whenever it is made or made again, as before 5.0.
    #[default]
    Always = 0,
    /// When it did not exist.
    WhenNew = 1,
    /// Never.
    Never = 2,
}

/// Subscription Options of a filter in SUBSCRIBE (MQTT5 3.8.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SubscribeOptions {
    /// Highest QoS.
    pub qos: Qos,
    /// Leave out what this client published itself.
    pub no_local: bool,
    /// Leave RETAIN as it was published.
    pub retain_as_published: bool,
    /// When retained messages are sent.
    pub retain_handling: RetainHandling,
}

/// Bits of the options byte.
const NO_LOCAL: u8 = 0x04;
const RETAIN_AS_PUBLISHED: u8 = 0x08;
const RESERVED: u8 = 0xc0;
/// Bits of the QoS: before 5.0 there are no other options.
const QOS: u8 = 0x03;

impl SubscribeOptions {
    /// With this QoS and nothing else.
    pub fn of(qos: Qos) -> SubscribeOptions {
        SubscribeOptions { qos, ..SubscribeOptions::default() }
    }

    /// The byte on the wire of 5.0; before, only its QoS is written.
    pub fn byte(self) -> u8 {
        let mut byte = self.qos as u8 | (self.retain_handling as u8) << 4;
        byte |= if self.no_local { NO_LOCAL } else { 0 };
        byte | if self.retain_as_published { RETAIN_AS_PUBLISHED } else { 0 }
    }

    fn read(byte: u8) -> Result<SubscribeOptions, PacketFault> {
        let retain_handling = match byte >> 4 & 3 {
            0 => RetainHandling::Always,
            1 => RetainHandling::WhenNew,
            2 => RetainHandling::Never,
            _ => return Err(PacketFault::RetainHandling3),
        };
        Ok(SubscribeOptions {
            qos: Qos::of(byte & QOS).ok_or(PacketFault::SubscribeQos3)?,
            no_local: byte & NO_LOCAL != 0,
            retain_as_published: byte & RETAIN_AS_PUBLISHED != 0,
            retain_handling,
        })
    }
}

/// A list of filters with options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscriptions<'a> {
    bytes: &'a [u8],
    /// Bits of the options bytes that mean something in this version.
    mask: u8,
}

impl<'a> Subscriptions<'a> {
    /// Subscriptions of a list that [`push_subscription`] made.
    pub fn over(bytes: &'a [u8]) -> Subscriptions<'a> {
        Subscriptions { bytes, mask: !RESERVED }
    }

    /// Filters and options, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, SubscribeOptions)> + use<'a> {
        let (mut reader, mask) = (FieldReader::again(self.bytes), self.mask);
        std::iter::from_fn(move || {
            let filter = reader.text().ok()?; // ends with the list: it was read before
            let options = SubscribeOptions::read(reader.u8().ok()? & mask).ok()?;
            Some((filter, options))
        })
    }
}

/// Adds a subscription to a list.
pub fn push_subscription(
    filter: &str,
    options: SubscribeOptions,
    list: &mut Vec<u8>,
) -> Result<(), Unsent> {
    write_binary(filter.as_bytes(), list)?;
    list.push(options.byte());
    Ok(())
}

/// A list of filters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filters<'a>(&'a [u8]);

impl<'a> Filters<'a> {
    /// Filters of a list that [`push_filter`] made.
    pub fn over(bytes: &'a [u8]) -> Filters<'a> {
        Filters(bytes)
    }

    /// The filters, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut reader = FieldReader::again(self.0);
        std::iter::from_fn(move || reader.text().ok())
    }
}

/// Adds a filter to a list.
pub fn push_filter(filter: &str, list: &mut Vec<u8>) -> Result<(), Unsent> {
    write_binary(filter.as_bytes(), list)
}

/// A wish for messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscribe<'a> {
    /// The packet identifier that the SUBACK repeats.
    pub id: u16,
    /// Properties of 5.0.
    pub properties: Properties<'a>,
    /// The subscriptions; at least one.
    pub subscriptions: Subscriptions<'a>,
}

impl<'a> Subscribe<'a> {
    pub(crate) fn read(
        reader: &mut FieldReader<'a>,
        rules: &DecodeRules,
    ) -> Result<Subscribe<'a>, PacketFault> {
        let (id, properties) = read_start(PacketKind::Subscribe, reader, rules)?;
        let bytes = reader.rest();
        if bytes.is_empty() {
            return Err(PacketFault::NoSubscription);
        }
        let mask = if rules.version.has_properties() { !RESERVED } else { QOS };
        while !reader.is_empty() {
            let filter = reader.text()?;
            check_filter(filter, rules)?;
            let byte = reader.u8()?;
            // 3.1 calls the upper bits unused (MQTT31 3.8).
            if byte & !mask != 0 && rules.version != Version::V31 {
                reader.fault(PacketFault::SubscribeBits)?;
            }
            let options = SubscribeOptions::read(byte & mask)?;
            if options.no_local && matches!(split_share(filter), Ok(Some(_))) {
                return Err(PacketFault::NoLocalShared);
            }
        }
        Ok(Subscribe { id, properties, subscriptions: Subscriptions { bytes, mask } })
    }

    /// Appends it.
    pub fn write(&self, terms: &Terms, out: &mut Vec<u8>) -> Result<(), Unsent> {
        let mask = if terms.version.has_properties() { !RESERVED } else { QOS };
        framed(PacketKind::Subscribe.first_byte(), terms, out, |out| {
            write_start(self.id, self.properties, terms.version, out);
            self.subscriptions.iter().try_for_each(|(filter, options)| {
                write_binary(filter.as_bytes(), out)?;
                out.push(options.byte() & mask);
                Ok(())
            })
        })
    }
}

/// A wish for no more messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unsubscribe<'a> {
    /// The packet identifier that the UNSUBACK repeats.
    pub id: u16,
    /// Properties of 5.0.
    pub properties: Properties<'a>,
    /// The filters of the subscriptions; at least one.
    pub filters: Filters<'a>,
}

impl<'a> Unsubscribe<'a> {
    pub(crate) fn read(
        reader: &mut FieldReader<'a>,
        rules: &DecodeRules,
    ) -> Result<Unsubscribe<'a>, PacketFault> {
        let (id, properties) = read_start(PacketKind::Unsubscribe, reader, rules)?;
        let bytes = reader.rest();
        if bytes.is_empty() {
            return Err(PacketFault::NoUnsubscription);
        }
        while !reader.is_empty() {
            check_filter(reader.text()?, rules)?;
        }
        Ok(Unsubscribe { id, properties, filters: Filters(bytes) })
    }

    /// Appends it.
    pub fn write(&self, terms: &Terms, out: &mut Vec<u8>) -> Result<(), Unsent> {
        framed(PacketKind::Unsubscribe.first_byte(), terms, out, |out| {
            write_start(self.id, self.properties, terms.version, out);
            out.extend_from_slice(self.filters.0);
            Ok(())
        })
    }
}

/// Packet identifier and properties, with which both begin.
fn read_start<'a>(
    kind: PacketKind,
    reader: &mut FieldReader<'a>,
    rules: &DecodeRules,
) -> Result<(u16, Properties<'a>), PacketFault> {
    let id = reader.packet_id()?;
    if !rules.version.has_properties() {
        return Ok((id, Properties::default()));
    }
    Ok((id, Properties::read(reader, place::of(kind), rules.sender)?))
}

/// Writes the packet identifier and the properties.
pub(crate) fn write_start(
    id: u16,
    properties: Properties<'_>,
    version: Version,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(&id.to_be_bytes());
    if version.has_properties() {
        properties.write(out);
    }
}
