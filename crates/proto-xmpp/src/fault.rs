//! Stream errors (RFC 6120 4.9.3) and stanza errors (RFC 6120 8.3.3): the only lists of them.
//!
//! A stream error is written, and ends the connection with one [`CloseReason`]. A stanza error
//! answers one stanza, and the stream goes on.

use model::chat::ChatFault;
use model::close::CloseReason;
use model::session::Denial;

macro_rules! stream_faults {
    ($($variant:ident $name:literal $reason:ident $meaning:literal;)+) => {
        /// Why a stream ends that did not have to (RFC 6120 4.9.3).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum StreamFault { $(#[doc = $meaning] $variant,)+ }

        impl StreamFault {
            /// All faults.
            pub const ALL: &'static [StreamFault] = &[$(StreamFault::$variant,)+];

            /// The defined condition, which is also its name in vectors.
            pub const fn name(self) -> &'static str {
                match self { $(StreamFault::$variant => $name,)+ }
            }

            /// How the connection ends.
            pub const fn close_reason(self) -> CloseReason {
                match self { $(StreamFault::$variant => CloseReason::$reason,)+ }
            }
        }
    };
}

stream_faults! {
    BadFormat "bad-format" Malformed "Something that is no stanza where one should be.";
    BadNamespacePrefix "bad-namespace-prefix" Malformed "A prefix that is unknown, or not allowed.";
    Conflict "conflict" Replaced "A newer stream has this resource, or the place of this one.";
    ConnectionTimeout "connection-timeout" KeepAliveTimeout "Nothing was heard for too long.";
    HostUnknown "host-unknown" AuthFailed "The stream is for a domain that is not served.";
    ImproperAddressing "improper-addressing" Malformed "A stanza that does not say whose it is.";
    InternalServerError "internal-server-error" Internal "A defect of this server.";
    InvalidFrom "invalid-from" AuthFailed "A stanza in the name of somebody else.";
    InvalidNamespace "invalid-namespace" Malformed "The stream's namespaces are not those of one.";
    NotAuthorized "not-authorized" OutOfOrder "A stanza of whoever has not logged in, or bound.";
    NotWellFormed "not-well-formed" Malformed "It is no XML.";
    PolicyViolation "policy-violation" TooLarge "More than a limit allows: bytes, depth, names.";
    ResourceConstraint "resource-constraint" Full "The server has no room.";
    RestrictedXml "restricted-xml" Malformed "A comment, a processing instruction, a DTD.";
    SystemShutdown "system-shutdown" Draining "The server is going.";
    UndefinedCondition "undefined-condition" OutOfOrder "More is acknowledged than was sent.";
    UnsupportedEncoding "unsupported-encoding" Malformed "Another encoding than UTF-8.";
    UnsupportedStanzaType "unsupported-stanza-type" UnknownOpcode "An element that is not known.";
    UnsupportedVersion "unsupported-version" UnknownVersion "A version of XMPP before 1.0.";
    Reset "reset" AuthFailed "What the login was granted by is over: log in again.";
}

impl StreamFault {
    /// Why the service ends a stream, in this protocol's words.
    pub const fn of(why: Denial) -> StreamFault {
        match why {
            Denial::TakenOver => StreamFault::Conflict,
            Denial::ShuttingDown => StreamFault::SystemShutdown,
            Denial::Expired | Denial::NotAuthorized | Denial::BadCredentials => StreamFault::Reset,
            Denial::Busy | Denial::Full | Denial::Quota | Denial::Rate => {
                StreamFault::ResourceConstraint
            }
            _ => StreamFault::PolicyViolation,
        }
    }
}

macro_rules! stanza_faults {
    ($($variant:ident $name:literal $kind:literal $meaning:literal;)+) => {
        /// Why a stanza was not taken (RFC 6120 8.3.3).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum StanzaFault { $(#[doc = $meaning] $variant,)+ }

        impl StanzaFault {
            /// All faults.
            pub const ALL: &'static [StanzaFault] = &[$(StanzaFault::$variant,)+];

            /// The defined condition.
            pub const fn name(self) -> &'static str {
                match self { $(StanzaFault::$variant => $name,)+ }
            }

            /// Type of the error: what the sender may do about it (RFC 6120 8.3.2).
            pub const fn kind(self) -> &'static str {
                match self { $(StanzaFault::$variant => $kind,)+ }
            }
        }
    };
}

stanza_faults! {
    BadRequest "bad-request" "modify" "It makes no sense.";
    Conflict "conflict" "cancel" "Its id was used before for another message.";
    FeatureNotImplemented "feature-not-implemented" "cancel" "It is not there yet.";
    Forbidden "forbidden" "auth" "Whoever asks may not do that.";
    ItemNotFound "item-not-found" "cancel" "There is no such thing.";
    NotAcceptable "not-acceptable" "modify" "It does not meet what is required of it.";
    NotAuthorized "not-authorized" "auth" "It is for those who are let see more.";
    NotAllowed "not-allowed" "cancel" "Nobody may do that.";
    JidMalformed "jid-malformed" "modify" "An address that is none here.";
    PolicyViolation "policy-violation" "modify" "It is larger than allowed.";
    RegistrationRequired "registration-required" "auth" "Members alone may enter.";
    RemoteServerNotFound "remote-server-not-found" "cancel" "Another domain, which is not reached.";
    RemoteServerTimeout "remote-server-timeout" "wait" "Another domain, which is not there now.";
    ResourceConstraint "resource-constraint" "wait" "Too much at once: send it again.";
    ServiceUnavailable "service-unavailable" "cancel" "Nobody is there, or nobody does that.";
    UnexpectedRequest "unexpected-request" "wait" "Something else comes before it.";
}

impl StanzaFault {
    /// Why a message was not taken by the service; `is_far`: it was for another domain.
    pub const fn of(why: ChatFault, is_far: bool) -> StanzaFault {
        match why {
            ChatFault::UnknownAccount if is_far => StanzaFault::RemoteServerNotFound,
            // RFC 6121 8.5.1: an address does not show by its answer whether it exists.
            ChatFault::UnknownAccount => StanzaFault::ServiceUnavailable,
            // Nor do groups; what rooms say of it is theirs.
            ChatFault::NotMember
            | ChatFault::Forbidden
            | ChatFault::BadPassword
            | ChatFault::LastOwner
            | ChatFault::Outranked
            | ChatFault::Muted
            | ChatFault::GroupFull
            | ChatFault::ReadersUntold
            | ChatFault::ReadsPrivate
            | ChatFault::NoChatroom
            | ChatFault::ChatroomFull
            | ChatFault::ChatroomBanned
            | ChatFault::GroupBanned
            | ChatFault::NotInChatroom
            | ChatFault::Unchanged => StanzaFault::ServiceUnavailable,
            ChatFault::UnknownMessage => StanzaFault::ItemNotFound,
            ChatFault::TooLate => StanzaFault::NotAllowed,
            ChatFault::MediaOff => StanzaFault::ServiceUnavailable,
            // XEP-0191 3.3: what is for somebody whom one has blocked oneself.
            ChatFault::Blocked => StanzaFault::NotAcceptable,
            ChatFault::BadCode | ChatFault::Rejected => StanzaFault::NotAcceptable,
            // Both are answered with more than that in `features/uploads.rs`.
            ChatFault::TypeRefused => StanzaFault::NotAcceptable,
            ChatFault::UploadQuota => StanzaFault::ResourceConstraint,
            ChatFault::Silenced => StanzaFault::Forbidden,
            ChatFault::NoGateway => StanzaFault::FeatureNotImplemented,
            // Of those who come by MQTT alone.
            ChatFault::NoSession => StanzaFault::NotAllowed,
            // Those who are named are invited, each by itself (XEP-0045 7.8.2).
            ChatFault::InvitationNeeded => StanzaFault::NotAllowed,
            ChatFault::UnknownDevice => StanzaFault::ItemNotFound,
            ChatFault::Conflict => StanzaFault::Conflict,
            ChatFault::TooLarge
            | ChatFault::ContactsFull
            | ChatFault::BansFull
            | ChatFault::PublicFull
            | ChatFault::TemporaryFull
            | ChatFault::GroupsFull
            | ChatFault::PushFull
            | ChatFault::ChatroomsFull => StanzaFault::PolicyViolation,
            ChatFault::Invalid => StanzaFault::BadRequest,
            ChatFault::Busy
            | ChatFault::RateLimited
            | ChatFault::StoreFull
            | ChatFault::StoreFailed => StanzaFault::ResourceConstraint,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_distinct_and_ends_of_the_service_have_one() {
        let distinct = |mut names: Vec<&str>| {
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            names.len() == all
        };
        assert!(distinct(StreamFault::ALL.iter().map(|fault| fault.name()).collect()));
        assert!(distinct(StanzaFault::ALL.iter().map(|fault| fault.name()).collect()));
        for &fault in StanzaFault::ALL {
            assert!(["modify", "cancel", "wait", "auth"].contains(&fault.kind()));
        }
        assert_eq!(StreamFault::of(Denial::TakenOver), StreamFault::Conflict);
        assert_eq!(StreamFault::of(Denial::AdminKick), StreamFault::PolicyViolation);
        let unknown = |is_far| StanzaFault::of(ChatFault::UnknownAccount, is_far).name();
        assert_eq!(
            (unknown(true), unknown(false)),
            ("remote-server-not-found", "service-unavailable")
        );
    }
}
