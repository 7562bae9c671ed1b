//! Upload permissions: the files that an account may upload, with limits per day.
//!
//! ```text
//! asked ─► type and size allowed? ─► the account's row ─► within the quota? ─► row ─► answered
//! ```
//! The storage is not asked: URLs are signed, and the bytes never pass through this server. A
//! permission counts whether or not it is used. Invariant: a permission is given when it is counted
//! on stable storage, so that no crash resets an account's day.

use crate::accounts::fault_of;
use crate::service::flow::Flow;
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

/// Requests that may wait for one account's row. A further one is answered as busy.
const LINE_MAX: usize = 16;
/// Seconds of a day.
const DAY_S: u64 = 86_400;

/// Upload requests of accounts of this shard. Each account has a flow.
#[derive(Default)]
pub(crate) struct Uploads {
    asking: HashMap<TimelineId, VecDeque<Wanted>>,
}

/// A request to upload a file.
struct Wanted {
    wait: Requester,
    wish: UploadWish,
}

/// The permissions that an account was given on a day: files and bytes.
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

    /// A row that cannot be read counts as unused.
    fn decode(row: &[u8]) -> Option<Use> {
        let (day, rest) = row.split_first_chunk()?;
        let (files, bytes) = rest.split_first_chunk()?;
        let (day, files) = (u32::from_be_bytes(*day), u32::from_be_bytes(*files));
        Some(Use { day, files, bytes: u64::from_be_bytes(bytes.try_into().ok()?) })
    }

    /// The use on this day: a new day begins with none.
    fn on(self, day: u32) -> Use {
        if self.day == day { self } else { Use { day, ..Use::default() } }
    }
}

/// Answers an account's upload requests, one after the other, until none is left.
async fn give_leave(mut flow: Flow, inbox: TimelineId) {
    let result = give_in_turn(&mut flow, inbox).await;
    let (chat, _, fx) = flow.state();
    let left = chat.uploads.asking.remove(&inbox).unwrap_or_default();
    if let Err(fault) = result {
        // The log fails for the account: no request of it is kept waiting.
        left.into_iter().for_each(|wanted| chat.upload_fails(wanted.wait, fault, fx));
    }
}

async fn give_in_turn(flow: &mut Flow, inbox: TimelineId) -> Result<(), ChatFault> {
    let (table, key) = (Table::MediaUse, key_of(inbox));
    let row = match flow.log(Call::Read(Read::Row { table, key: key.clone() })).await {
        Ok(Done::Row(row)) => row,
        Ok(_) => return Err(ChatFault::StoreFailed),
        Err(error) => return Err(fault_of(error)),
    };
    let mut used = row.and_then(|row| Use::decode(&row)).unwrap_or_default();
    loop {
        let (chat, now, fx) = flow.state();
        let line = chat.uploads.asking.get_mut(&inbox);
        let Some(wanted) = line.and_then(VecDeque::pop_front) else { return Ok(()) };
        let limits = &chat.settings.limits.media;
        used = used.on((u64::from(now.unix_s()) / DAY_S) as u32);
        let bytes = used.bytes.saturating_add(wanted.wish.bytes);
        if used.files >= limits.files_a_day_max || bytes > limits.bytes_a_day_max {
            chat.upload_fails(wanted.wait, ChatFault::UploadQuota, fx);
            continue;
        }
        used = Use { files: used.files + 1, bytes, ..used };
        let write = Write::Put { table, key: key.clone(), value: used.encode() };
        let stored = flow.log(Call::Write(write)).await.map_err(fault_of);
        let (chat, now, fx) = flow.state();
        if let Err(fault) = stored {
            chat.upload_fails(wanted.wait, fault, fx);
            return Err(fault);
        }
        chat.upload_granted(now, inbox, &wanted, fx);
    }
}

impl Chat {
    /// Handles a device's request to upload a file.
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
        let (inbox, wanted) = (asker.inbox, Wanted { wait, wish });
        if let Some(line) = self.uploads.asking.get_mut(&inbox)
            && line.len() < LINE_MAX
        {
            return line.push_back(wanted);
        }
        let is_full = self.uploads.asking.contains_key(&inbox) || !self.log.may_ask();
        if is_full || !self.begin(|flow| give_leave(flow, inbox)) {
            return self.upload_fails(wait, ChatFault::Busy, fx);
        }
        self.uploads.asking.insert(inbox, [wanted].into());
    }

    /// The reason why no account may upload this file.
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

    fn upload_granted(&mut self, now: Now, inbox: TimelineId, wanted: &Wanted, fx: &mut Effects) {
        let Wanted { wait: Requester { conn, session, number }, wish } = wanted;
        let Some(storage) = &self.settings.media else { return };
        let slot = storage.slot(now.unix_s().into(), inbox.home_hash(), wish);
        fx.counters.count(ChatCounter::UploadsGranted);
        let answer = ChatDelivery::Upload { number: *number, slot: Box::new(slot) };
        self.answer_session((*conn, *session), answer, fx);
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

/// The key of the row with an account's use of uploads.
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
