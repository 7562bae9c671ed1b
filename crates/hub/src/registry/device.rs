//! The record of a device: 48 bytes, online or not.
//!
//! What an idle device needs stands here; whatever is not idle (waiting pushes, tags, a quota in
//! use, a term that is not zero) stands in [`Extra`], which exists only while it holds something.
//! Two fields serve twice: `place` is the connection of a device that is online and the version and
//! reason of one that is not, and the version of one that is online is its epoch. Times are read
//! off versions.
//! A device knows its product by number; its id is inline up to sixteen bytes ([`Name`]).

use crate::registry::queue::Queue;
use base::time::Instant;
use model::close::CloseReason;
use model::id::ConnRef;
use model::presence::PresenceVersion;
use std::num::NonZeroU64;

/// State of a device's Bind: whether it is bound, and whether it ever was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BindState {
    /// It has a record for another reason: a push, a tag, a block.
    Never,
    /// It was bound once.
    Offline,
    /// It is bound to the connection in `place`.
    Online,
}

/// A device's id: the text itself, padded with zeros, or a zero and the slot of a longer one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Name([u8; Name::INLINE]);

impl Name {
    /// Longest id that is kept inline, bytes.
    pub const INLINE: usize = 16;

    /// The name for `id`, if it is short enough. Checked ids hold no zero byte.
    pub fn short(id: &str) -> Option<Name> {
        let mut bytes = [0; Name::INLINE];
        bytes.get_mut(..id.len())?.copy_from_slice(id.as_bytes());
        Some(Name(bytes))
    }

    /// The name for an id that lives in `slot` of the table of long ones.
    pub fn long(slot: u32) -> Name {
        let mut bytes = [0; Name::INLINE];
        bytes[1..5].copy_from_slice(&slot.to_be_bytes());
        Name(bytes)
    }

    /// The id, or the slot where it lives.
    pub fn read(&self) -> Result<&str, u32> {
        if self.0[0] == 0 {
            let slot = self.0[1..5].try_into().expect("four bytes");
            return Err(u32::from_be_bytes(slot));
        }
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(Name::INLINE);
        Ok(std::str::from_utf8(&self.0[..end]).expect("ids are checked ASCII"))
    }
}

/// State of a device beyond its record, while it has any.
#[derive(Default)]
pub(crate) struct Extra {
    /// Pushes that wait for it, in flight or not.
    pub queue: Queue,
    /// Its tags, by number, sorted.
    pub tags: Box<[u32]>,
    /// Which Bind of its connection it is; most are zero and need no room.
    pub term: u16,
    /// When its saved-up quota of Reports is whole again, microseconds of the monotonic clock.
    pub report_tat_us: u64,
    /// A Pull to be answered once what it asked for is sent: one more than the id it named.
    pub pull: Option<NonZeroU64>,
    /// Calls to the log whose completions need this record.
    pub asked: u32,
    /// Reports that wait for the log.
    pub reports: u16,
}

const _: () = assert!(size_of::<Extra>() <= 136, "a device that is not idle has 136 bytes more");

impl Extra {
    fn is_idle(&self, now: Instant) -> bool {
        self.queue.is_empty()
            && self.tags.is_empty()
            && self.term == 0
            && self.report_tat_us <= now.nanos() / 1_000
            && self.pull.is_none()
            && (self.asked, self.reports) == (0, 0)
    }
}

/// A device's record.
pub(crate) struct Device {
    name: Name,
    /// Online: bits of the connection. Offline: 42 bits of milliseconds and the 12 of counter that
    /// clocks use, which are the version, one that is free, one that bars its session from being
    /// gone on with, 8 of the reason. Never bound:
    /// the Unix millisecond since when it is known.
    place: u64,
    /// Number of its last session; zero if it never bound.
    pub epoch: u64,
    /// What is not idle.
    pub extra: Option<Box<Extra>>,
    /// Number of its product.
    pub product: u16,
    /// Agreed heartbeat, seconds.
    pub heartbeat_s: u16,
    /// Unacknowledged pushes it may have.
    pub window: u16,
    presence: BindState,
    marks: u8,
}

const _: () = assert!(size_of::<Option<Device>>() <= 48, "a device's slot is 48 bytes");

/// In `place` of one that is away.
const BARRED: u64 = 1 << 8;

const PROTOCOL: u8 = 0x07;
const ROWED: u8 = 0x08;
const BLOCKED: u8 = 0x10;
const TIMED: u8 = 0x20;
const DIRTY: u8 = 0x40;
const PULLING: u8 = 0x80;

impl Device {
    /// Protocols that the record can tell apart, the empty one included.
    pub const PROTOCOLS_MAX: usize = PROTOCOL as usize + 1;

    /// A device that never bound, known since `at_ms`.
    pub fn new(name: Name, product: u16, at_ms: u64) -> Device {
        Device {
            name,
            place: at_ms,
            epoch: 0,
            extra: None,
            product,
            heartbeat_s: 0,
            window: 0,
            presence: BindState::Never,
            marks: 0,
        }
    }

    /// Its id, or where that lives.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Whether it is bound, and whether it ever was.
    pub fn presence(&self) -> BindState {
        self.presence
    }

    /// The connection it is bound to.
    pub fn conn(&self) -> Option<ConnRef> {
        (self.presence == BindState::Online).then(|| ConnRef::from_bits(self.place))
    }

    /// It is bound to `conn` from now on.
    pub fn attach(&mut self, conn: ConnRef, epoch: u64) {
        self.presence = BindState::Online;
        self.place = conn.bits();
        self.epoch = epoch;
    }

    /// It is bound no more. The version is of a clock of ours.
    pub fn detach(&mut self, version: PresenceVersion, reason: CloseReason) {
        self.presence = BindState::Offline;
        let (ms, counter) = (version.0 >> 22, version.0 & 0xfff);
        self.place = (ms << 22) | (counter << 10) | reason as u64;
        self.set_term(0);
        if let Some(extra) = &mut self.extra {
            extra.pull = None;
        }
    }

    /// Its last session is not gone on with; false when that is so already, or it is not away.
    pub fn bar(&mut self) -> bool {
        let bars = self.presence == BindState::Offline && !self.is_barred();
        if bars {
            self.place |= BARRED;
        }
        bars
    }

    /// Whether its last session is not gone on with.
    pub fn is_barred(&self) -> bool {
        self.presence == BindState::Offline && self.place & BARRED != 0
    }

    /// It was bound once, and is away, as a row says.
    pub fn restore(&mut self, epoch: u64, version: PresenceVersion, reason: CloseReason) {
        self.detach(version, reason);
        self.epoch = epoch;
    }

    /// Of its last transition; zero if it never bound.
    pub fn version(&self) -> PresenceVersion {
        match self.presence {
            BindState::Online => PresenceVersion(self.epoch),
            BindState::Offline => {
                let (ms, counter) = (self.place >> 22, (self.place >> 10) & 0xfff);
                PresenceVersion((ms << 22) | counter)
            }
            BindState::Never => PresenceVersion::default(),
        }
    }

    /// Unix millisecond since when it is online, offline, or known.
    pub fn since_ms(&self) -> u64 {
        match self.presence {
            BindState::Online => PresenceVersion(self.epoch).unix_ms(),
            BindState::Offline => PresenceVersion(self.place).unix_ms(),
            BindState::Never => self.place,
        }
    }

    /// How its last connection ended.
    pub fn reason(&self) -> Option<CloseReason> {
        match self.presence {
            BindState::Offline => CloseReason::ALL.get(self.place as u8 as usize).copied(),
            BindState::Online | BindState::Never => None,
        }
    }

    /// Which Bind of its connection it is.
    pub fn term(&self) -> u16 {
        self.extra.as_ref().map_or(0, |extra| extra.term)
    }

    /// Sets the term.
    pub fn set_term(&mut self, term: u16) {
        if term != 0 || self.extra.is_some() {
            self.extra().term = term;
        }
    }

    /// Its extra, made when it has none.
    pub fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// Its pushes, if it has any or had some just now.
    pub fn queue(&self) -> Option<&Queue> {
        self.extra.as_ref().map(|extra| &extra.queue)
    }

    /// The same, to change.
    pub fn queue_mut(&mut self) -> Option<&mut Queue> {
        self.extra.as_mut().map(|extra| &mut extra.queue)
    }

    /// Its tags, by number.
    pub fn tags(&self) -> &[u32] {
        self.extra.as_ref().map_or(&[], |extra| &extra.tags)
    }

    /// Frees the extra when it holds nothing.
    pub fn release(&mut self, now: Instant) {
        if self.extra.as_ref().is_some_and(|extra| extra.is_idle(now)) {
            self.extra = None;
        }
    }

    /// Number of the protocol of its last session.
    pub fn protocol(&self) -> u8 {
        self.marks & PROTOCOL
    }

    /// Sets that number, below [`PROTOCOLS_MAX`](Self::PROTOCOLS_MAX).
    pub fn set_protocol(&mut self, number: u8) {
        self.marks = (self.marks & !PROTOCOL) | (number & PROTOCOL);
    }

    /// Whether it is blocked.
    pub fn blocked(&self) -> bool {
        self.marks & BLOCKED != 0
    }

    /// Blocks or unblocks it.
    pub fn set_blocked(&mut self, to: bool) {
        self.mark(BLOCKED, to);
    }

    /// Whether a resend timer of this device is in the wheel.
    pub fn timed(&self) -> bool {
        self.marks & TIMED != 0
    }

    /// Says so.
    pub fn set_timed(&mut self, to: bool) {
        self.mark(TIMED, to);
    }

    /// Whether the log has a row of it, or was asked to.
    pub fn rowed(&self) -> bool {
        self.marks & ROWED != 0
    }

    /// Says so.
    pub fn set_rowed(&mut self, to: bool) {
        self.mark(ROWED, to);
    }

    /// Whether it differs from its row.
    pub fn dirty(&self) -> bool {
        self.marks & DIRTY != 0
    }

    /// Says so.
    pub fn set_dirty(&mut self, to: bool) {
        self.mark(DIRTY, to);
    }

    /// Whether bodies of its pushes are on their way from the log.
    pub fn pulling(&self) -> bool {
        self.marks & PULLING != 0
    }

    /// Says so.
    pub fn set_pulling(&mut self, to: bool) {
        self.mark(PULLING, to);
    }

    fn mark(&mut self, bit: u8, to: bool) {
        self.marks = if to { self.marks | bit } else { self.marks & !bit };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::slab::Key;
    use model::id::ShardId;

    #[test]
    fn a_name_is_inline_up_to_sixteen_bytes() {
        let longest = "0123456789abcdef";
        assert_eq!(Name::short(longest).expect("fits").read(), Ok(longest));
        assert_eq!(Name::short("x").expect("fits").read(), Ok("x"));
        assert_eq!(Name::short("0123456789abcdefg"), None);
        assert_eq!(Name::long(0xdead_beef).read(), Err(0xdead_beef));
    }

    #[test]
    fn place_serves_both_states() {
        let mut device = Device::new(Name::long(1), 3, 1_700_000_000_123);
        assert_eq!((device.since_ms(), device.reason()), (1_700_000_000_123, None));
        let shard = ShardId(1023);
        assert_eq!(device.version(), PresenceVersion(0));
        let epoch = PresenceVersion::after(0, 1_800_000_000_456).0;
        let conn = ConnRef::new(shard, Key { slot: u32::MAX, generation: 0x3f_ffff });
        device.attach(conn, epoch);
        assert_eq!((device.conn(), device.since_ms()), (Some(conn), 1_800_000_000_456));
        assert_eq!(device.version(), PresenceVersion(epoch));
        let version = PresenceVersion(PresenceVersion::after(0, 1_900_000_000_789).0 + 0xfff);
        device.detach(version, CloseReason::Internal);
        assert_eq!((device.conn(), device.since_ms()), (None, 1_900_000_000_789));
        assert_eq!(device.version(), version);
        assert_eq!(device.reason(), Some(CloseReason::Internal));
        assert!(!device.is_barred() && device.bar() && !device.bar() && device.is_barred());
        assert_eq!((device.version(), device.since_ms()), (version, 1_900_000_000_789));
        assert_eq!(device.reason(), Some(CloseReason::Internal));
        device.attach(conn, epoch);
        assert!(!device.is_barred() && !device.bar());
    }

    #[test]
    fn marks_do_not_disturb_each_other() {
        let mut device = Device::new(Name::long(1), 0, 0);
        device.set_protocol(7);
        device.set_blocked(true);
        device.set_timed(true);
        device.set_dirty(true);
        device.set_timed(false);
        device.set_protocol(2);
        assert_eq!((device.protocol(), device.blocked(), device.timed()), (2, true, false));
        assert_eq!((device.rowed(), device.dirty(), device.pulling()), (false, true, false));
    }
}
