//! A node as a server would run it, without a server: it leads, writes, leaves, is killed, wiped.

use base::hash::HashKey;
use base::secret::ClusterSecret;
use model::id::{NodeId, ShardId};
use model::ports::log::{
    Append, Call, Completion, Done, Party, Pull, Read, StoreError, Ticket, Write,
};
use model::service::ServiceKind;
use model::timeline::{Message, Placed, Space, TimelineId};
use nats::{Nats, NatsSettings};
use replication::{
    ClusterNotice, ClusterSettings, ClusterStatus, LeaderAddress, LeaveReason, Replication, Turn,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use store::data::{Folder, Logs, OpenFolder, Secrets, Settings};
use store::files::Disk;
use tempfile::TempDir;

const NOW_S: u32 = 1_700_000_000;
const PARTY: Party = Party::Service(ServiceKind::Chat, ShardId(0));

/// Timelines of each log.
const TIMELINES: u64 = 20;

/// Longest wait for a condition: steps of a tenth of a second.
const STEPS: u32 = 900;
const STEP: Duration = Duration::from_millis(100);

/// Settings of all nodes of the test.
pub(crate) const TEST: Shape = Shape { logs: 2, secret: [7; 64] };

pub(crate) struct Shape {
    pub(crate) logs: u16,
    secret: [u8; 64],
}

/// Starts of nodes of all tests.
static STARTS: AtomicU32 = AtomicU32::new(1_000);

type Answers = BTreeMap<Ticket, Result<Done, StoreError>>;

/// Answers by ticket.
#[derive(Clone, Default)]
struct Told(Arc<(Mutex<Answers>, Condvar)>);

impl Told {
    fn answer(&self, ticket: Ticket) -> Option<Result<Done, StoreError>> {
        self.0.0.lock().expect("nobody panics with it").get(&ticket).cloned()
    }
}

/// A node.
pub(crate) struct Node {
    number: u16,
    folder: TempDir,
    replication: Option<Replication>,
    logs: Option<Arc<Logs>>,
    told: Told,
    ticket: Ticket,
    notices: Vec<ClusterNotice>,
    /// A folder to lead and a reason to leave that came while something else was waited for.
    to_lead: Option<OpenFolder>,
    to_leave: Option<(LeaveReason, Option<LeaderAddress>)>,
    /// Messages that were answered: log, timeline, place, number.
    answered: Vec<(u16, u64, u64, u64)>,
}

pub(crate) fn number(number: u16) -> NodeId {
    NodeId::new(number).expect("a node")
}

pub(crate) fn fingerprint() -> u64 {
    let mut secret = [0; 32];
    secret.copy_from_slice(&TEST.secret[..32]);
    ClusterSecret::new(secret).fingerprint()
}

/// A connection of the test's own.
pub(crate) fn door(servers: &[String]) -> Nats {
    let settings = NatsSettings { servers: servers.to_vec(), ..NatsSettings::default() };
    Nats::connect(&settings, "test", false, Arc::new(|_| {})).expect("NATS answers")
}

fn timeline(number: u64) -> TimelineId {
    TimelineId::of(Space::Other, HashKey::new(1, 2), &[&number.to_le_bytes()])
}

impl Node {
    pub(crate) fn new(number: u16) -> Node {
        Node {
            number,
            folder: tempfile::tempdir().expect("a folder"),
            replication: None,
            logs: None,
            told: Told::default(),
            ticket: 0,
            notices: Vec::new(),
            to_lead: None,
            to_leave: None,
            answered: Vec::new(),
        }
    }

    pub(crate) fn number(&self) -> NodeId {
        number(self.number)
    }

    pub(crate) fn notices(&self) -> &[ClusterNotice] {
        &self.notices
    }

    /// The cluster's name as the folder remembers it.
    pub(crate) fn cluster_name(&self) -> Option<String> {
        let name = store::tools::member::cluster_name(self.folder.path(), &Default::default());
        name.expect("it reads")
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.logs.is_some() && self.to_leave.is_none()
    }

    /// Begins to follow.
    pub(crate) fn begin(&mut self, servers: &[String]) {
        let mut settings = Settings::new(Secrets::of(TEST.secret), TEST.logs);
        (settings.segment_bytes, settings.checkpoint_bytes) = (100_000, 50_000);
        settings.cache_bytes = 1 << 20;
        // A folder that is wiped begins above what it was, as by the clock.
        settings.began_ms = u64::from(STARTS.fetch_add(1, Ordering::Relaxed));
        let folder = Folder::open_to_follow(self.folder.path(), settings, Arc::new(Disk));
        let settings = ClusterSettings {
            name: "test".into(),
            nats: NatsSettings { servers: servers.to_vec(), ..NatsSettings::default() },
            node: self.number(),
            node_name: format!("n{}", self.number),
            advertise: vec![format!("n{}:1883", self.number)],
            followers: 1,
            copies_min: 1,
        };
        let begun = Replication::begin(settings, folder.expect("it opens"));
        self.replication = Some(begun.expect("it begins"));
    }

    /// Takes what the node is told, until something is so.
    fn turn_until(&mut self, what: &str, mut is_so: impl FnMut(&mut Node) -> bool) {
        for _ in 0..STEPS {
            if is_so(self) {
                return;
            }
            let turn = self.replication.as_ref().expect("it runs").turn(STEP);
            self.take(turn);
        }
        let status = self.replication.as_ref().map(Replication::status);
        panic!("node {}: in vain waited until {what}: {status:?} {:?}", self.number, self.notices);
    }

    fn take(&mut self, turn: Option<Turn>) {
        match turn {
            Some(Turn::Lead(open)) => self.to_lead = Some(*open),
            Some(Turn::Leave { why, to }) => self.to_leave = Some((why, to)),
            Some(Turn::Notice(notice)) => self.notices.push(notice),
            Some(Turn::Follow(_)) | None => {}
        }
    }

    /// Waits for a notice.
    pub(crate) fn until_notice(&mut self, what: &str, is_it: impl Fn(&ClusterNotice) -> bool) {
        self.turn_until(what, |node| node.notices.iter().any(&is_it));
    }

    /// Waits until its status is so.
    pub(crate) fn until(
        &mut self,
        what: &str,
        is_so: impl Fn(&ClusterStatus) -> bool,
    ) -> ClusterStatus {
        let mut found = None;
        self.turn_until(what, |node| {
            let status = node.replication.as_ref().expect("it runs").status();
            found = Some(status).filter(|status| !status.logs.is_empty() && is_so(status));
            found.is_some()
        });
        found.expect("it is so")
    }

    /// Waits until it leads, and serves.
    pub(crate) fn lead(&mut self) {
        self.turn_until("it leads", |node| node.to_lead.is_some());
        let open = self.to_lead.take().expect("it is there");
        self.told = Told::default();
        let told = self.told.clone();
        let tell = move |_, completions: Vec<Completion>| {
            told.0.0.lock().expect("nobody panics with it").extend(completions);
            told.0.1.notify_all();
        };
        let logs = Arc::new(open.start(Arc::new(|| NOW_S), tell).expect("threads"));
        self.replication.as_ref().expect("it runs").opened(Arc::clone(&logs));
        self.logs = Some(logs);
        self.until("it serves", |status| status.leads);
    }

    pub(crate) fn until_it_is_to_leave(&mut self) {
        self.turn_until("it is to leave", |node| node.to_leave.is_some());
    }

    /// Waits until it must leave, and does.
    pub(crate) fn leave(&mut self) -> (LeaveReason, Option<LeaderAddress>) {
        self.until_it_is_to_leave();
        self.note_answers();
        self.close();
        self.replication.take().expect("it runs").closed();
        self.to_leave.take().expect("it is there")
    }

    fn close(&mut self) {
        if let Some(logs) = self.logs.take() {
            logs.close();
        }
    }

    /// Ends at once.
    pub(crate) fn kill(&mut self) {
        self.note_answers();
        drop(self.replication.take());
        self.close();
    }

    /// A node with this one's number, whose folder is a copy of this one's.
    pub(crate) fn copy_of_folder(&self) -> Node {
        assert!(self.replication.is_none(), "it does not run");
        let copy = Node::new(self.number);
        let files = std::process::Command::new("cp")
            .arg("-a")
            .arg(self.folder.path().join("."))
            .arg(copy.folder.path())
            .status();
        assert!(files.expect("cp runs").success());
        copy
    }

    pub(crate) fn wipe(&mut self) {
        assert!(self.replication.is_none(), "it does not run");
        self.folder = tempfile::tempdir().expect("a folder");
    }

    /// Cuts off what the newest segment of log 0 has.
    pub(crate) fn damage(&mut self) {
        assert!(self.replication.is_none(), "it does not run");
        let files = std::fs::read_dir(self.folder.path().join("log-00")).expect("a log");
        let paths = files.map(|entry| entry.expect("an entry").path());
        let segments = paths.filter(|path| path.extension().is_some_and(|it| it == "log"));
        let newest = segments.max().expect("a segment");
        let file = std::fs::OpenOptions::new().write(true).open(newest).expect("it opens");
        file.set_len(60).expect("a disk");
    }

    /// Writes so many messages to each log, and waits until all are answered.
    pub(crate) fn write(&mut self, count: u64) {
        let tickets = self.submit(count);
        self.turn_until("all is answered", |node| node.answered(&tickets) == tickets.len());
        let is_good = |ticket: &Ticket| matches!(self.told.answer(*ticket), Some(Ok(_)));
        assert!(tickets.iter().all(is_good), "{:?}", self.told.answer(tickets[0]));
        self.note_answers();
    }

    /// Hands so many messages to each log.
    pub(crate) fn submit(&mut self, count: u64) -> Vec<Ticket> {
        let logs = self.logs.as_ref().expect("it leads");
        let mut tickets = Vec::new();
        for _ in 0..count {
            for log in 0..TEST.logs {
                self.ticket += 1;
                let id = u64::from(self.number) << 32 | self.ticket;
                let body = vec![id as u8; 100 + (id % 700) as usize].into();
                let message = Arc::new(Message { id, at_s: NOW_S, label: [1].into(), body });
                let to = vec![timeline(id % TIMELINES)];
                let append = Append { message, to, once: None, heard: None, ends: false };
                let call = Call::Write(Write::Append(append));
                let taken = logs.submit(PARTY, log, vec![(self.ticket, call)]);
                assert!(taken.is_ok(), "there is room");
                tickets.push(self.ticket);
            }
        }
        tickets
    }

    /// How many of these have an answer that says that it is stored.
    pub(crate) fn answered(&self, tickets: &[Ticket]) -> usize {
        let is_good = |ticket: &&Ticket| matches!(self.told.answer(**ticket), Some(Ok(_)));
        tickets.iter().filter(is_good).count()
    }

    /// Remembers what was answered.
    fn note_answers(&mut self) {
        let answers = self.told.0.0.lock().expect("nobody panics with it");
        for (ticket, answer) in answers.iter() {
            let Ok(Done::Appended(done)) = answer else { continue };
            let log = ((ticket - 1) % u64::from(TEST.logs)) as u16;
            let entry = (log, done.id % TIMELINES, done.seqs[0], done.id);
            if !self.answered.contains(&entry) {
                self.answered.push(entry);
            }
        }
    }

    /// Everything that these nodes answered is here, where they said, once, and in order.
    pub(crate) fn has_all_of(&mut self, others: &[&Node]) {
        let mut found = Vec::new();
        for log in 0..TEST.logs {
            for number in 0..TIMELINES {
                found.extend(self.entries(log, number));
            }
        }
        let wanted = others.iter().flat_map(|node| &node.answered).chain(&self.answered);
        for entry in wanted {
            assert!(found.contains(entry), "node {} lacks {entry:?}", self.number);
        }
        let mut ids: Vec<u64> = found.iter().map(|(_, _, _, id)| *id).collect();
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "one is there twice");
    }

    fn entries(&mut self, log: u16, number: u64) -> Vec<(u16, u64, u64, u64)> {
        let (mut from, mut all) = (0, Vec::new());
        loop {
            let timeline = timeline(number);
            let (count_max, bytes_max) = (100, 1 << 20);
            let pull = Pull { timeline, from, backwards: false, count_max, bytes_max };
            self.ticket += TEST.logs as u64; // so that a ticket still tells its log
            let ticket = self.ticket;
            let call = Call::Read(Read::Pull(pull));
            let logs = self.logs.as_ref().expect("it leads");
            assert!(logs.submit(PARTY, log, vec![(ticket, call)]).is_ok(), "there is room");
            self.turn_until("a page comes", |node| node.told.answer(ticket).is_some());
            let Some(Ok(Done::Page(page))) = self.told.answer(ticket) else { panic!("no page") };
            let entry = |it: &Placed| (log, number, it.seq, it.message.id);
            all.extend(page.messages.iter().map(entry));
            let Some(last) = page.messages.last() else { return all };
            from = last.seq;
        }
    }
}
