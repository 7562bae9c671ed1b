//! Reason codes of 5.0, and the return codes of CONNACK before it.
//!
//! Declared once, in the table below: number, name, and the packets that may carry it (MQTT5 2.4
//! and the table of each packet). Older versions have five return codes for CONNACK and one
//! failure in SUBACK; they are the same values here and are translated where packets are read and
//! written.

use super::{PacketKind, Sender, Version};

/// Which packets carry a code, one bit each; DISCONNECT and AUTH by who sends them.
mod carrier {
    pub const CONNACK: u16 = 1;
    pub const PUBACK: u16 = 1 << 1;
    pub const PUBREC: u16 = 1 << 2;
    pub const PUBREL: u16 = 1 << 3;
    pub const PUBCOMP: u16 = 1 << 4;
    pub const SUBACK: u16 = 1 << 5;
    pub const UNSUBACK: u16 = 1 << 6;
    pub const CLIENT_DISCONNECT: u16 = 1 << 7;
    pub const SERVER_DISCONNECT: u16 = 1 << 8;
    pub const CLIENT_AUTH: u16 = 1 << 9;
    pub const SERVER_AUTH: u16 = 1 << 10;
    pub const DISCONNECT: u16 = CLIENT_DISCONNECT | SERVER_DISCONNECT;
    pub const PUB: u16 = PUBACK | PUBREC;
    pub const SUB: u16 = SUBACK | UNSUBACK;
}

macro_rules! reasons {
    ($($variant:ident $number:literal $name:literal [$($carrier:ident)+];)+) => {
        /// Why, or how well, something went (MQTT5 2.4).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum ReasonCode { $(#[doc = $name] $variant = $number,)+ }

        impl ReasonCode {
            /// All codes, in order.
            pub const ALL: &'static [ReasonCode] = &[$(ReasonCode::$variant,)+];

            /// The code with this number.
            pub const fn of(number: u8) -> Option<ReasonCode> {
                match number { $($number => Some(ReasonCode::$variant),)+ _ => None }
            }

            const fn carriers(self) -> u16 {
                match self { $(ReasonCode::$variant => 0 $(| carrier::$carrier)+,)+ }
            }

            const fn plain_name(self) -> &'static str {
                match self { $(ReasonCode::$variant => $name,)+ }
            }
        }
    };
}

reasons! {
    Success 0x00 "success" [CONNACK PUB PUBREL PUBCOMP SUB DISCONNECT SERVER_AUTH];
    GrantedQos1 0x01 "granted_qos_1" [SUBACK];
    GrantedQos2 0x02 "granted_qos_2" [SUBACK];
    DisconnectWithWill 0x04 "disconnect_with_will_message" [CLIENT_DISCONNECT];
    NoMatchingSubscribers 0x10 "no_matching_subscribers" [PUB];
    NoSubscriptionExisted 0x11 "no_subscription_existed" [UNSUBACK];
    ContinueAuthentication 0x18 "continue_authentication" [CLIENT_AUTH SERVER_AUTH];
    ReAuthenticate 0x19 "re_authenticate" [CLIENT_AUTH];
    UnspecifiedError 0x80 "unspecified_error" [CONNACK PUB SUB DISCONNECT];
    MalformedPacket 0x81 "malformed_packet" [CONNACK DISCONNECT];
    ProtocolError 0x82 "protocol_error" [CONNACK DISCONNECT];
    ImplementationSpecific 0x83 "implementation_specific_error" [CONNACK PUB SUB DISCONNECT];
    UnsupportedProtocolVersion 0x84 "unsupported_protocol_version" [CONNACK];
    ClientIdentifierNotValid 0x85 "client_identifier_not_valid" [CONNACK];
    BadUserNameOrPassword 0x86 "bad_user_name_or_password" [CONNACK];
    NotAuthorized 0x87 "not_authorized" [CONNACK PUB SUB SERVER_DISCONNECT];
    ServerUnavailable 0x88 "server_unavailable" [CONNACK];
    ServerBusy 0x89 "server_busy" [CONNACK SERVER_DISCONNECT];
    Banned 0x8a "banned" [CONNACK];
    ServerShuttingDown 0x8b "server_shutting_down" [SERVER_DISCONNECT];
    BadAuthenticationMethod 0x8c "bad_authentication_method" [CONNACK SERVER_DISCONNECT];
    KeepAliveTimeout 0x8d "keep_alive_timeout" [SERVER_DISCONNECT];
    SessionTakenOver 0x8e "session_taken_over" [SERVER_DISCONNECT];
    TopicFilterInvalid 0x8f "topic_filter_invalid" [SUB SERVER_DISCONNECT];
    TopicNameInvalid 0x90 "topic_name_invalid" [CONNACK PUB DISCONNECT];
    PacketIdInUse 0x91 "packet_identifier_in_use" [PUB SUB];
    PacketIdNotFound 0x92 "packet_identifier_not_found" [PUBREL PUBCOMP];
    ReceiveMaximumExceeded 0x93 "receive_maximum_exceeded" [DISCONNECT];
    TopicAliasInvalid 0x94 "topic_alias_invalid" [DISCONNECT];
    PacketTooLarge 0x95 "packet_too_large" [CONNACK DISCONNECT];
    MessageRateTooHigh 0x96 "message_rate_too_high" [DISCONNECT];
    QuotaExceeded 0x97 "quota_exceeded" [CONNACK PUB SUBACK DISCONNECT];
    AdministrativeAction 0x98 "administrative_action" [DISCONNECT];
    PayloadFormatInvalid 0x99 "payload_format_invalid" [CONNACK PUB DISCONNECT];
    RetainNotSupported 0x9a "retain_not_supported" [CONNACK SERVER_DISCONNECT];
    QosNotSupported 0x9b "qos_not_supported" [CONNACK SERVER_DISCONNECT];
    UseAnotherServer 0x9c "use_another_server" [CONNACK SERVER_DISCONNECT];
    ServerMoved 0x9d "server_moved" [CONNACK SERVER_DISCONNECT];
    SharedNotSupported 0x9e "shared_subscriptions_not_supported" [SUBACK SERVER_DISCONNECT];
    ConnectionRateExceeded 0x9f "connection_rate_exceeded" [CONNACK SERVER_DISCONNECT];
    MaximumConnectTime 0xa0 "maximum_connect_time" [SERVER_DISCONNECT];
    SubscriptionIdsNotSupported 0xa1 "subscription_identifiers_not_supported"
        [SUBACK SERVER_DISCONNECT];
    WildcardsNotSupported 0xa2 "wildcard_subscriptions_not_supported" [SUBACK SERVER_DISCONNECT];
}

impl ReasonCode {
    /// Its number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Whether it says that something failed (MQTT5 2.4).
    pub const fn is_failure(self) -> bool {
        self.number() >= 0x80
    }

    /// The name in logs and queries: 0 is called otherwise in SUBACK and DISCONNECT.
    pub const fn name(self, carrier: PacketKind) -> &'static str {
        match (self, carrier) {
            (ReasonCode::Success, PacketKind::Suback) => "granted_qos_0",
            (ReasonCode::Success, PacketKind::Disconnect) => "normal_disconnection",
            _ => self.plain_name(),
        }
    }

    /// Whether this end may send it in this packet of 5.0. `0x8c` stands in the general table for
    /// DISCONNECT (MQTT5 2.4) and not in that of DISCONNECT: it is taken, and better not sent, for
    /// clients refuse it (MQTT.js 5 does).
    pub const fn fits(self, carrier: PacketKind, sender: Sender) -> bool {
        let bit = match (carrier, sender) {
            (PacketKind::Connack, _) => carrier::CONNACK,
            (PacketKind::Puback, _) => carrier::PUBACK,
            (PacketKind::Pubrec, _) => carrier::PUBREC,
            (PacketKind::Pubrel, _) => carrier::PUBREL,
            (PacketKind::Pubcomp, _) => carrier::PUBCOMP,
            (PacketKind::Suback, _) => carrier::SUBACK,
            (PacketKind::Unsuback, _) => carrier::UNSUBACK,
            (PacketKind::Disconnect, Sender::Client) => carrier::CLIENT_DISCONNECT,
            (PacketKind::Disconnect, Sender::Server) => carrier::SERVER_DISCONNECT,
            (PacketKind::Auth, Sender::Client) => carrier::CLIENT_AUTH,
            (PacketKind::Auth, Sender::Server) => carrier::SERVER_AUTH,
            _ => 0,
        };
        self.carriers() & bit != 0
    }

    /// Meaning of a return code of an older CONNACK (MQTT3 3.2.2.3); `None` for reserved ones.
    pub const fn of_return_code(code: u8) -> Option<ReasonCode> {
        Some(match code {
            0 => ReasonCode::Success,
            1 => ReasonCode::UnsupportedProtocolVersion,
            2 => ReasonCode::ClientIdentifierNotValid,
            3 => ReasonCode::ServerUnavailable,
            4 => ReasonCode::BadUserNameOrPassword,
            5 => ReasonCode::NotAuthorized,
            _ => return None,
        })
    }

    /// The return code of an older CONNACK that says the same. `None` where no code is applicable,
    /// and the connection is closed without a CONNACK (MQTT3 3.2.2-6).
    pub const fn return_code(self) -> Option<u8> {
        use ReasonCode::*;
        Some(match self {
            Success => 0,
            UnsupportedProtocolVersion => 1,
            ClientIdentifierNotValid => 2,
            ServerUnavailable
            | ServerBusy
            | QuotaExceeded
            | UseAnotherServer
            | ServerMoved
            | ConnectionRateExceeded => 3,
            BadUserNameOrPassword => 4,
            NotAuthorized | Banned | BadAuthenticationMethod => 5,
            _ => return None,
        })
    }

    /// Whether it may stand in a SUBACK before 5.0 (MQTT3 3.9.3-2); 3.1 knows no failure.
    pub const fn fits_old_suback(self, version: Version) -> bool {
        match self {
            ReasonCode::Success | ReasonCode::GrantedQos1 | ReasonCode::GrantedQos2 => true,
            ReasonCode::UnspecifiedError => matches!(version, Version::V311),
            _ => false,
        }
    }

    /// The code as a SUBACK of this version says it. One of 3.1 cannot say that a subscription
    /// failed: the server answers as if QoS 0 was granted (MQTT31 3.8).
    pub const fn in_suback(self, version: Version) -> u8 {
        match version {
            Version::V5 => self.number(),
            Version::V311 if self.is_failure() => 0x80,
            Version::V31 if self.is_failure() => 0,
            Version::V311 | Version::V31 => self.number(),
        }
    }
}
