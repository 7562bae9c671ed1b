//! The record of a device: 48 bytes, online or not.
//!
//! The record has the fields that an idle device needs; other state (queued pushes, tags, a quota
//! in use, a term that is not zero) is in [`Extra`], which exists only while it holds something.
//! Two fields serve twice: `place` is the connection of an online device, and the version and
//! reason of an offline one; the version of an online device is its epoch. Times are read from
//! versions.
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
    /// The device has a record for another reason: a push, a tag, a block.
    Never,
    /// The device was bound before.
    Offline,
    /// The device is bound to the connection in `place`.
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

    /// The id, or the slot of a long one.
    pub fn read(&self) -> Result<&str, u32> {
        if self.0[0] == 0 {
            let slot = self.0[1..5].try_into().expect("four bytes");
            return Err(u32::from_be_bytes(slot));
        }
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(Name::INLINE);
        Ok(std::str::from_utf8(&self.0[..end]).expect("ids are checked ASCII"))
    }
}

/// State of a device that does not fit into its record, while it has any.
#[derive(Default)]
pub(crate) struct Extra {
    /// The device's pushes, in flight or waiting.
    pub queue: Queue,
    /// The device's tags and its user, as sorted numbers of groups.
    pub groups: Box<[u32]>,
    /// Number of the device's Bind on its connection; mostly zero, which needs no room.
    pub term: u16,
    /// When the device's quota of Reports is full again, microseconds of the monotonic clock.
    pub report_tat_us: u64,
    /// A Pull to be answered once the pushes it asked for are sent: one more than the id in it.
    pub pull: Option<NonZeroU64>,
    /// Number of open log calls whose completions need this record.
    pub asked: u32,
    /// Number of Reports that wait for the log.
    pub reports: u16,
}

const _: () = assert!(size_of::<Extra>() <= 136, "a device that is not idle has 136 bytes more");

impl Extra {
    fn is_idle(&self, now: Instant) -> bool {
        self.queue.is_empty()
            && self.groups.is_empty()
            && self.term == 0
            && self.report_tat_us <= now.nanos() / 1_000
            && self.pull.is_none()
            && (self.asked, self.reports) == (0, 0)
    }
}

/// A device's record.
pub(crate) struct Device {
    name: Name,
    /// Online: bits of the connection. Offline: the version as 42 bits of milliseconds and the 12
    /// of counter that clocks use, one free bit, one that forbids resuming the session, 8 of the
    /// close reason. Never bound: the Unix millisecond since when the device is known.
    place: u64,
    /// Epoch of the device's last session; zero if it never bound.
    pub epoch: u64,
    /// State that does not fit here.
    pub extra: Option<Box<Extra>>,
    /// Number of the device's product.
    pub product: u16,
    /// Agreed heartbeat, seconds.
    pub heartbeat_s: u16,
    /// Most unacknowledged pushes on its connection.
    pub window: u16,
    presence: BindState,
    marks: u8,
}

const _: () = assert!(size_of::<Option<Device>>() <= 48, "a device's slot is 48 bytes");

/// Bit in `place` of an offline device: its last session must not be resumed.
const BARRED: u64 = 1 << 8;

const PROTOCOL: u8 = 0x07;
const ROWED: u8 = 0x08;
const BLOCKED: u8 = 0x10;
const TIMED: u8 = 0x20;
const DIRTY: u8 = 0x40;
const PULLING: u8 = 0x80;

impl Device {
    /// Number of protocols that the record can distinguish, including the empty one.
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

    /// The device's id, or the slot of a long one.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Whether the device is bound, and whether it ever was.
    pub fn presence(&self) -> BindState {
        self.presence
    }

    /// The connection to which the device is bound.
    pub fn conn(&self) -> Option<ConnRef> {
        (self.presence == BindState::Online).then(|| ConnRef::from_bits(self.place))
    }

    /// Binds the device to `conn`.
    pub fn attach(&mut self, conn: ConnRef, epoch: u64) {
        self.presence = BindState::Online;
        self.place = conn.bits();
        self.epoch = epoch;
    }

    /// Unbinds the device. The version must be of this shard's clock.
    pub fn detach(&mut self, version: PresenceVersion, reason: CloseReason) {
        self.presence = BindState::Offline;
        let (ms, counter) = (version.0 >> 22, version.0 & 0xfff);
        self.place = (ms << 22) | (counter << 10) | reason as u64;
        self.set_term(0);
        if let Some(extra) = &mut self.extra {
            extra.pull = None;
        }
    }

    /// Forbids resuming the device's last session; false if it is forbidden already or the device
    /// is not offline.
    pub fn bar(&mut self) -> bool {
        let bars = self.presence == BindState::Offline && !self.is_barred();
        if bars {
            self.place |= BARRED;
        }
        bars
    }

    /// Whether resuming the device's last session is forbidden.
    pub fn is_barred(&self) -> bool {
        self.presence == BindState::Offline && self.place & BARRED != 0
    }

    /// Restores the state of a device that was bound before, from its row.
    pub fn restore(&mut self, epoch: u64, version: PresenceVersion, reason: CloseReason) {
        self.detach(version, reason);
        self.epoch = epoch;
    }

    /// Version of the device's last transition; zero if it never bound.
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

    /// Unix millisecond since when the device is online, offline, or known.
    pub fn since_ms(&self) -> u64 {
        match self.presence {
            BindState::Online => PresenceVersion(self.epoch).unix_ms(),
            BindState::Offline => PresenceVersion(self.place).unix_ms(),
            BindState::Never => self.place,
        }
    }

    /// Close reason of the device's last connection, if it is offline.
    pub fn reason(&self) -> Option<CloseReason> {
        match self.presence {
            BindState::Offline => CloseReason::ALL.get(self.place as u8 as usize).copied(),
            BindState::Online | BindState::Never => None,
        }
    }

    /// Number of the device's Bind on its connection.
    pub fn term(&self) -> u16 {
        self.extra.as_ref().map_or(0, |extra| extra.term)
    }

    /// Sets the term.
    pub fn set_term(&mut self, term: u16) {
        if term != 0 || self.extra.is_some() {
            self.extra().term = term;
        }
    }

    /// The device's extra state, created if absent.
    pub fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// The device's queue, if it has extra state.
    pub fn queue(&self) -> Option<&Queue> {
        self.extra.as_ref().map(|extra| &extra.queue)
    }

    /// The device's queue, to change.
    pub fn queue_mut(&mut self) -> Option<&mut Queue> {
        self.extra.as_mut().map(|extra| &mut extra.queue)
    }

    /// The device's tags, as numbers.
    pub fn groups(&self) -> &[u32] {
        self.extra.as_ref().map_or(&[], |extra| &extra.groups)
    }

    /// Frees the extra state if it is empty.
    pub fn release(&mut self, now: Instant) {
        if self.extra.as_ref().is_some_and(|extra| extra.is_idle(now)) {
            self.extra = None;
        }
    }

    /// Number of the protocol of the device's last session.
    pub fn protocol(&self) -> u8 {
        self.marks & PROTOCOL
    }

    /// Sets the number of the protocol, below [`PROTOCOLS_MAX`](Self::PROTOCOLS_MAX).
    pub fn set_protocol(&mut self, number: u8) {
        self.marks = (self.marks & !PROTOCOL) | (number & PROTOCOL);
    }

    /// Whether the device is blocked.
    pub fn blocked(&self) -> bool {
        self.marks & BLOCKED != 0
    }

    /// Blocks or unblocks the device.
    pub fn set_blocked(&mut self, to: bool) {
        self.mark(BLOCKED, to);
    }

    /// Whether a timer of this device is running.
    pub fn timed(&self) -> bool {
        self.marks & TIMED != 0
    }

    /// Notes whether a timer of this device is running.
    pub fn set_timed(&mut self, to: bool) {
        self.mark(TIMED, to);
    }

    /// Whether the log has a row of the device, or was asked to store one.
    pub fn rowed(&self) -> bool {
        self.marks & ROWED != 0
    }

    /// Notes whether the log has a row of the device.
    pub fn set_rowed(&mut self, to: bool) {
        self.mark(ROWED, to);
    }

    /// Whether the record differs from the device's row.
    pub fn dirty(&self) -> bool {
        self.marks & DIRTY != 0
    }

    /// Notes whether the record differs from the device's row.
    pub fn set_dirty(&mut self, to: bool) {
        self.mark(DIRTY, to);
    }

    /// Whether bodies of the device's pushes are being fetched from the log.
    pub fn pulling(&self) -> bool {
        self.marks & PULLING != 0
    }

    /// Notes whether bodies are being fetched.
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
