//! A block of properties, read or to be written (MQTT5 2.2.2).
//!
//! A block is checked when its packet is read and then kept as it came: [`Properties`] borrows it,
//! knows which identifiers are in it, and finds a value by walking. Most packets have none and pay
//! one byte. To be written, properties are put into a [`Block`] first.

use super::header::{varint_bytes, write_varint};
use super::property::{Property, VarInt};
use super::reader::FieldReader;
use super::writer::Unsent;
use super::{PacketFault, Sender};

/// A checked block of properties, as it came.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Properties<'a> {
    block: &'a [u8],
    /// One bit for each identifier that is in it.
    held: u64,
}

impl<'a> Properties<'a> {
    /// Reads length and block, and checks everything that does not depend on other fields.
    pub(crate) fn read(
        reader: &mut FieldReader<'a>,
        at: u16,
        sender: Sender,
    ) -> Result<Self, PacketFault> {
        let length = reader.varint()? as usize;
        if length == 0 {
            return Ok(Properties::default());
        }
        let block = reader.bytes(length)?;
        let part = reader.over(block);
        let after = std::mem::replace(reader, part);
        let mut held = 0u64;
        while !reader.is_empty() {
            let property = Property::read(reader)?;
            if property.places() & at == 0 {
                return Err(PacketFault::MisplacedProperty);
            }
            let bit = 1 << property.id();
            if held & bit != 0 && !property.may_repeat(at) {
                return Err(PacketFault::PropertyTwice);
            }
            held |= bit;
            property.check(at, sender)?;
        }
        reader.go_on(after);
        let properties = Properties { block, held };
        let lone_data = properties.has(AUTH_DATA) && !properties.has(AUTH_METHOD);
        if lone_data { Err(PacketFault::NoAuthMethod) } else { Ok(properties) }
    }

    /// Properties that a message brought and that go on unaltered to every receiver: a block that
    /// [`Properties::passed_on`] gave. They are not looked into.
    pub fn of_message(block: &'a [u8]) -> Properties<'a> {
        Properties { block, held: 0 }
    }

    /// Whether a property with this identifier is there.
    pub const fn has(&self, id: u8) -> bool {
        self.held & (1 << id) != 0
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// All of them, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = Property<'a>> + use<'a> {
        let mut reader = FieldReader::again(self.block);
        std::iter::from_fn(move || {
            if reader.is_empty() {
                return None;
            }
            Property::read(&mut reader).ok() // what was read once can be read again
        })
    }

    /// User properties, in order (MQTT5 3.3.2-18).
    pub fn user_properties(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.iter().filter_map(|property| match property {
            Property::UserProperty(pair) => Some(pair),
            _ => None,
        })
    }

    /// Subscription identifiers, in order.
    pub fn subscription_ids(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.iter().filter_map(|property| match property {
            Property::SubscriptionId(VarInt(id)) => Some(id),
            _ => None,
        })
    }

    /// Bytes that it takes in a packet, its length in front included.
    pub(crate) fn wire_bytes(&self) -> usize {
        varint_bytes(self.block.len() as u32) + self.block.len()
    }

    /// Appends length and block.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        write_varint(self.block.len() as u32, out);
        out.extend_from_slice(self.block);
    }

    /// The block without its length.
    pub(crate) fn block(&self) -> &'a [u8] {
        self.block
    }
}

impl std::fmt::Debug for Properties<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

const AUTH_METHOD: u8 = 0x15;
const AUTH_DATA: u8 = 0x16;
/// Identifier of the Reason String, which is left out of a packet that would be too large.
pub(crate) const REASON_STRING: u8 = 0x1f;
/// Identifier of User Property, likewise.
pub(crate) const USER_PROPERTY: u8 = 0x26;

/// Properties to be written, in the order in which they were put in.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Block {
    bytes: Vec<u8>,
    held: u64,
}

impl Block {
    /// Block of these properties. The writer answers for their being allowed in the packet.
    pub fn of(properties: &[Property<'_>]) -> Result<Block, Unsent> {
        let mut block = Block::default();
        properties.iter().try_for_each(|&property| block.push(property))?;
        Ok(block)
    }

    /// Adds one. Text and data above 65,535 bytes cannot be sent, and leave the block as it was.
    pub fn push(&mut self, property: Property<'_>) -> Result<(), Unsent> {
        let before = self.bytes.len();
        let written = property.write(&mut self.bytes);
        match written {
            Ok(()) => self.held |= 1 << property.id(),
            Err(_) => self.bytes.truncate(before),
        }
        written
    }

    /// As a packet takes them.
    pub fn properties(&self) -> Properties<'_> {
        Properties { block: &self.bytes, held: self.held }
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.properties().fmt(f)
    }
}
