//! CONNECT: who comes, in which version, and on which terms (MQTT5 3.1, MQTT3 3.1, MQTT31 3.1).
//!
//! ```text
//!  | name | level | flags | keep alive 2 | [properties] |
//!  | client identifier | [will properties] | [will topic | will payload] | [user] | [password] |
//! ```
//! It brings its own version, so flags and length of its fixed header are judged here. Version 3.1
//! lets flags for user name and password stand where the packet ends before them, and limits the
//! client identifier to 23 bytes; 3.1.1 wants a user name with a password, and an identifier with a
//! session that is kept.

use super::block::Properties;
use super::header::FixedHeader;
use super::name::check_name;
use super::property::{absent, place};
use super::reader::FieldReader;
use super::writer::{framed, write_binary};
use super::{
    CLIENT_ID_BYTES_V31, DecodeRules, PACKET_BYTES_MAX, PacketFault, PacketKind, Qos, Sender,
    Terms, Unsent, Version,
};

/// A wish to connect.
#[derive(Clone, PartialEq, Eq)]
pub struct Connect<'a> {
    /// The version it wants to speak.
    pub version: Version,
    /// Whether the level had the bit `0x80` set, by which some bridges mark themselves.
    pub is_bridge: bool,
    /// Clean Start of 5.0, Clean Session before.
    pub clean_start: bool,
    /// Longest silence, seconds; 0: none is agreed.
    pub keep_alive_s: u16,
    /// Properties of 5.0.
    pub properties: Properties<'a>,
    /// The client identifier; empty: the server chooses one.
    pub client_id: &'a str,
    /// The will, which is published if the connection ends without farewell.
    pub will: Option<WillFields<'a>>,
    /// The user name.
    pub user_name: Option<&'a str>,
    /// The password.
    pub password: Option<&'a [u8]>,
}

/// A message for the time after (MQTT5 3.1.2.5).
#[derive(Clone, PartialEq, Eq)]
pub struct WillFields<'a> {
    /// Its QoS.
    pub qos: Qos,
    /// Whether it is retained.
    pub retain: bool,
    /// Properties of 5.0.
    pub properties: Properties<'a>,
    /// Topic of the will.
    pub topic: &'a str,
    /// Payload of the will.
    pub payload: &'a [u8],
}

/// Bits of the connect flags (MQTT5 3.1.2.3).
mod flag {
    pub const RESERVED: u8 = 0x01;
    pub const CLEAN: u8 = 0x02;
    pub const WILL: u8 = 0x04;
    pub const WILL_QOS: u8 = 0x18;
    pub const WILL_RETAIN: u8 = 0x20;
    pub const PASSWORD: u8 = 0x40;
    pub const USER: u8 = 0x80;
}

/// The bit of the protocol level by which bridges mark themselves.
const BRIDGE: u8 = 0x80;

impl<'a> Connect<'a> {
    /// One with these and nothing else.
    pub fn of(version: Version, client_id: &'a str) -> Connect<'a> {
        Connect {
            version,
            is_bridge: false,
            clean_start: true,
            keep_alive_s: 0,
            properties: Properties::default(),
            client_id,
            will: None,
            user_name: None,
            password: None,
        }
    }

    /// The client's limits that packets to it must keep.
    pub fn terms(&self) -> Terms {
        let (size, problem) =
            (self.properties.maximum_packet_size(), self.properties.request_problem());
        Terms {
            version: self.version,
            packet_bytes_max: size.unwrap_or(PACKET_BYTES_MAX).min(PACKET_BYTES_MAX),
            problems: problem.unwrap_or(absent::REQUEST_PROBLEM) == 1,
        }
    }

    /// Reads the body. `rules.version` is not looked at.
    pub(crate) fn read(
        header: &FixedHeader,
        reader: &mut FieldReader<'a>,
        rules: &DecodeRules,
    ) -> Result<Connect<'a>, PacketFault> {
        let (version, is_bridge) = read_version(reader)?;
        let rules = &DecodeRules { version, ..*rules };
        reader.faults(header.faults(version))?;
        let flags = reader.u8()?;
        check_flags(flags, version, reader)?;
        let keep_alive_s = reader.u16()?;
        let properties = match version {
            Version::V5 => {
                Properties::read(reader, place::of(PacketKind::Connect), Sender::Client)?
            }
            Version::V31 | Version::V311 => Properties::default(),
        };
        let client_id = reader.own_text()?;
        let clean_start = flags & flag::CLEAN != 0;
        check_client_id(client_id, clean_start, reader, rules)?;
        let will = match flags & flag::WILL != 0 {
            true => Some(WillFields::read(flags, reader, rules)?),
            false => None,
        };
        let is_there = |bit, reader: &FieldReader<'_>| {
            flags & bit != 0 && !(version == Version::V31 && reader.is_empty())
        };
        let has_user = is_there(flag::USER, reader);
        let user_name = has_user.then(|| reader.own_text()).transpose()?;
        let has_password = is_there(flag::PASSWORD, reader);
        let password = has_password.then(|| reader.binary()).transpose()?;
        Ok(Connect {
            version,
            is_bridge,
            clean_start,
            keep_alive_s,
            properties,
            client_id,
            will,
            user_name,
            password,
        })
    }

    /// Appends it, in its own version; of `terms` only the size counts.
    pub fn write(&self, terms: &Terms, out: &mut Vec<u8>) -> Result<(), Unsent> {
        if self.password.is_some() && self.user_name.is_none() && self.version != Version::V5 {
            return Err(Unsent::NotInVersion);
        }
        framed(PacketKind::Connect.first_byte(), terms, out, |out| {
            write_binary(self.version.protocol_name().as_bytes(), out)?;
            out.push(self.version.level() | if self.is_bridge { BRIDGE } else { 0 });
            out.push(self.flags());
            out.extend_from_slice(&self.keep_alive_s.to_be_bytes());
            if self.version.has_properties() {
                self.properties.write(out);
            }
            write_binary(self.client_id.as_bytes(), out)?;
            if let Some(will) = &self.will {
                will.write(self.version, out)?;
            }
            self.user_name.map_or(Ok(()), |user| write_binary(user.as_bytes(), out))?;
            self.password.map_or(Ok(()), |password| write_binary(password, out))
        })
    }

    fn flags(&self) -> u8 {
        let mut flags = if self.clean_start { flag::CLEAN } else { 0 };
        if let Some(will) = &self.will {
            flags |= flag::WILL | (will.qos as u8) << 3;
            flags |= if will.retain { flag::WILL_RETAIN } else { 0 };
        }
        flags |= if self.user_name.is_some() { flag::USER } else { 0 };
        flags | if self.password.is_some() { flag::PASSWORD } else { 0 }
    }
}

impl<'a> WillFields<'a> {
    fn read(
        flags: u8,
        reader: &mut FieldReader<'a>,
        rules: &DecodeRules,
    ) -> Result<WillFields<'a>, PacketFault> {
        let qos = Qos::of((flags & flag::WILL_QOS) >> 3).ok_or(PacketFault::WillQos3)?;
        let properties = match rules.version {
            Version::V5 => Properties::read(reader, place::WILL, Sender::Client)?,
            Version::V31 | Version::V311 => Properties::default(),
        };
        let topic = reader.text()?;
        check_name(topic, rules)?;
        let payload = reader.binary()?;
        Ok(WillFields { qos, retain: flags & flag::WILL_RETAIN != 0, properties, topic, payload })
    }

    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Unsent> {
        if version.has_properties() {
            self.properties.write(out);
        }
        write_binary(self.topic.as_bytes(), out)?;
        write_binary(self.payload, out)
    }
}

/// Protocol name and level (MQTT5 3.1.2-1, 3.1.2-2; MQTT3 3.1.2-1, 3.1.2-2).
fn read_version(reader: &mut FieldReader<'_>) -> Result<(Version, bool), PacketFault> {
    let name = reader.binary()?;
    let is_known = Version::ALL.iter().any(|version| version.protocol_name().as_bytes() == name);
    if !is_known {
        return Err(PacketFault::ProtocolName);
    }
    let level = reader.u8()?;
    let (plain, is_bridge) = (level & !BRIDGE, level & BRIDGE != 0);
    let fits =
        |version: &&Version| version.level() == plain && version.protocol_name().as_bytes() == name;
    let version = *Version::ALL.iter().find(fits).ok_or(PacketFault::ProtocolLevel)?;
    if is_bridge {
        // No bridge of 5.0 has ever marked itself so.
        let fault = if version == Version::V5 {
            PacketFault::ProtocolLevel
        } else {
            PacketFault::BridgeBit
        };
        reader.fault(fault)?;
    }
    Ok((version, is_bridge))
}

/// The connect flags, as far as they depend on nothing else (MQTT5 3.1.2-3, 3.1.2-11 to 3.1.2-13;
/// MQTT3 3.1.2-3, 3.1.2-11, 3.1.2-13 to 3.1.2-15, 3.1.2-22). 3.1 calls the reserved one unused, and
/// disregards those of a will that is not there.
fn check_flags(
    flags: u8,
    version: Version,
    reader: &mut FieldReader<'_>,
) -> Result<(), PacketFault> {
    if flags & flag::RESERVED != 0 && version != Version::V31 {
        reader.fault(PacketFault::ConnectFlag)?;
    }
    let is_idle = flags & flag::WILL == 0 && flags & (flag::WILL_QOS | flag::WILL_RETAIN) != 0;
    if is_idle && version != Version::V31 {
        reader.fault(PacketFault::WillFlags)?;
    }
    let is_alone = flags & (flag::USER | flag::PASSWORD) == flag::PASSWORD;
    if is_alone && version != Version::V5 {
        reader.fault(PacketFault::PasswordAlone)?;
    }
    Ok(())
}

/// The client identifier (MQTT31 3.1, MQTT3 3.1.3-8, MQTT5 3.1.3-6).
fn check_client_id(
    id: &str,
    clean: bool,
    reader: &mut FieldReader<'_>,
    rules: &DecodeRules,
) -> Result<(), PacketFault> {
    if id.len() > usize::from(rules.client_id_bytes_max) {
        return Err(PacketFault::ClientIdLimit);
    }
    match rules.version {
        Version::V31 if id.is_empty() => reader.fault(PacketFault::ClientIdEmpty),
        Version::V31 if id.len() > CLIENT_ID_BYTES_V31 => reader.fault(PacketFault::ClientIdLong),
        Version::V311 if id.is_empty() && !clean => reader.fault(PacketFault::ClientIdEmpty),
        _ => Ok(()),
    }
}

impl std::fmt::Debug for Connect<'_> {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connect")
            .field("version", &self.version)
            .field("client_id", &self.client_id)
            .field("clean_start", &self.clean_start)
            .field("keep_alive_s", &self.keep_alive_s)
            .field("properties", &self.properties)
            .field("will", &self.will)
            .field("user_name", &self.user_name)
            .field("has_password", &self.password.is_some())
            .finish()
    }
}

impl std::fmt::Debug for WillFields<'_> {
    /// Without the payload.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Will")
            .field("topic", &self.topic)
            .field("qos", &self.qos)
            .field("retain", &self.retain)
            .field("payload_bytes", &self.payload.len())
            .finish()
    }
}
