//! Reasons of refusals and ends, and faults of requests, as numbers of the wire (IM 8).

use model::chat::ChatFault;
use model::session::Denial;

macro_rules! reasons {
    ($($variant:ident $number:literal $name:literal $meaning:literal;)+) => {
        /// Why a login is refused, or a connection ends (IM 8.1).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum EndReason { $(#[doc = $meaning] $variant,)+ }

        impl EndReason {
            /// All reasons.
            pub const ALL: &'static [EndReason] = &[$(EndReason::$variant,)+];

            /// The number on the wire.
            pub const fn number(self) -> u32 {
                match self { $(EndReason::$variant => $number,)+ }
            }

            /// The reason with this number; what a later version adds is unspecified.
            pub fn of(number: u32) -> EndReason {
                let same = |reason: &&EndReason| reason.number() == number;
                Self::ALL.iter().find(same).copied().unwrap_or(EndReason::Unspecified)
            }

            /// The word on the wire and in logs.
            pub const fn name(self) -> &'static str {
                match self { $(EndReason::$variant => $name,)+ }
            }

            /// Meaning of the reason, for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(EndReason::$variant => $meaning,)+ }
            }
        }
    };
}

reasons! {
    Unspecified 0 "unspecified" "Another reason.";
    BadCredentials 1 "bad_credentials" "Wrong name, password, token or proof.";
    NotAuthorized 2 "not_authorized" "An access rule forbids it.";
    NameInvalid 3 "name_invalid" "The name of the account or device is not allowed.";
    BadMethod 4 "bad_method" "Unknown authentication method.";
    Unavailable 5 "unavailable" "External authentication does not answer.";
    Busy 6 "busy" "Too many requests at once; retry later.";
    Full 7 "full" "A limit of connections or sessions is reached.";
    Quota 8 "quota" "A quota is exceeded.";
    Rate 9 "rate" "A rate limit is exceeded.";
    Banned 10 "banned" "The address or the account is banned.";
    UseAnother 11 "use_another" "Use another server for now.";
    Moved 12 "moved" "Use another server from now on.";
    ShuttingDown 13 "shutting_down" "The server is shutting down.";
    TakenOver 14 "taken_over" "A newer connection of the same device took over.";
    AdminKick 15 "admin_kick" "An operator ended the connection.";
    Expired 16 "expired" "The authorization of the session expired.";
    StoreFull 17 "store_full" "The log is full.";
    StoreFailed 18 "store_failed" "The log failed: writes are refused until the server restarts.";
    Malformed 32 "malformed" "A malformed frame.";
    TooLarge 33 "too_large" "A frame is larger than allowed.";
    OutOfOrder 34 "out_of_order" "A frame is not allowed in this state.";
    LoginTimeout 35 "login_timeout" "No login arrived in time.";
    Silence 36 "silence" "Nothing was received for longer than agreed.";
    UnknownVersion 37 "unknown_version" "The protocol version is not supported.";
}

impl From<Denial> for EndReason {
    /// Denials that are about topics have no reason of their own.
    fn from(why: Denial) -> EndReason {
        match why {
            Denial::BadCredentials => EndReason::BadCredentials,
            Denial::NotAuthorized => EndReason::NotAuthorized,
            Denial::ClientIdInvalid => EndReason::NameInvalid,
            Denial::BadMethod => EndReason::BadMethod,
            Denial::Unavailable => EndReason::Unavailable,
            Denial::Busy => EndReason::Busy,
            Denial::Full => EndReason::Full,
            Denial::Quota => EndReason::Quota,
            Denial::Rate => EndReason::Rate,
            Denial::Banned => EndReason::Banned,
            Denial::UseAnother => EndReason::UseAnother,
            Denial::Moved => EndReason::Moved,
            Denial::ShuttingDown => EndReason::ShuttingDown,
            Denial::TakenOver => EndReason::TakenOver,
            Denial::AdminKick => EndReason::AdminKick,
            Denial::Expired => EndReason::Expired,
            Denial::StoreFull => EndReason::StoreFull,
            Denial::StoreFailed => EndReason::StoreFailed,
            Denial::Protocol => EndReason::OutOfOrder,
            Denial::TopicInvalid
            | Denial::FilterInvalid
            | Denial::PayloadFormat
            | Denial::NoWildcards
            | Denial::NoShared
            | Denial::IdInUse
            | Denial::ReceiveMax
            | Denial::Unspecified => EndReason::Unspecified,
        }
    }
}

/// The number of a fault on the wire (IM 8.2).
pub const fn fault_number(fault: ChatFault) -> u32 {
    match fault {
        ChatFault::UnknownAccount => 1,
        ChatFault::Conflict => 2,
        ChatFault::TooLarge => 3,
        ChatFault::Invalid => 4,
        ChatFault::Busy => 5,
        ChatFault::StoreFull => 6,
        ChatFault::StoreFailed => 7,
        ChatFault::NotMember => 8,
        ChatFault::Forbidden => 9,
        ChatFault::Muted => 10,
        ChatFault::GroupFull => 11,
        ChatFault::Unchanged => 12,
        ChatFault::UnknownMessage => 13,
        ChatFault::TooLate => 14,
        ChatFault::ContactsFull => 17,
        ChatFault::Blocked => 18,
        ChatFault::Silenced => 40,
        ChatFault::RateLimited => 41,
        ChatFault::Rejected => 42,
        ChatFault::PushFull => 43,
        ChatFault::NoGateway => 44,
        ChatFault::UnknownDevice => 45,
        ChatFault::BadCode => 46,
        ChatFault::MediaOff => 47,
        ChatFault::TypeRefused => 48,
        ChatFault::UploadQuota => 49,
        ChatFault::ReadersUntold => 53,
        ChatFault::ReadsPrivate => 54,
        ChatFault::NoChatroom => 55,
        ChatFault::ChatroomFull => 56,
        ChatFault::ChatroomBanned => 57,
        ChatFault::NotInChatroom => 58,
        ChatFault::ChatroomsFull => 59,
        ChatFault::NoSession => 60,
        ChatFault::GroupBanned => 64,
        ChatFault::BansFull => 65,
        ChatFault::PublicFull => 66,
        ChatFault::TemporaryFull => 67,
        ChatFault::InvitationNeeded => 68,
        ChatFault::GroupsFull => 69,
        // Of requests that only XMPP makes.
        ChatFault::LastOwner | ChatFault::BadPassword | ChatFault::Outranked => 9,
    }
}

/// The fault with this number; `None`: one that a later version added.
pub fn fault_of(number: u32) -> Option<ChatFault> {
    ChatFault::ALL.iter().find(|fault| fault_number(**fault) == number).copied()
}
