//! Encodings of values whose form is checked, and of enums that a word names.
//!
//! The other types derive theirs ([`base::encoding`]). A value that its type's own check refuses is
//! an error here, so a decoded value is as good as one that came from a client.

use crate::account::{AccountAddress, Addressee};
use crate::chat::{
    Adding, ChatFault, ChatState, ChatroomVerb, GroupRole, GroupVerb, KeptSession, NodesFault,
};
use crate::close::CloseReason;
use crate::id::{DeviceId, ProductKey, SessionRef};
use crate::session::Denial;
use crate::timeline::{Space, TimelineId};
use crate::topic::{Publication, Qos};
use base::encoding::sample::{Sample, SampleSource};
use base::encoding::{DecodeError, Decoder, Encoder, Encoding};

/// A checked text: its type, the check, its name in an error, the form of a sample.
macro_rules! checked {
    ($($type:ident $check:expr, $what:literal, $form:literal;)+) => {$(
        impl Encoding for $type {
            fn encode(&self, to: &mut Encoder) {
                to.text(self.as_str());
            }

            fn decode(from: &mut Decoder<'_>) -> Result<$type, DecodeError> {
                $check(from.text()?).ok_or(DecodeError::Invalid($what))
            }
        }

        impl Sample for $type {
            fn kinds(_: u8) -> usize {
                1
            }

            fn sample(_: usize, from: &mut SampleSource) -> $type {
                let text = format!($form, from.number());
                $check(&text).expect("it has the form")
            }
        }
    )+};
}

checked! {
    AccountAddress AccountAddress::of_contact, "address of an account", "user{}@example.org";
    Addressee |text| Addressee::of_contact(text).ok(), "name or address of an account", "user{}";
    DeviceId |text| DeviceId::parse(text).ok(), "device id", "device-{}";
    ProductKey |text| ProductKey::parse(text).ok(), "product key", "product-{}";
}

/// An enum by the word of each variant, which is stable: its type, its word, its lists.
macro_rules! by_word {
    ($($type:ident $word:ident $($list:ident)+;)+) => {$(
        impl Encoding for $type {
            fn encode(&self, to: &mut Encoder) {
                to.text(self.$word());
            }

            fn decode(from: &mut Decoder<'_>) -> Result<$type, DecodeError> {
                let word = from.text()?;
                let mut all = [].iter()$(.chain($type::$list.iter()))+;
                let found = all.find(|one: &&$type| one.$word() == word);
                found.copied().ok_or(DecodeError::Invalid(stringify!($type)))
            }
        }

        impl Sample for $type {
            fn kinds(_: u8) -> usize {
                0 $(+ $type::$list.len())+
            }

            fn sample(kind: usize, _: &mut SampleSource) -> $type {
                let mut all = [].iter()$(.chain($type::$list.iter()))+;
                *all.nth(kind).expect("below the number of kinds")
            }
        }
    )+};
}

by_word! {
    Adding name ALL;
    ChatFault name ALL OF_ROOMS;
    ChatState word ALL;
    ChatroomVerb word ALL;
    CloseReason name ALL;
    Denial name ALL;
    GroupRole word ALL;
    GroupVerb word ALL;
    NodesFault name ALL;
}

impl Encoding for TimelineId {
    fn encode(&self, to: &mut Encoder) {
        to.bytes(&self.to_bytes());
    }

    fn decode(from: &mut Decoder<'_>) -> Result<TimelineId, DecodeError> {
        let bytes = Encoding::decode(from)?;
        TimelineId::from_bytes(bytes).ok_or(DecodeError::Invalid("timeline"))
    }
}

/// A session is named for the shard that made the reference; others return it unchanged.
impl Encoding for SessionRef {
    fn encode(&self, to: &mut Encoder) {
        self.bits().encode(to);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<SessionRef, DecodeError> {
        u64::decode(from).map(SessionRef::from_bits)
    }
}

impl Encoding for Publication {
    fn encode(&self, to: &mut Encoder) {
        let Publication { id, publisher, at_s, expire_at, qos, retain, .. } = self;
        (*id, *publisher).encode(to);
        (*at_s, *expire_at).encode(to);
        (*qos, *retain).encode(to);
        to.text(self.topic());
        to.list(self.properties());
        to.list(self.payload());
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Publication, DecodeError> {
        let (id, publisher) = Encoding::decode(from)?;
        let (at_s, expire_at) = Encoding::decode(from)?;
        let (qos, retain): (Qos, bool) = Encoding::decode(from)?;
        let topic = from.text()?;
        if u16::try_from(topic.len()).is_err() {
            return Err(DecodeError::Invalid("topic"));
        }
        let mut publication = Publication::new(topic, from.counted()?, from.counted()?);
        (publication.id, publication.publisher) = (id, publisher);
        (publication.at_s, publication.expire_at) = (at_s, expire_at);
        (publication.qos, publication.retain) = (qos, retain);
        Ok(publication)
    }
}

/// State of a machine stays on the shard of its session, and so does the delivery that returns it.
/// The message that would take it elsewhere is refused where it arrives.
impl Encoding for KeptSession {
    fn encode(&self, _: &mut Encoder) {
        base::never!(true, "the state of a machine leaves its shard");
    }

    fn decode(_: &mut Decoder<'_>) -> Result<KeptSession, DecodeError> {
        Err(DecodeError::Invalid("delivery to another process"))
    }
}

impl Sample for TimelineId {
    fn kinds(_: u8) -> usize {
        1
    }

    fn sample(_: usize, from: &mut SampleSource) -> TimelineId {
        TimelineId::at_home(Space::Inbox, from.number(), from.number() << 8)
    }
}

impl Sample for SessionRef {
    fn kinds(_: u8) -> usize {
        1
    }

    fn sample(_: usize, from: &mut SampleSource) -> SessionRef {
        SessionRef::from_bits(from.number())
    }
}

impl Sample for Publication {
    fn kinds(nesting: u8) -> usize {
        <(Qos, bool)>::kinds(nesting)
    }

    fn sample(kind: usize, from: &mut SampleSource) -> Publication {
        let mut publication = Publication::new("a/b", &[1, 1], b"payload");
        (publication.id, publication.publisher) = from.part(kind);
        (publication.at_s, publication.expire_at) = from.part(kind);
        (publication.qos, publication.retain) = from.part(kind);
        publication
    }
}

impl Sample for KeptSession {
    fn kinds(_: u8) -> usize {
        0
    }

    fn sample(_: usize, _: &mut SampleSource) -> KeptSession {
        unreachable!("it has no kinds")
    }
}
