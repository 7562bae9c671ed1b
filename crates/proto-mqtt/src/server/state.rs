//! State of a connection, and how it is kept in twelve bytes.
//!
//! [`Phase`] is what the machine works with; [`Packed`] is what stays while nothing happens. A
//! bound client without terms of its own has no heap: its session, version and count of unanswered
//! messages are all there is. Everything else is [`More`], boxed while it is needed. Words of eight
//! bytes are packed to a boundary of four, so that the table of protocols finds room for its own
//! tag beside them.

use super::alias::{AliasesIn, AliasesOut};
use super::connect::{Asked, Fresh};
use super::pace::Pace;
use crate::codec::{DecodeRules, FaultSet, PACKET_BYTES_MAX, PacketFault, Sender, Terms, Version};
use model::id::SessionRef;
use model::limits::Limits;

/// Eight bytes on a boundary of four. Moved in and out, never borrowed.
#[repr(Rust, packed(4))]
struct Narrow<T>(T);

/// A phase at rest.
pub(super) struct Packed(State);

const _: () = assert!(size_of::<Packed>() <= 12 && align_of::<Packed>() <= 4);

enum State {
    New { bind_ms_max: u32, marks: Marks },
    Fresh(Narrow<Box<Fresh>>),
    Asked(Narrow<Box<Asked>>),
    Bound { session: Narrow<u64>, marks: Marks, unanswered: u16 },
    More(Narrow<Box<More>>),
    Over,
}

/// Faults that are let pass on every listener: the bit by which bridges of MQTT 3 mark themselves,
/// which is their wish not to be sent what they sent; and identifiers of 3.1 above its 23
/// characters, which no other broker minds and many devices have.
const STRICT: FaultSet = FaultSet::of(&[PacketFault::BridgeBit, PacketFault::ClientIdLong]);

/// Where a connection is.
pub(super) enum Phase {
    /// The connection is not opened.
    New { bind_ms_max: u32, marks: Marks },
    /// No CONNECT has been taken; one is due.
    Fresh(Box<Fresh>),
    /// The CONNECT is with the broker, or its challenge with the client.
    Asked(Box<Asked>),
    /// Its session is bound to it.
    Bound(Bound),
    /// The connection has ended: nothing more is read or written.
    Over,
}

impl Packed {
    /// State of a connection that is not opened.
    pub(super) const fn new(bind_ms_max: u32, marks: Marks) -> Packed {
        Packed(State::New { bind_ms_max, marks })
    }

    /// Packs a phase; what its client does not need any more goes.
    #[inline]
    pub(super) fn of(phase: Phase) -> Packed {
        Packed(match phase {
            Phase::New { bind_ms_max, marks } => State::New { bind_ms_max, marks },
            Phase::Fresh(fresh) => State::Fresh(Narrow(fresh)),
            Phase::Asked(asked) => State::Asked(Narrow(asked)),
            Phase::Bound(Bound { session, marks, unanswered, more }) => {
                match more.filter(|more| more.is_needed()) {
                    None => State::Bound { session: Narrow(session.bits()), marks, unanswered },
                    Some(mut more) => {
                        more.kept = (session, marks, unanswered);
                        State::More(Narrow(more))
                    }
                }
            }
            Phase::Over => State::Over,
        })
    }

    /// Whether it is a bound client's that has no heap.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.0, State::Bound { .. })
    }

    /// Takes the phase out; until one is put in again, the connection is over.
    #[inline]
    pub(super) fn take(&mut self) -> Phase {
        match std::mem::replace(&mut self.0, State::Over) {
            State::New { bind_ms_max, marks } => Phase::New { bind_ms_max, marks },
            State::Fresh(Narrow(fresh)) => Phase::Fresh(fresh),
            State::Asked(Narrow(asked)) => Phase::Asked(asked),
            State::Bound { session: Narrow(session), marks, unanswered } => {
                let session = SessionRef::from_bits(session);
                Phase::Bound(Bound { session, marks, unanswered, more: None })
            }
            State::More(Narrow(more)) => {
                let (session, marks, unanswered) = more.kept;
                Phase::Bound(Bound { session, marks, unanswered, more: Some(more) })
            }
            State::Over => Phase::Over,
        }
    }
}

/// A client whose session is bound.
pub(super) struct Bound {
    /// The session's record.
    pub(super) session: SessionRef,
    pub(super) marks: Marks,
    /// Messages of QoS 1 and 2 that it sent and that are not answered.
    pub(super) unanswered: u16,
    /// State that few clients have.
    pub(super) more: Option<Box<More>>,
}

impl Bound {
    /// The version that was agreed on.
    pub(super) fn version(&self) -> Version {
        self.marks.version().expect("a bound client has said its version")
    }

    /// The client's limits.
    pub(super) fn terms(&self) -> Terms {
        let packet_bytes_max =
            self.more.as_ref().map_or(PACKET_BYTES_MAX, |more| more.packet_bytes_max);
        let problems = !self.marks.has(Marks::NO_PROBLEMS);
        Terms { version: self.version(), packet_bytes_max, problems }
    }

    /// State that few clients have, made if absent.
    pub(super) fn more(&mut self) -> &mut More {
        self.more.get_or_insert_with(|| Box::new(More::of(self.session)))
    }
}

/// State of a bound client beside its session that most do not have.
pub(super) struct More {
    /// Fields of [`Bound`] otherwise, while the phase is at rest.
    kept: (SessionRef, Marks, u16),
    /// Its Maximum Packet Size.
    pub(super) packet_bytes_max: u32,
    /// Its topic aliases.
    pub(super) aliases_in: AliasesIn,
    /// The server's, towards it.
    pub(super) aliases_out: AliasesOut,
    /// Its authentication method, and where a new authentication is.
    pub(super) method: Option<Box<str>>,
    pub(super) step: AuthStep,
    /// How fast it publishes, where that is limited.
    pub(super) pace: Pace,
    /// Deliveries of QoS 0 dropped and not told yet.
    pub(super) dropped: u32,
}

/// Where a new authentication is (MQTT5 4.12.1).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AuthStep {
    /// No exchange is under way.
    Idle,
    /// The broker has the word.
    Asked,
    /// The client has it.
    Challenged,
}

impl More {
    fn of(session: SessionRef) -> More {
        More {
            kept: (session, Marks::default(), 0),
            packet_bytes_max: PACKET_BYTES_MAX,
            aliases_in: AliasesIn::default(),
            aliases_out: AliasesOut::default(),
            method: None,
            step: AuthStep::Idle,
            pace: Pace::default(),
            dropped: 0,
        }
    }

    fn is_needed(&self) -> bool {
        self.packet_bytes_max != PACKET_BYTES_MAX
            || !self.aliases_in.is_empty()
            || self.aliases_out.are_used()
            || self.method.is_some()
            || self.pace != Pace::default()
            || self.dropped != 0
    }
}

/// Facts about a connection, one bit each, and its version once it is known.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Marks(u8);

impl Marks {
    /// Its listener lets the faults of old devices pass.
    pub(super) const LENIENT: u8 = 4;
    /// Its listener takes no control characters in text.
    pub(super) const STRICT_TEXT: u8 = 8;
    /// Its CONNECT asked for a session that ends with it.
    pub(super) const ENDS: u8 = 0x10;
    /// The client wants no reason strings.
    pub(super) const NO_PROBLEMS: u8 = 0x20;
    /// Nothing is read from the connection for now.
    pub(super) const HELD: u8 = 0x40;
    const VERSION: u8 = 3;

    /// Marks of a new connection, with only these set where they hold.
    pub(super) const fn of(lenient: bool, strict_text: bool) -> Marks {
        let lenient = if lenient { Marks::LENIENT } else { 0 };
        Marks(lenient | if strict_text { Marks::STRICT_TEXT } else { 0 })
    }

    pub(super) const fn has(self, mark: u8) -> bool {
        self.0 & mark != 0
    }

    pub(super) fn set(&mut self, mark: u8, on: bool) {
        self.0 = if on { self.0 | mark } else { self.0 & !mark };
    }

    /// The version, once it is known.
    pub(super) const fn version(self) -> Option<Version> {
        match self.0 & Marks::VERSION {
            1 => Some(Version::V31),
            2 => Some(Version::V311),
            3 => Some(Version::V5),
            _ => None,
        }
    }

    pub(super) fn set_version(&mut self, version: Version) {
        self.0 = self.0 & !Marks::VERSION | (version.level() - 2);
    }

    /// Rules by which the client's packets are decoded.
    pub(super) fn rules(self, limits: &Limits) -> DecodeRules {
        let topics = &limits.topics;
        let version = self.version();
        let most =
            if version.is_some() { topics.packet_bytes_max } else { topics.connect_bytes_max };
        DecodeRules {
            packet_bytes_max: most,
            topic_bytes_max: topics.topic_bytes_max,
            topic_levels_max: u32::from(topics.topic_levels_max),
            client_id_bytes_max: topics.client_id_bytes_max,
            tolerate: if self.has(Marks::LENIENT) { FaultSet::TOLERABLE } else { STRICT },
            strict_text: self.has(Marks::STRICT_TEXT),
            ..DecodeRules::strict(Sender::Client, version.unwrap_or(Version::V5))
        }
    }
}
