//! Damage found at a start before its checkpoints: its owners, and whether the server starts.
//!
//! A stored message that can no longer be read is lost, whatever is done; its sender got a success.
//! So the operator gets its owner, and decides. Nothing is repaired here. Invariant: a start that
//! found a lost message serves only if the operator allowed it.

use super::StartError;
use base::hash::HashKey;
use base::text::escaped;
use model::ports::log::Table;
use model::timeline::TimelineId;
use model::{event, tell};
use std::collections::BTreeMap;
use std::fmt::Write;
use store::LostMessage;
use store::data::OpenFolder;
use store::engine::Inspection;

/// Tables whose rows say who owns a timeline.
const OWNERS: [Table; 4] =
    [Table::Devices, Table::Sessions, Table::ChatAccounts, Table::ChatGroups];

/// Lost messages that an error names; the log has more of them.
const NAMED_MAX: usize = 20;

/// Reports what is damaged. Fails when messages are lost by it, unless the server is to go on.
pub(super) fn look(opened: &OpenFolder, serves: bool) -> Result<(), StartError> {
    let lost = |one: &Inspection| one.lost_count;
    let count: u64 = opened.inspections.iter().map(lost).sum();
    let owners = if count > 0 { owners(opened)? } else { BTreeMap::new() };
    let mut text = String::new();
    for (log, inspection) in opened.inspections.iter().enumerate() {
        for damage in &inspection.damages {
            let (file, offset, why) = (damage.file.display(), damage.offset, &damage.why);
            tell!(event::RECORD_DAMAGED, log, %file, offset, %why);
            if inspection.lost_count > 0 {
                let _ = writeln!(text, "  {file} at byte {offset}: {why}");
            }
        }
        if inspection.lost_count > 0 {
            tell!(event::MESSAGES_LOST, log, messages = inspection.lost_count);
        }
    }
    let all = opened.inspections.iter().flat_map(|inspection| &inspection.lost);
    for (number, message) in all.enumerate() {
        let (owner, id, place) = (owner(&owners, message), message.id, message.seq);
        tell!(event::MESSAGE_LOST, %owner, message = id, place);
        if number < NAMED_MAX {
            let _ = writeln!(text, "  of {owner}: message {id}, sequence number {place}");
        }
    }
    if count == 0 || serves {
        return Ok(());
    }
    let more = count.saturating_sub(NAMED_MAX as u64);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more");
    }
    Err(StartError(format!(
        "stored messages are damaged on the disk ({count} of them):\n{text}restore a backup, or \
         make a folder of what is whole (holdline store salvage), or start without them: \
         serve_damaged = true in [store]"
    )))
}

/// Owner of each timeline, by the rows of all logs.
fn owners(opened: &OpenFolder) -> Result<BTreeMap<TimelineId, String>, StartError> {
    let home = opened.secrets.cluster.home();
    let mut owners = BTreeMap::new();
    for log in 0..opened.logs_on_disk() {
        for table in OWNERS {
            let read = opened.rows(log, table, &mut |key, value| {
                owners.extend(owners_of_row(home, table, (key, value)));
            });
            read.map_err(super::failed)?;
        }
    }
    Ok(owners)
}

fn owners_of_row(
    home: HashKey,
    table: Table,
    (key, value): (&[u8], &[u8]),
) -> Vec<(TimelineId, String)> {
    let device = hub::owner_of_row(home, table, key);
    let chat = chat::owner_of_row(home, table, (key, value));
    let sessions = broker::owners_of_row(home, table, key);
    device.into_iter().chain(chat).chain(sessions).collect()
}

/// Owner of a message; if the timeline has no known owner, the parties of its conversation.
fn owner(owners: &BTreeMap<TimelineId, String>, message: &LostMessage) -> String {
    let space = message.timeline.space();
    let known = |timeline: &TimelineId| owners.get(timeline).map(|name| escaped(name).to_string());
    if let Some(name) = known(&message.timeline) {
        return format!("{name} ({space:?})");
    }
    let between: Vec<String> =
        chat::inboxes_of_label(&message.label).iter().filter_map(known).collect();
    match between.is_empty() {
        false => format!("{} ({space:?})", between.join(" and ")),
        true => format!("{:?}", message.timeline),
    }
}
