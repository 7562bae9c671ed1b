//! The data folder at the start, and the running logs.
//!
//! In this order: open it, rehome it when the number of shards changed, restore the services,
//! start the logs. It has none of their rules. Invariant: nothing is answered to anybody before all
//! of it is done.

pub(super) mod archives;
pub(crate) mod backlog;
pub(super) mod backups;
mod damage;
pub(super) mod media;

use super::{LOOK, LOOKS, StartError, failed, folder, random};
use crate::access::Entrance;
use crate::archive::{Archive, ArchivePlace};
use crate::clock;
use crate::config::{self, Config};
use crate::shard_logic::{AnyService, Mail, running};
use crate::start::ServerOutside;
use crate::switchboard::Mailboxes;
use backlog::{HookBacklog, READER};
use base::hash::HashKey;
use base::time::Now;
use model::id::{NodeId, ShardId};
use model::ports::log::{Call, Completion, Party, Restored, Table, Ticket, Write};
use model::timeline::{ReaderId, Seq, Space, TimelineId};
use model::{event, tell};
use net::shard::ShardMessage;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use store::data::{FollowingFolder, LogSizes, Logs, OpenFolder, Secrets};
use store::engine::{Retention, RetentionRule};
use store::files::Disk;
use store::tools::backup::Copied;
use store::tools::{self, Means};
use store::{Fsync, LostMessage, OpenError};

/// An open data folder, before its logs are started.
pub(super) struct Folder {
    opened: OpenFolder,
    /// The key of the cluster's homes.
    pub(super) home: HashKey,
    /// Reports that wait, by timeline: how many, and each log with the last place there.
    reports: BTreeMap<TimelineId, (u64, BTreeMap<u16, Seq>)>,
    /// Where messages wait for an archive: how many, and the last place.
    archived: BTreeMap<ArchivePlace, (u64, Seq)>,
}

/// The running logs, and who asks them for the webhooks.
pub struct Storage {
    pub(super) logs: Arc<Logs>,
    pub(super) backlog: Arc<HookBacklog>,
    /// Whether the shards' mailboxes are no longer read.
    pub(super) over: Arc<AtomicBool>,
}

/// Opens the data folder, with a log for each shard, unless it is open already.
pub(super) fn open(
    config: &Config,
    (shards, taken_over): (usize, bool),
    led: Option<Box<OpenFolder>>,
) -> Result<Folder, StartError> {
    let began = clock::began();
    let mut opened = match led {
        Some(led) => *led,
        None => open_alone(config, (shards, taken_over))?,
    };
    tell_recovery(&opened, clock::since(began));
    damage::look(&opened, config.store.serve_damaged)?;
    folder::tell_readers(&config.server.data);
    let home = opened.secrets.cluster.home();
    let (node, boot, cluster) = (opened.node.number(), opened.boot, opened.secrets.cluster);
    tell!(event::FOLDER_IDENTITY, node, boot, cluster = format!("{:016x}", cluster.fingerprint()));
    let on_disk = opened.logs_on_disk();
    if usize::from(on_disk) != shards {
        tell!(event::SHARDS_CHANGED, logs = on_disk, shards);
        opened = opened.rehome(clock::unix_s()).map_err(failed)?;
    }
    Ok(Folder { opened, home, reports: BTreeMap::new(), archived: BTreeMap::new() })
}

/// Opens the folder of a server that is alone.
fn open_alone(
    config: &Config,
    (shards, taken_over): (usize, bool),
) -> Result<OpenFolder, StartError> {
    let path = &config.server.data;
    let member = tools::member::read(path, &Means::default()).map_err(failed)?;
    if let Some(member) = member.filter(|member| member.node != NodeId::ALONE) {
        return Err(StartError(format!(
            "{} belongs to node {} of a cluster, and must not be served alone: set [cluster] nats; \
             or, if the cluster is given up, run `holdline cluster remove {} --alone`",
            path.display(),
            member.node.number(),
            member.node.number()
        )));
    }
    let settings = settings(config, Secrets::of(random()?), shards as u16);
    unlocked(taken_over, || store::data::Folder::open(path, settings.clone(), Arc::new(Disk)))
}

/// Opens the folder of a node of a cluster, whose logs follow.
pub(super) fn follow(config: &Config, taken_over: bool) -> Result<FollowingFolder, StartError> {
    let path = &config.server.data;
    let member = tools::member::read(path, &Means::default()).map_err(failed)?;
    let Some(member) = member.filter(|member| member.node != NodeId::ALONE) else {
        return Err(StartError(format!(
            "[cluster] nats is set, but {} belongs to no cluster: run `holdline cluster create` \
             for the first node, or `holdline cluster join` for a further one",
            path.display()
        )));
    };
    let settings = settings(config, Secrets::of(random()?), member.logs);
    unlocked(taken_over, || {
        store::data::Folder::open_to_follow(path, settings.clone(), Arc::new(Disk))
    })
}

/// Opens a folder. One that was taken over may be locked for a moment longer: a process that was
/// killed lets go of its files one by one.
fn unlocked<T>(taken_over: bool, open: impl Fn() -> Result<T, OpenError>) -> Result<T, StartError> {
    let mut looks = if taken_over { LOOKS } else { 0 };
    loop {
        match open() {
            Err(OpenError::Locked { .. }) if looks > 0 => looks -= 1,
            opened => return opened.map_err(failed),
        }
        std::thread::sleep(LOOK);
    }
}

/// Rows of products, by key.
type Products = BTreeMap<Box<[u8]>, Box<[u8]>>;

impl Folder {
    /// The node's number in the cluster, and the number of this start.
    pub(super) fn node(&self) -> (NodeId, u64) {
        (self.opened.node, self.opened.boot)
    }

    /// The secrets of the cluster and of the node.
    pub(super) fn secrets(&self) -> Secrets {
        self.opened.secrets
    }

    /// Makes the logs agree on products, which each of them has: a crash may have come between
    /// one's answer and another's. The lowest that knows of a product holds; were the others left
    /// as they are, what is over in this one could come back from them at a later start.
    fn agree_on_products(&mut self) -> Result<Products, StartError> {
        let mut each = Vec::new();
        for log in 0..self.opened.logs_on_disk() {
            let mut rows = Products::new();
            let read = self.opened.rows(log, Table::Products, &mut |key, value| {
                rows.insert(key.into(), value.into());
            });
            read.map_err(failed)?;
            each.push(rows);
        }
        let mut agreed = Products::new();
        for (key, value) in each.iter().flatten() {
            agreed.entry(key.clone()).or_insert_with(|| value.clone());
        }
        for (log, rows) in (0..).zip(&each) {
            let differ = agreed.iter().filter(|(key, value)| rows.get(*key) != Some(value));
            let writes = differ.map(|(key, value)| {
                let (key, value) = (key.clone(), value.clone());
                Write::Put { table: Table::Products, key, value }
            });
            let writes: Vec<Write> = writes.collect();
            if !writes.is_empty() {
                enter(&mut self.opened, log, writes)?;
            }
        }
        Ok(agreed)
    }

    /// Gives the services of each shard what their log kept.
    pub(super) fn restore(
        &mut self,
        now: Now,
        services: &mut [Vec<Box<dyn AnyService>>],
        entrance: &Entrance,
    ) -> Result<(), StartError> {
        let began = clock::began();
        let products = self.agree_on_products()?;
        let (mut taken, mut left) = (0_u64, 0_u64);
        for (log, services) in services.iter_mut().enumerate() {
            let mut give = |restored: Restored<'_>| {
                let took = match restored {
                    Restored::Row { table: Table::Users, key, value } => {
                        entrance.restore(key, value)
                    }
                    Restored::Row { table: Table::ApiTokens, key, value } => {
                        entrance.restore_token(key, value)
                    }
                    Restored::Row { table: Table::Bans, key, value } => {
                        entrance.restore_ban(key, value)
                    }
                    kept => running::restore(services, now, kept),
                };
                if took {
                    taken += 1
                } else {
                    left += 1
                }
                running::want_entries(services, restored)
            };
            for (key, value) in &products {
                give(Restored::Row { table: Table::Products, key, value });
            }
            let (reports, archived) = (&mut self.reports, &mut self.archived);
            let restored = self.opened.restore(log as u16, &mut |restored| match restored {
                Restored::Row { table: Table::Products, .. } => false,
                Restored::Timeline { timeline, last, count, .. }
                    if timeline.space() == Space::Reports =>
                {
                    let (all, logs) = reports.entry(timeline).or_default();
                    *all += count;
                    logs.insert(log as u16, last);
                    false
                }
                Restored::Timeline { timeline, last, count, .. }
                    if timeline.space() == Space::Archive =>
                {
                    archived.insert((log as u16, timeline), (count, last));
                    false
                }
                other => give(other),
            });
            restored.map_err(failed)?;
        }
        entrance.restored().map_err(StartError)?;
        let ms = clock::since(began).as_millis() as u64;
        tell!(event::KEPT_IN_MEMORY, taken, ms);
        if left > 0 {
            tell!(event::KEPT_LEFT_OUT, left);
        }
        Ok(())
    }

    /// Drops the Reports that wait for webhooks that are not configured any more. It was asked for,
    /// so a webhook that comes back is not told that it lost them: its cursor is behind them. (Only
    /// a loss of power that tears the two writes apart has them told.)
    pub(super) fn forget_others(
        &mut self,
        timelines: &[Option<TimelineId>],
    ) -> Result<(), StartError> {
        for (timeline, (count, logs)) in std::mem::take(&mut self.reports) {
            if timelines.contains(&Some(timeline)) {
                continue;
            }
            tell!(event::REPORTS_ORPHANED, count);
            for (log, upto) in logs {
                let known = Write::Acknowledge { timeline, reader: READER, upto };
                enter(&mut self.opened, log, vec![Write::Forget(timeline), known])?;
            }
        }
        Ok(())
    }

    /// Where messages wait for the archive that there is. Without one they are dropped for it,
    /// which was asked for: an archive that comes later is not told that it lost them.
    pub(super) fn archive_places(
        &mut self,
        is_there: bool,
    ) -> Result<Vec<ArchivePlace>, StartError> {
        let found = std::mem::take(&mut self.archived);
        if is_there {
            return Ok(found.into_keys().collect());
        }
        for ((log, timeline), (count, upto)) in found {
            tell!(event::ARCHIVE_ORPHANED, count);
            let reader = crate::archive::READER;
            let known = Write::Acknowledge { timeline, reader, upto };
            enter(&mut self.opened, log, vec![Write::Forget(timeline), known])?;
        }
        Ok(Vec::new())
    }

    /// Starts the logs. Completions go to the shards' mailboxes and to the webhooks' backlog.
    pub(super) fn start(
        self,
        mailboxes: Mailboxes<ServerOutside>,
        (entrance, archive): (Arc<Entrance>, Option<Arc<Archive>>),
    ) -> Result<Storage, StartError> {
        let (over, told) = (Arc::new(AtomicBool::new(false)), Arc::new(OnceLock::new()));
        let (shards, home) = (mailboxes.len() as u16, self.home);
        let post = Arc::new(Post {
            mailboxes,
            backlog: told.clone(),
            entrance,
            archive,
            over: over.clone(),
        });
        let shards_told = Arc::clone(&post);
        self.opened.tell_lost(move |log, lost| shards_told.lost(log, lost));
        let on_complete = move |party, completions| post.complete(party, completions);
        let logs = self.opened.start(Arc::new(clock::unix_s), on_complete).map_err(failed)?;
        let logs = Arc::new(logs);
        let asked = logs.clone();
        let submit = Box::new(move |shard: ShardId, calls: Vec<(Ticket, Call)>| {
            asked.submit(Party::Hooks, shard.0, calls).is_ok()
        });
        let backlog = Arc::new(HookBacklog::new(shards, home, submit));
        told.set(backlog.clone()).unwrap_or_else(|_| unreachable!("set once"));
        Ok(Storage { logs, backlog, over })
    }
}

/// Logs that a backup is complete, under its final name.
fn tell_made(to: &Path, copied: &Copied) {
    let (bytes, linked) = (copied.bytes, copied.linked);
    tell!(event::BACKUP_MADE, to = %to.display(), bytes, linked);
}

impl Storage {
    /// How much there is in each log.
    pub(super) fn sizes(&self) -> Vec<LogSizes> {
        self.logs.sizes()
    }

    /// Copies the data folder to another one, and logs it; gives its bytes.
    pub(super) fn backup(&self, to: &Path) -> Result<u64, String> {
        let copied = self.copy(to)?;
        tell_made(to, &copied);
        Ok(copied.bytes)
    }

    /// Copies the data folder to another one.
    fn copy(&self, to: &Path) -> Result<Copied, String> {
        self.logs.backup(to).map_err(|error| error.to_string())
    }

    /// Answers the couriers; they ask nothing any more. The shards have ended.
    pub(super) fn let_couriers_go(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.backlog.close();
    }

    /// Does what waits, makes checkpoints, and lets the folder go.
    pub(super) fn close(&self) {
        self.logs.close();
    }
}

/// Where completions go.
struct Post {
    mailboxes: Mailboxes<ServerOutside>,
    backlog: Arc<OnceLock<Arc<HookBacklog>>>,
    entrance: Arc<Entrance>,
    archive: Option<Arc<Archive>>,
    over: Arc<AtomicBool>,
}

impl Post {
    /// A shard names whose message is lost. One that has no room for it is not waited for: file and
    /// byte are logged already.
    fn lost(&self, log: u16, lost: LostMessage) {
        if let Some(mailbox) = self.mailboxes.get(usize::from(log)) {
            drop(mailbox.put(ShardMessage::Mail(Mail::Lost(Box::new(lost)))));
            mailbox.ring();
        }
    }

    fn complete(&self, party: Party, completions: Vec<Completion>) {
        let (service, shard) = match party {
            Party::Service(service, shard) => (service, shard),
            Party::Users => return self.entrance.complete(completions),
            Party::Archive => {
                if let Some(archive) = &self.archive {
                    archive.complete(completions);
                }
                return;
            }
            Party::Hooks => {
                // Nobody asks before it is there.
                if let Some(backlog) = self.backlog.get() {
                    backlog.complete(completions);
                }
                return;
            }
        };
        // The log waits for a shard that is this far behind, and with it whoever waits for the
        // disk. A shard never waits for its log.
        insist(&self.mailboxes, shard, Mail::Completions(service, completions), &self.over);
    }
}

/// Puts mail that must not be lost into a shard's mailbox, waiting for room while there is anybody
/// to read it.
pub(super) fn insist(
    mailboxes: &Mailboxes<ServerOutside>,
    to: ShardId,
    mail: Mail,
    over: &AtomicBool,
) {
    let is_over = || over.load(Ordering::Relaxed);
    mailboxes[usize::from(to.0)].insist(ShardMessage::Mail(mail), is_over);
}

/// Retention of the logs.
fn retention(config: &Config) -> Vec<RetentionRule> {
    let (store, chat) = (&config.store, &config.chat);
    let waiting = |age_s_max: u32, count_max: u32| Retention {
        age_s_max: Some(age_s_max),
        count_max: Some(count_max.into()),
        ..Retention::default()
    };
    let kept = |age_s: u32, bytes: u64| Retention {
        age_s_max: Some(age_s).filter(|age_s| *age_s > 0),
        bytes_max: Some(bytes).filter(|bytes| *bytes > 0),
        gives_way: true,
        ..Retention::default()
    };
    let said = |age_s, bytes| Retention {
        marks: Some(ReaderId::RETENTION),
        rows: Some(Table::ChatRecalled),
        ..kept(age_s, bytes)
    };
    let single = said(chat.keep_conversations_s, chat.keep_conversation_bytes);
    let group = said(chat.keep_groups_s, chat.keep_group_bytes);
    let inbox = Retention {
        behind: Some(ReaderId::KNOWLEDGE),
        ..kept(chat.keep_inboxes_s, chat.keep_inbox_bytes)
    };
    let rule = |space, kind, retention| RetentionRule { space, kind, retention };
    vec![
        rule(Space::Reports, None, waiting(store.reports_age_s_max, store.reports_count_max)),
        rule(Space::Archive, None, waiting(store.archive_age_s_max, store.archive_count_max)),
        rule(Space::Conversation, Some(chat::SINGLE_KIND), single),
        rule(Space::Conversation, Some(chat::GROUP_KIND), group),
        rule(Space::Inbox, None, inbox),
    ]
}

fn settings(config: &Config, secrets: Secrets, logs: u16) -> store::data::Settings {
    let store = &config.store;
    store::data::Settings {
        fsync: match store.fsync {
            config::FsyncSetting::Always => Fsync::Always,
            config::FsyncSetting::Interval => {
                Fsync::Interval(Duration::from_millis(store.fsync_interval_ms.into()))
            }
            config::FsyncSetting::Never => Fsync::Never,
        },
        began_ms: clock::wall_ms(),
        segment_bytes: store.segment_bytes,
        log_bytes_max: store.log_bytes_max,
        hot_bytes_max: store.hot_bytes as usize,
        cache_bytes: store.cache_bytes,
        retention: retention(config),
        gives_way_percent: store.gives_way_percent as u8,
        once_count_max: store.once_count_max as usize,
        once_bytes_max: store.once_bytes as usize,
        once_age_s_max: store.once_age_s_max,
        index_changes_bytes: store.index_changes_bytes,
        checkpoint_bytes: store.checkpoint_bytes,
        checkpoint_s: store.checkpoint_s,
        inspect_bytes_max: store.check_bytes,
        ..store::data::Settings::new(secrets, logs)
    }
}

fn enter(opened: &mut OpenFolder, log: u16, writes: Vec<Write>) -> Result<(), StartError> {
    let answers = opened.commit(clock::unix_s(), log, &writes);
    match answers.into_iter().find_map(Result::err) {
        None => Ok(()),
        Some(error) => Err(StartError(format!(
            "the data folder cannot be written ({error:?}): free space on its disk, or raise \
             log_bytes_max in [store]"
        ))),
    }
}

/// Reports what the start found in the data folder.
fn tell_recovery(opened: &OpenFolder, took: Duration) {
    for (log, found) in opened.found.iter().enumerate() {
        let store::log::OpenedLog { segments, bytes, bytes_read, records, .. } = &found.log;
        let rebuilt = found.rebuilt && *records > 0;
        tell!(event::LOG_READ, log, segments, bytes, bytes_read, records, rebuilt);
        tell_end(log, &found.log);
    }
    let ms = took.as_millis() as u64;
    tell!(event::FOLDER_READ, logs = opened.found.len(), ms);
}

/// Reports what is known of a log whose end is not as it was written, and no more.
fn tell_end(log: usize, found: &store::log::OpenedLog) {
    if let Some(missing) = found.missing() {
        let store::log::Missing { promised, end } = missing;
        tell!(event::PROMISED_MISSING, log, ?promised, ?end, records = missing.records());
    }
    let Some(torn) = &found.torn else { return };
    match (found.promised, found.missing()) {
        (None, _) => tell!(event::TORN_END_CUT, log, ?torn, promised = "unknown"),
        (Some(promised), None) => tell!(event::TORN_END_CUT, log, ?torn, ?promised),
        (Some(_), Some(_)) => tell!(event::TORN_END_CUT, log, ?torn),
    }
}

#[cfg(test)]
mod tests;
