//! Faults of bytes that a peer sent, and how each is answered: the only list.
//!
//! A fault has a name for vectors, counters and logs, the clause of each standard that it breaks,
//! and one row that decides its answer: the reason code for a 5.0 peer, the CONNACK return code for
//! an older one if its CONNECT has the fault (0: none, the connection just ends, MQTT3 3.1.4-1),
//! and the close reason. A fault that a lenient profile lets pass is the same fault, reported in a
//! [`FaultSet`] instead of ending the connection.

use super::header::peek_version;
use super::{PacketKind, ReasonCode, Version};
use model::close::CloseReason;

macro_rules! faults {
    ($($variant:ident $name:literal $v5:literal $v3:literal $code:ident $connack:literal
       $reason:ident $meaning:literal;)+) => {
        /// Why bytes were not taken.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum PacketFault { $(#[doc = $meaning] $variant,)+ }

        impl PacketFault {
            /// All faults.
            pub const ALL: &'static [PacketFault] = &[$(PacketFault::$variant,)+];

            /// The name in vectors, counters and logs.
            pub const fn name(self) -> &'static str {
                match self { $(PacketFault::$variant => $name,)+ }
            }

            /// Meaning of the fault, for people and for Reason Strings.
            pub const fn meaning(self) -> &'static str {
                match self { $(PacketFault::$variant => $meaning,)+ }
            }

            /// The clause it breaks; the text is empty where a version has no such rule.
            pub const fn clause(self, version: Version) -> &'static str {
                let (v5, v3) = match self { $(PacketFault::$variant => ($v5, $v3),)+ };
                if version.has_properties() { v5 } else { v3 }
            }

            /// Reason code that a 5.0 peer gets for the fault.
            pub const fn code(self) -> ReasonCode {
                match self { $(PacketFault::$variant => ReasonCode::$code,)+ }
            }

            /// Return code of the CONNACK for an older CONNECT with this fault; 0: no CONNACK.
            const fn return_code(self) -> u8 {
                match self { $(PacketFault::$variant => $connack,)+ }
            }

            /// How the connection ends.
            pub const fn close_reason(self) -> CloseReason {
                match self { $(PacketFault::$variant => CloseReason::$reason,)+ }
            }
        }
    };
}

faults! {
    ReservedType "reserved_type" "MQTT5 2.1.2" "MQTT3 2.2.1"
        MalformedPacket 0 UnknownOpcode "A packet type that this version does not have.";
    HeaderFlags "header_flags" "MQTT5 2.1.3-1" "MQTT3 2.2.2-2"
        MalformedPacket 0 Malformed "Reserved flags of the fixed header are not as listed.";
    LengthTooLong "length_too_long" "MQTT5 1.5.5" "MQTT3 2.2.3"
        MalformedPacket 0 Malformed "A variable byte integer of more than four bytes.";
    LengthNotShortest "length_not_shortest" "MQTT5 1.5.5-1" ""
        MalformedPacket 0 Malformed "A variable byte integer with needless bytes.";
    TooLarge "too_large" "MQTT5 3.2.2-15" "MQTT3 2.2.3"
        PacketTooLarge 0 TooLarge "The packet is larger than allowed.";
    WrongDirection "wrong_direction" "MQTT5 2.1.2" "MQTT3 2.2.1"
        ProtocolError 0 OutOfOrder "The other end sends such packets.";
    NotConnect "not_connect" "MQTT5 3.1.0-1" "MQTT3 3.1.0-1"
        ProtocolError 0 OutOfOrder "The first packet is not a CONNECT.";
    SecondConnect "second_connect" "MQTT5 3.1.0-2" "MQTT3 3.1.0-2"
        ProtocolError 0 OutOfOrder "A second CONNECT.";
    Cut "cut" "MQTT5 4.13.1-1" "MQTT3 4.8.0-1"
        MalformedPacket 0 Malformed "A field runs past the end of its packet.";
    Trailing "trailing" "MQTT5 4.13.1-1" "MQTT3 4.8.0-1"
        MalformedPacket 0 Malformed "Bytes after the last field.";
    BadUtf8 "bad_utf8" "MQTT5 1.5.4-1" "MQTT3 1.5.3-1"
        MalformedPacket 0 Malformed "Text that is not UTF-8.";
    Nul "nul" "MQTT5 1.5.4-2" "MQTT3 1.5.3-2"
        MalformedPacket 0 Malformed "U+0000 in text.";
    ControlCharacter "control_character" "MQTT5 1.5.4" "MQTT3 1.5.3"
        MalformedPacket 0 Malformed "A control character or non-character in text.";
    PacketIdZero "packet_id_zero" "MQTT5 2.2.1-3" "MQTT3 2.3.1-1"
        ProtocolError 0 Malformed "Packet identifier 0.";
    PublishQos3 "publish_qos_3" "MQTT5 3.3.1-4" "MQTT3 3.3.1-4"
        MalformedPacket 0 Malformed "Both QoS bits of a PUBLISH are set.";
    DupAtQos0 "dup_at_qos_0" "MQTT5 3.3.1-2" "MQTT3 3.3.1-2"
        MalformedPacket 0 Malformed "DUP at QoS 0.";
    NoTopic "no_topic" "MQTT5 4.7.3-1" "MQTT3 4.7.3-1"
        ProtocolError 0 Malformed "An empty topic name, and no alias in its place.";
    WildcardInTopic "wildcard_in_topic" "MQTT5 3.3.2-2" "MQTT3 3.3.2-2"
        MalformedPacket 0 Malformed "A wildcard in a topic name.";
    TopicLimit "topic_limit" "MQTT5 3.14.2.1" "MQTT3 3.3.5-2"
        TopicNameInvalid 0 Quota "A topic name above the server's limits.";
    NoFilter "no_filter" "MQTT5 4.7.3-1" "MQTT3 4.7.3-1"
        MalformedPacket 0 Malformed "An empty topic filter.";
    MultiLevelWildcard "multi_level_wildcard" "MQTT5 4.7.1-1" "MQTT3 4.7.1-2"
        MalformedPacket 0 Malformed "A `#` that is not a level of its own, or not the last.";
    SingleLevelWildcard "single_level_wildcard" "MQTT5 4.7.1-2" "MQTT3 4.7.1-3"
        MalformedPacket 0 Malformed "A `+` that is not a level of its own.";
    ShareName "share_name" "MQTT5 4.8.2-1" ""
        MalformedPacket 0 Malformed "A share name that is empty or holds a wildcard.";
    ShareFilter "share_filter" "MQTT5 4.8.2-2" ""
        MalformedPacket 0 Malformed "No topic filter after a share name.";
    FilterLimit "filter_limit" "MQTT5 3.14.2.1" "MQTT3 4.8.0-1"
        TopicFilterInvalid 0 Quota "A topic filter above the server's limits.";
    NoLocalShared "no_local_shared" "MQTT5 3.8.3-4" ""
        ProtocolError 0 Malformed "No Local on a shared subscription.";
    SubscribeBits "subscribe_bits" "MQTT5 3.8.3-5" "MQTT3 3.8.3-4"
        MalformedPacket 0 Malformed "Reserved bits of subscription options are set.";
    SubscribeQos3 "subscribe_qos_3" "MQTT5 3.8.3.1" "MQTT3 3.8.3-4"
        ProtocolError 0 Malformed "A subscription asks for QoS 3.";
    RetainHandling3 "retain_handling_3" "MQTT5 3.8.3.1" ""
        ProtocolError 0 Malformed "Retain Handling 3.";
    NoSubscription "no_subscription" "MQTT5 3.8.3-2" "MQTT3 3.8.3-3"
        ProtocolError 0 Malformed "A SUBSCRIBE without a topic filter.";
    NoUnsubscription "no_unsubscription" "MQTT5 3.10.3-2" "MQTT3 3.10.3-2"
        ProtocolError 0 Malformed "An UNSUBSCRIBE without a topic filter.";
    NoReason "no_reason" "MQTT5 3.8.4-6" "MQTT3 3.8.4-5"
        ProtocolError 0 Malformed "A SUBACK or UNSUBACK without a reason code.";
    BadReason "bad_reason" "MQTT5 2.4" "MQTT3 3.9.3-2"
        ProtocolError 0 Malformed "A reason code that this packet, or this sender, cannot have.";
    ProtocolName "protocol_name" "MQTT5 3.1.2-1" "MQTT3 3.1.2-1"
        UnsupportedProtocolVersion 0 UnknownVersion "A protocol name that is not MQTT's.";
    ProtocolLevel "protocol_level" "MQTT5 3.1.2-2" "MQTT3 3.1.2-2"
        UnsupportedProtocolVersion 1 UnknownVersion "A protocol level that is not served.";
    BridgeBit "bridge_bit" "MQTT5 3.1.2-2" "MQTT3 3.1.2-2"
        UnsupportedProtocolVersion 1 UnknownVersion "A level with the bit by which bridges mark.";
    ConnectFlag "connect_flag" "MQTT5 3.1.2-3" "MQTT3 3.1.2-3"
        MalformedPacket 0 Malformed "The reserved flag of CONNECT is set.";
    WillFlags "will_flags" "MQTT5 3.1.2-11" "MQTT3 3.1.2-11"
        MalformedPacket 0 Malformed "Will QoS or Will Retain without a will.";
    WillQos3 "will_qos_3" "MQTT5 3.1.2-12" "MQTT3 3.1.2-14"
        MalformedPacket 0 Malformed "A will of QoS 3.";
    PasswordAlone "password_alone" "" "MQTT3 3.1.2-22"
        MalformedPacket 0 Malformed "A password without a user name, before 5.0.";
    ClientIdEmpty "client_id_empty" "" "MQTT3 3.1.3-8"
        ClientIdentifierNotValid 2 AuthFailed "No client identifier, and a session to be kept.";
    ClientIdLong "client_id_long" "" "MQTT31 3.1"
        ClientIdentifierNotValid 2 AuthFailed "A client identifier above 23 bytes, in 3.1.";
    ClientIdLimit "client_id_limit" "MQTT5 3.1.3-8" "MQTT3 3.1.3-9"
        ClientIdentifierNotValid 2 AuthFailed "A client identifier above the server's limit.";
    UnknownProperty "unknown_property" "MQTT5 2.2.2.2" ""
        MalformedPacket 0 Malformed "A property that 5.0 does not have.";
    MisplacedProperty "misplaced_property" "MQTT5 2.2.2.2" ""
        MalformedPacket 0 Malformed "A property that this packet cannot have.";
    PropertyTwice "property_twice" "MQTT5 2.2.2.2" ""
        ProtocolError 0 Malformed "A property stands twice where it may stand once.";
    PropertyValue "property_value" "MQTT5 4.13.1-1" ""
        ProtocolError 0 Malformed "A property has a value that is not allowed.";
    AliasInvalid "alias_invalid" "MQTT5 3.3.2-8" ""
        TopicAliasInvalid 0 Malformed "Topic alias 0 or above the maximum.";
    AliasUnknown "alias_unknown" "MQTT5 3.3.4" ""
        ProtocolError 0 OutOfOrder "No topic, and an alias that stands for none.";
    ResponseTopic "response_topic" "MQTT5 3.3.2-14" ""
        ProtocolError 0 Malformed "A response topic that is no topic name.";
    ClientSubscriptionId "client_subscription_id" "MQTT5 3.3.4-6" ""
        ProtocolError 0 Malformed "A client's PUBLISH with a subscription identifier.";
    ServerSessionExpiry "server_session_expiry" "MQTT5 3.14.2-2" ""
        ProtocolError 0 Malformed "A server's DISCONNECT with a session expiry interval.";
    NoAuthMethod "no_auth_method" "MQTT5 4.12.0-5" ""
        ProtocolError 0 Malformed "Authentication without the name of its method.";
    ConnackFlags "connack_flags" "MQTT5 3.2.2-1" "MQTT3 3.2.2.1"
        MalformedPacket 0 Malformed "Reserved acknowledge flags of CONNACK are set.";
    SessionRefused "session_refused" "MQTT5 3.2.2-6" "MQTT3 3.2.2-4"
        ProtocolError 0 Malformed "Session Present in a CONNACK that refuses.";
    PayloadFormat "payload_format" "MQTT5 3.3.2.3.2" ""
        PayloadFormatInvalid 0 Malformed "A payload that says it is UTF-8 and is not.";
    AuthUnasked "auth_unasked" "MQTT5 4.12.0-7" ""
        ProtocolError 0 OutOfOrder "AUTH, where CONNECT named no method.";
    AuthOrder "auth_order" "MQTT5 4.12.1-1" ""
        ProtocolError 0 OutOfOrder "AUTH out of step, or of another method than CONNECT's.";
    ExpiryFromZero "expiry_from_zero" "MQTT5 3.14.2.2" ""
        ProtocolError 0 OutOfOrder "A farewell gives a session time that was to have none.";
    ReceiveMaximum "receive_maximum" "MQTT5 3.3.4-7" ""
        ReceiveMaximumExceeded 0 Quota "More unacknowledged messages than the receiver allowed.";
}

/// Answer that the standard demands before the connection is closed for a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultAnswer {
    /// Closes the connection without an answer.
    Close,
    /// A CONNACK of 3.1 or 3.1.1 with this return code.
    OldConnack(u8),
    /// A CONNACK of 5.0.
    Connack(ReasonCode),
    /// A DISCONNECT of 5.0.
    Disconnect(ReasonCode),
}

impl FaultAnswer {
    /// Appends the packet, if there is one.
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            FaultAnswer::Close => {}
            FaultAnswer::OldConnack(code) => out.extend_from_slice(&[0x20, 2, 0, code]),
            FaultAnswer::Connack(code) => out.extend_from_slice(&[0x20, 3, 0, code.number(), 0]),
            FaultAnswer::Disconnect(code) => out.extend_from_slice(&[0xe0, 1, code.number()]),
        }
    }
}

impl PacketFault {
    /// The answer on a connection whose CONNECT was taken: only 5.0 has words for it
    /// (MQTT5 4.13.1, MQTT3 4.8.0-1).
    pub const fn answer(self, version: Version) -> FaultAnswer {
        match version {
            Version::V5 => FaultAnswer::Disconnect(self.code()),
            Version::V31 | Version::V311 => FaultAnswer::Close,
        }
    }

    /// The answer to a first packet that has this fault, in the words of the version that its
    /// bytes, as far as they have come, ask for. A packet that is no CONNECT gets no answer.
    pub fn answer_to_first(self, bytes: &[u8]) -> FaultAnswer {
        let first = bytes.first().and_then(|byte| PacketKind::of(byte >> 4));
        let Some(level) = peek_version(bytes).filter(|_| first == Some(PacketKind::Connect)) else {
            return FaultAnswer::Close;
        };
        match level {
            5.. if level & 0x80 == 0 => FaultAnswer::Connack(self.code()),
            _ if self.return_code() != 0 => FaultAnswer::OldConnack(self.return_code()),
            _ => FaultAnswer::Close,
        }
    }

    const fn bit(self) -> u64 {
        1 << self as u8
    }
}

/// A set of faults: what a profile lets pass, and what was let pass in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FaultSet(u64);

const _: () = assert!(PacketFault::ALL.len() <= 64, "a set of faults is one word");

impl FaultSet {
    /// No faults.
    pub const NONE: FaultSet = FaultSet(0);

    /// The faults that can be let pass, because what was meant is clear and nobody else is
    /// harmed: they never reach another client.
    pub const TOLERABLE: FaultSet = FaultSet::of(&[
        PacketFault::HeaderFlags,
        PacketFault::LengthNotShortest,
        PacketFault::Trailing,
        PacketFault::Nul,
        PacketFault::PacketIdZero,
        PacketFault::DupAtQos0,
        PacketFault::SubscribeBits,
        PacketFault::BridgeBit,
        PacketFault::ConnectFlag,
        PacketFault::WillFlags,
        PacketFault::PasswordAlone,
        PacketFault::ClientIdEmpty,
        PacketFault::ClientIdLong,
    ]);

    /// The set of these.
    pub const fn of(faults: &[PacketFault]) -> FaultSet {
        let (mut bits, mut at) = (0, 0);
        while at < faults.len() {
            bits |= faults[at].bit();
            at += 1;
        }
        FaultSet(bits)
    }

    /// Whether it holds `fault`.
    pub const fn contains(self, fault: PacketFault) -> bool {
        self.0 & fault.bit() != 0
    }

    /// Adds `fault`.
    pub const fn insert(&mut self, fault: PacketFault) {
        self.0 |= fault.bit();
    }

    /// Whether it holds nothing.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The faults, in the order of the table.
    pub fn iter(self) -> impl Iterator<Item = PacketFault> {
        PacketFault::ALL.iter().copied().filter(move |&fault| self.contains(fault))
    }
}
