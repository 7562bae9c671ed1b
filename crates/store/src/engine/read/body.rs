//! Reading a message from the log, where the index says that it stands.

use super::{runs, state_failed};
use crate::LostMessage;
use crate::engine::record::Said;
use crate::engine::record::stored::{Entry, Stored};
use crate::engine::state::State;
use crate::log::{Place, ReadError, Reader, RecordKind};
use model::ports::log::StoreError;
use model::timeline::{Message, Seq, TimelineId};
use model::{event, tell};
use std::sync::Arc;

/// The message of an entry; `None` if it left the timeline meanwhile.
///
/// A segment is removed only after state knows where its messages stand now. So when it is not
/// there any more, state is asked once.
pub(crate) fn message_of(
    reader: &Reader,
    state: &dyn State,
    timeline: TimelineId,
    entry: &Entry,
) -> Result<Option<Arc<Message>>, StoreError> {
    match message_at(reader, &entry.stored) {
        Ok(message) => Ok(Some(Arc::new(message))),
        Err(ReadError::Gone) => again(reader, state, timeline, entry),
        Err(error) => Err(unreadable(&error, reader, (timeline, entry))),
    }
}

/// The message that stands there.
pub(crate) fn message_at(reader: &Reader, stored: &Stored) -> Result<Message, ReadError> {
    let place = stored.place;
    let damaged = |why| ReadError::Damaged { place, why };
    let (kind, payload) = reader.read(place, stored.length)?;
    if !matches!(kind, RecordKind::Append | RecordKind::Move) {
        return Err(damaged("another record in place of a message"));
    }
    let said = Said::read(&payload).ok_or_else(|| damaged("invalid record"))?;
    let message = said.message().ok_or_else(|| damaged("a record has no message"))?;
    if message.id != stored.id || message.at_s != stored.at_s {
        return Err(damaged("another message in its place"));
    }
    Ok(message)
}

fn again(
    reader: &Reader,
    state: &dyn State,
    timeline: TimelineId,
    before: &Entry,
) -> Result<Option<Arc<Message>>, StoreError> {
    let seq: Seq = before.seq;
    let found = runs::entry(state, timeline, seq).map_err(|error| state_failed(&error))?;
    let Some(entry) = found else { return Ok(None) };
    match message_at(reader, &entry.stored) {
        Ok(message) => Ok(Some(Arc::new(message))),
        Err(error) => Err(unreadable(&error, reader, (timeline, &entry))),
    }
}

/// Reports what cannot be read, with its file and place, and tells whoever knows whose it is.
fn unreadable(
    error: &ReadError,
    reader: &Reader,
    (timeline, entry): (TimelineId, &Entry),
) -> StoreError {
    let Entry { seq, stored } = entry;
    let Place { segment, offset } = stored.place;
    let file = format!("{segment:010}.log");
    match error {
        ReadError::Gone => tell!(event::SEGMENT_MISSING, file, offset),
        ReadError::Damaged { why, .. } => {
            tell!(event::MESSAGE_DAMAGED, file, offset, why)
        }
        ReadError::Io(error) => {
            tell!(event::MESSAGE_UNREADABLE, file, offset, %error);
            return StoreError::Failed;
        }
    }
    if let Some(tell) = reader.on_lost() {
        let (seq, id, label) = (*seq, stored.id, stored.label.clone());
        tell(LostMessage { timeline, seq, id, label });
    }
    StoreError::Damaged
}
