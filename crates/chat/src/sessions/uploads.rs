//! Leave to upload files: who may, how many and how much a day.
//!
//! ```text
//! asked ─► is it one that is taken? ─► the account's row ─► enough today? ─► row ─► answered
//! ```
//! The storage is asked nothing: addresses are signed, and bytes never come here. What an account
//! was given leave for counts, whether it uploads it or not. Invariant: leave is given when it is
//! counted on stable storage, so that no crash gives an account its day anew.

use crate::accounts::fault_of;
use crate::log::{Answered, PendingCall};
use crate::sessions::Requester;
use crate::{Chat, Effects};
use base::time::Now;
use model::chat::{ChatDelivery, ChatFault};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef};
use model::media::{UploadWish, is_type_of};
use model::ports::log::{Call, Done, Read, RowHome, Table, Write};
use model::timeline::TimelineId;
use std::collections::{HashMap, VecDeque};

/// What may wait for one account's row. One more is answered as busy.
const LINE_MAX: usize = 16;
/// Seconds of a day.
const DAY_S: u64 = 86_400;

/// What accounts of this shard were given leave for, of those that ask now.
#[derive(Default)]
pub(crate) struct Uploads {
    asking: HashMap<TimelineId, Asking>,
}

/// An account that asks.
struct Asking {
    line: VecDeque<Wanted>,
    step: Step,
}

/// Whoever wants to upload a file, and which.
struct Wanted {
    wait: Requester,
    wish: UploadWish,
}

/// What the log is asked for an account.
enum Step {
    /// Its row is being read.
    Reading,
    /// Its row is being written, for one of those who want something.
    Writing(Use, Box<Wanted>),
}

/// What an account was given leave for on a day.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Use {
    day: u32,
    files: u32,
    bytes: u64,
}

impl Use {
    fn encode(self) -> Box<[u8]> {
        let (day, files) = (self.day.to_be_bytes(), self.files.to_be_bytes());
        [&day[..], &files, &self.bytes.to_be_bytes()].concat().into()
    }

    /// What cannot be read is the use of no day.
    fn decode(row: &[u8]) -> Option<Use> {
        let (day, rest) = row.split_first_chunk()?;
        let (files, bytes) = rest.split_first_chunk()?;
        let (day, files) = (u32::from_be_bytes(*day), u32::from_be_bytes(*files));
        Some(Use { day, files, bytes: u64::from_be_bytes(bytes.try_into().ok()?) })
    }

    /// The same on this day: a new one begins with nothing.
    fn on(self, day: u32) -> Use {
        if self.day == day { self } else { Use { day, ..Use::default() } }
    }
}

impl Chat {
    /// A device asks for leave to upload a file.
    pub(crate) fn upload(
        &mut self,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        wish: UploadWish,
        fx: &mut Effects,
    ) {
        let Some(asker) = self.asker(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        if let Some(fault) = self.is_refused(&wish) {
            return self.upload_fails(wait, fault, fx);
        }
        let wanted = Wanted { wait, wish };
        let asking = self.uploads.asking.get(&asker.inbox);
        let is_full = asking.is_some_and(|asking| asking.line.len() >= LINE_MAX);
        if is_full || !self.log.may_ask() {
            return self.upload_fails(wait, ChatFault::Busy, fx);
        }
        if let Some(asking) = self.uploads.asking.get_mut(&asker.inbox) {
            return asking.line.push_back(wanted);
        }
        let asking = Asking { line: VecDeque::from([wanted]), step: Step::Reading };
        self.uploads.asking.insert(asker.inbox, asking);
        let read = Read::Row { table: Table::MediaUse, key: key_of(asker.inbox) };
        self.log.ask(PendingCall::UploadUse(asker.inbox), Call::Read(read), fx);
    }

    /// Reason why nobody may upload this.
    fn is_refused(&self, wish: &UploadWish) -> Option<ChatFault> {
        let limits = &self.settings.limits.media;
        let is_taken = |pattern: &String| is_type_of(wish.media_type(), pattern);
        let rules = [
            (self.settings.media.is_none(), ChatFault::MediaOff),
            (!wish.is_sound(), ChatFault::Invalid),
            (wish.bytes > limits.file_bytes_max, ChatFault::TooLarge),
            (!limits.types.iter().any(is_taken), ChatFault::TypeRefused),
        ];
        rules.into_iter().find(|(broken, _)| *broken).map(|(_, fault)| fault)
    }

    /// The log has read or written the row of an account that asks.
    pub(crate) fn upload_goes_on(
        &mut self,
        now: Now,
        inbox: TimelineId,
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(asking) = self.uploads.asking.get_mut(&inbox) else { return };
        let used = match (std::mem::replace(&mut asking.step, Step::Reading), result) {
            (Step::Reading, Ok(Done::Row(row))) => {
                row.and_then(|row| Use::decode(&row)).unwrap_or_default()
            }
            (Step::Writing(used, wanted), Ok(_)) => {
                self.upload_granted(now, inbox, &wanted, fx);
                used
            }
            (step, result) => {
                let fault = result.err().map_or(ChatFault::StoreFailed, fault_of);
                let first = match step {
                    Step::Writing(_, wanted) => Some(*wanted),
                    Step::Reading => None,
                };
                return self.none_may(inbox, first, fault, fx);
            }
        };
        self.next_upload(now, inbox, used, fx);
    }

    /// The next of an account's files, as far as its day goes.
    fn next_upload(&mut self, now: Now, inbox: TimelineId, used: Use, fx: &mut Effects) {
        let limits = &self.settings.limits.media;
        let (files_max, bytes_max) = (limits.files_a_day_max, limits.bytes_a_day_max);
        let used = used.on((u64::from(now.unix_s()) / DAY_S) as u32);
        while let Some(asking) = self.uploads.asking.get_mut(&inbox) {
            let Some(wanted) = asking.line.pop_front() else { break };
            let bytes = used.bytes.saturating_add(wanted.wish.bytes);
            if used.files >= files_max || bytes > bytes_max {
                self.upload_fails(wanted.wait, ChatFault::UploadQuota, fx);
                continue;
            }
            let used = Use { files: used.files + 1, bytes, ..used };
            asking.step = Step::Writing(used, Box::new(wanted));
            let (table, key, value) = (Table::MediaUse, key_of(inbox), used.encode());
            let put = Write::Put { table, key, value };
            return self.log.ask(PendingCall::UploadUse(inbox), Call::Write(put), fx);
        }
        self.uploads.asking.remove(&inbox);
    }

    fn upload_granted(&mut self, now: Now, inbox: TimelineId, wanted: &Wanted, fx: &mut Effects) {
        let Wanted { wait: Requester { conn, session, number }, wish } = wanted;
        let Some(storage) = &self.settings.media else { return };
        let slot = storage.slot(now.unix_s().into(), inbox.home_hash(), wish);
        fx.counters.count(ChatCounter::UploadsGranted);
        let answer = ChatDelivery::Upload { number: *number, slot: Box::new(slot) };
        self.answer_session((*conn, *session), answer, fx);
    }

    /// The log does not answer for an account: nobody of it is kept waiting.
    fn none_may(
        &mut self,
        inbox: TimelineId,
        first: Option<Wanted>,
        fault: ChatFault,
        fx: &mut Effects,
    ) {
        let Some(asking) = self.uploads.asking.remove(&inbox) else { return };
        for wanted in first.into_iter().chain(asking.line) {
            self.upload_fails(wanted.wait, fault, fx);
        }
    }

    fn upload_fails(&mut self, wait: Requester, why: ChatFault, fx: &mut Effects) {
        let Requester { conn, session, number } = wait;
        fx.counters.count(match why {
            ChatFault::MediaOff => ChatCounter::UploadsOff,
            ChatFault::TooLarge => ChatCounter::UploadsTooLarge,
            ChatFault::TypeRefused => ChatCounter::UploadsOfType,
            ChatFault::UploadQuota => ChatCounter::UploadsOverQuota,
            ChatFault::Invalid => ChatCounter::UploadsInvalid,
            _ => ChatCounter::UploadsBusy,
        });
        self.answer_session((conn, session), ChatDelivery::Failed { number, why }, fx);
    }
}

/// The key of the row of what the account with this inbox was given leave for.
fn key_of(inbox: TimelineId) -> Box<[u8]> {
    RowHome::key_of(inbox, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written_and_a_new_day_begins_with_nothing() {
        let used = Use { day: 20_000, files: 7, bytes: 1 << 40 };
        assert_eq!(Use::decode(&used.encode()), Some(used));
        assert_eq!(used.on(20_000), used);
        assert_eq!(used.on(20_001), Use { day: 20_001, files: 0, bytes: 0 });
        for bad in [&[][..], &[1; 3], &[1; 15], &[1; 17]] {
            assert_eq!(Use::decode(bad), None, "{bad:?}");
        }
    }
}
