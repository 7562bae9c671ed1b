//! One node beside streams, a table and copies that answer at once: what single rules are for.

use super::*;
use crate::batch::tests::batch;
use crate::counting::Counting;
use crate::port::{PublishNumber, StreamError, StreamPage};
use crate::rules::without;
use crate::wire::beat::Beat;
use crate::wire::message::messages_of;
use std::collections::{BTreeMap, VecDeque};

const NAME: LogName = LogName { cluster: 1, log: 0 };

fn by(node: u16) -> LogLeader {
    LogLeader { node: NodeId::new(node).expect("a node"), boot: 1 }
}

fn messages(node: u16, batches: &[&StreamBatch]) -> Vec<Vec<u8>> {
    let one = |batch: &&StreamBatch| messages_of(NAME, by(node), std::slice::from_ref(*batch));
    batches.iter().flat_map(one).collect()
}

struct Stream {
    first: u64,
    messages: Vec<Vec<u8>>,
}

impl Stream {
    fn last(&self) -> u64 {
        self.first + self.messages.len() as u64 - 1
    }

    fn publish(&mut self, expected: u64, message: Vec<u8>) -> Result<u64, StreamError> {
        if expected != self.last() {
            return Err(StreamError::Refused);
        }
        self.messages.push(message);
        Ok(self.last())
    }

    /// Whether this batch counts in it.
    fn counts(&self, batch: &StreamBatch) -> bool {
        let mut counting = Counting::new(NAME, self.first);
        let messages = self.messages.iter().zip(self.first..);
        let counted = messages.filter_map(|(it, at)| counting.read(at, it).expect("no gap"));
        counted.flat_map(|it| it.batches).any(|it| it == *batch)
    }
}

/// Events as soon as a node claims: between the reading that it knows and the next one.
#[derive(Default)]
struct OnClaim {
    /// Another node's message comes into the stream of generation 1.
    comes: Option<Vec<u8>>,
    /// The claimer's next page lacks so many messages.
    stale: u64,
}

struct Bench {
    replica: Replica,
    now: Instant,
    proof: MajorityProof,
    peers: PeerBeats,
    streams: BTreeMap<u32, Stream>,
    table: Option<(u64, LogEntry)>,
    disk: Vec<StreamBatch>,
    /// Answers of other copies; those that are missing are silent.
    copies: Vec<LogBeat>,
    on_claim: OnClaim,
    /// A message that comes to generation 1 when generation 2 is made, and what it is told.
    late: Option<(u64, Vec<u8>)>,
    late_result: Option<Result<u64, StreamError>>,
    stale: u64,
    /// NATS has no room.
    is_full: bool,
    /// No stream is made.
    makes_none: bool,
    /// Publishes are not answered.
    is_mute: bool,
    /// Readings are not answered.
    is_deaf: bool,
    /// The table does not answer.
    is_unproved: bool,
    /// The own log is not read yet: the answer.
    held: Option<VecDeque<LogEvent>>,
    done: Vec<LogCommand>,
}

impl Bench {
    /// Node 2 with this log, acknowledged up to an index.
    fn new(disk: &[&StreamBatch], acknowledged: u64, table: Option<LogEntry>) -> Bench {
        let disk: Vec<StreamBatch> = disk.iter().copied().cloned().collect();
        let ends = [LogEnd::default()].into_iter().chain(disk.iter().map(StreamBatch::end));
        let me = LogLeader { boot: 2, ..by(2) };
        Bench {
            replica: Replica::new(NAME, me, OwnLog::new(ends, acknowledged)),
            now: Instant::default(),
            proof: MajorityProof::default(),
            peers: PeerBeats::default(),
            streams: BTreeMap::from([(1, Stream { first: 1, messages: Vec::new() })]),
            table: table.map(|entry| (1, entry)),
            disk,
            copies: Vec::new(),
            on_claim: OnClaim::default(),
            late: None,
            late_result: None,
            stale: 0,
            is_full: false,
            makes_none: false,
            is_mute: false,
            is_deaf: false,
            is_unproved: false,
            held: None,
            done: Vec::new(),
        }
    }

    fn stream(&mut self) -> &mut Stream {
        self.streams.get_mut(&1).expect("it is there")
    }

    /// Lets so many seconds pass.
    fn run(&mut self, seconds: u64) -> &mut Bench {
        self.ticks(seconds * 10)
    }

    /// Lets so many tenths of a second pass.
    fn ticks(&mut self, count: u64) -> &mut Bench {
        if self.now == Instant::default() {
            self.tell_table();
        }
        for _ in 0..count {
            self.now = self.now + Duration::from_millis(100);
            if let Some(ask) = self.proof.tick(self.now).filter(|_| !self.is_unproved) {
                self.proof.proved(ask);
            }
            self.on(LogEvent::Tick);
        }
        self
    }

    /// Another node's beat.
    fn hear(&mut self, node: u16, log: LogBeat) {
        self.peers.hear(self.now, Beat { by: by(node), clock: 0, logs: vec![log] });
    }

    fn tell_table(&mut self) {
        let (revision, entry) = self.table.clone().unzip();
        self.on(LogEvent::Table { revision: revision.unwrap_or(0), entry });
    }

    fn on(&mut self, event: LogEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let (proof, peers) = (&self.proof, &self.peers);
            let view = NodeView { now: self.now, proof, peers, copies_min: 1 };
            let mut out = Vec::new();
            self.replica.on(&view, event, &mut out);
            for command in out {
                self.done.push(command.clone());
                self.carry_out(command, &mut events);
            }
        }
    }

    fn carry_out(&mut self, command: LogCommand, events: &mut VecDeque<LogEvent>) {
        match command {
            LogCommand::Publish { generation, number, expected, message } => {
                let stream = self.streams.get_mut(&generation).ok_or(StreamError::Gone);
                let result = stream.and_then(|stream| match self.is_full {
                    true => Err(StreamError::Full),
                    false => stream.publish(expected, message),
                });
                let event = LogEvent::Published { generation, number, result };
                events.extend(Some(event).filter(|_| !self.is_mute));
            }
            LogCommand::Read { generation, ask, from, wait } => {
                let page = self.page(generation, from, wait).filter(|_| !self.is_deaf);
                events.extend(page.map(|result| LogEvent::Read { ask, result }));
            }
            LogCommand::Create { .. } if self.makes_none => {}
            LogCommand::Create { generation, ask } => {
                if let Some((expected, message)) = self.late.take() {
                    self.late_result = Some(self.stream().publish(expected, message));
                }
                let result = if self.is_full { Err(StreamError::Full) } else { Ok(()) };
                if result.is_ok() {
                    let empty = Stream { first: 1, messages: Vec::new() };
                    self.streams.entry(generation).or_insert(empty);
                }
                events.push_back(LogEvent::Created { ask, result });
            }
            LogCommand::Claim { ask, revision, entry } => {
                let is_current = self.table.as_ref().is_some_and(|(it, _)| *it == revision);
                let set = is_current.then_some(revision + 1);
                if let Some(revision) = set {
                    self.table = Some((revision, entry.clone()));
                    events.push_back(LogEvent::Table { revision, entry: Some(entry) });
                }
                events.push_back(LogEvent::Claimed { ask, revision: set });
                let OnClaim { comes, stale } = std::mem::take(&mut self.on_claim);
                self.stale = stale;
                if let Some(stream) = self.streams.get_mut(&1) {
                    stream.messages.extend(comes);
                }
            }
            LogCommand::AskCopies { ask } => {
                let nodes = [1, 3].map(|node| by(node).node);
                let answers = nodes.into_iter().zip(self.copies.clone());
                let event = |(node, state)| LogEvent::CopyState { ask, node, state };
                events.extend(answers.map(event));
            }
            LogCommand::ReadLog { ask, from } => {
                let batches = self.disk.iter().filter(|it| it.first_index() >= from).cloned();
                let event = LogEvent::LogRead { ask, batches: batches.collect() };
                self.held.as_mut().unwrap_or(events).push_back(event);
            }
            LogCommand::Append { batch } => self.disk.push(batch),
            LogCommand::Cut { behind } => self.disk.retain(|it| it.last_index() <= behind.index),
            LogCommand::Open { .. } => events.push_back(LogEvent::Opened),
            LogCommand::Close { .. } => events.push_back(LogEvent::Closed),
            _ => {}
        }
    }

    fn page(
        &mut self,
        generation: u32,
        from: u64,
        wait: bool,
    ) -> Option<Result<StreamPage, StreamError>> {
        let Some(stream) = self.streams.get(&generation) else {
            return Some(Err(StreamError::Gone));
        };
        let first = stream.first;
        let last =
            if wait { stream.last() } else { stream.last() - std::mem::take(&mut self.stale) };
        let all = (first..=last).zip(stream.messages.iter().cloned());
        let messages: Vec<(u64, Vec<u8>)> = all.filter(|(at, _)| *at >= from).collect();
        let is_there = !wait || !messages.is_empty();
        is_there.then_some(Ok(StreamPage { first, last, messages }))
    }

    /// The epochs under which it opened its log.
    fn opened(&self) -> Vec<u32> {
        let of = |command: &LogCommand| match command {
            LogCommand::Open { epoch } => Some(*epoch),
            _ => None,
        };
        self.done.iter().filter_map(of).collect()
    }

    fn leads(&self) -> bool {
        let (proof, peers) = (&self.proof, &self.peers);
        self.replica.leads(&NodeView { now: self.now, proof, peers, copies_min: 1 })
    }

    fn leads_or_fences(&self) -> bool {
        self.replica.beat().role == LogRole::Leading
    }

    /// The copy of node 3 has all that the leader has, on its disk.
    fn hear_of_copy(&mut self) {
        let (epoch, index) = (1, self.replica.own().end().index);
        let role = LogRole::Following;
        self.hear(3, LogBeat { log: 0, role, generation: 1, epoch, index, synced: index });
    }

    /// The first sequences that stay after each purge.
    fn purges(&self) -> Vec<u64> {
        let below = |it: &LogCommand| match it {
            LogCommand::Purge { below, .. } => Some(*below),
            _ => None,
        };
        self.done.iter().filter_map(below).collect()
    }

    fn claims(&self) -> bool {
        self.done.iter().any(|it| matches!(it, LogCommand::Claim { .. }))
    }
}

/// Node 1 leads by the epoch 1; node 2 follows.
fn led() -> Option<LogEntry> {
    let (leader, followers) = (Some(by(1)), vec![by(2).node]);
    Some(LogEntry { generation: 1, epoch: 1, leader, followers, ..LogEntry::default() })
}

/// The Lead of node 1, and three batches behind it.
fn four() -> [StreamBatch; 4] {
    let lead = StreamBatch::lead(LogEnd::default(), 1, by(1));
    let a = batch(lead.end(), 1, &[b"a"]);
    let b = batch(a.end(), 1, &[b"b"]);
    let c = batch(b.end(), 1, &[b"c"]);
    [lead, a, b, c]
}

/// Node 2, which leads by the epoch 1.
fn leading() -> Bench {
    let followers = vec![by(2).node];
    let entry = LogEntry { generation: 1, followers, ..LogEntry::default() };
    let mut bench = Bench::new(&[], 0, Some(entry));
    assert!(bench.run(9).opened() == [1] && bench.leads());
    bench
}

/// Node 2, which leads by the epoch 1 and has written two batches behind its Lead; nodes 1 and 3
/// have copies.
fn leading_with_copies() -> Bench {
    let followers = [2, 1, 3].map(|node| by(node).node).to_vec();
    let entry = LogEntry { generation: 1, followers, ..LogEntry::default() };
    let mut bench = Bench::new(&[], 0, Some(entry));
    bench.copies = vec![empty(), empty()];
    assert!(bench.run(9).opened() == [1] && bench.leads());
    for payload in [b"a", b"b"] {
        let next = batch(bench.disk[bench.disk.len() - 1].end(), 1, &[payload]);
        bench.disk.push(next.clone());
        bench.on(LogEvent::Written { batch: next });
    }
    assert_eq!(bench.stream().messages.len(), 3);
    bench
}

/// A copy that has nothing.
fn empty() -> LogBeat {
    let role = LogRole::Following;
    LogBeat { log: 0, role, generation: 1, epoch: 0, index: 0, synced: 0 }
}

#[test]
fn an_empty_table_is_never_a_beginning() {
    let alone = || std::mem::take(&mut Bench::new(&[], 0, None).run(90).done);
    let told = LogCommand::Tell(LogNotice::WaitsForRecover);
    assert_eq!(alone(), [told], "an operator is told, once");
    let claims =
        |done: Vec<LogCommand>| done.iter().any(|it| matches!(it, LogCommand::Claim { .. }));
    let rule = Rule::EmptyTableIsNoBeginning;
    assert!(claims(without(rule, alone)), "without the rule it begins");
}

#[test]
fn a_node_that_the_table_does_not_name_does_nothing() {
    let entry = |node: u16| {
        let followers = vec![by(node).node];
        Some(LogEntry { generation: 1, followers, ..LogEntry::default() })
    };
    assert!(Bench::new(&[], 0, entry(1)).run(90).done.is_empty());
    let mut bench = Bench::new(&[], 0, entry(2));
    assert!(bench.run(9).claims() && bench.opened() == [1]);
}

/// A cluster that is made at a folder with data needs the room of one stream, not of two.
#[test]
fn a_log_with_data_begins_its_first_stream_where_nobody_ever_led() {
    let [lead, a, b, _] = four();
    let begun = |epoch| {
        let followers = vec![by(2).node];
        let entry = LogEntry { generation: 1, epoch, followers, ..LogEntry::default() };
        let mut bench = Bench::new(&[&lead, &a, &b], b.last_index(), Some(entry));
        bench.run(90);
        bench
    };
    let bench = begun(0);
    assert!(bench.leads() && bench.streams.keys().eq(&[1]), "it goes on in the first stream");
    assert!(bench.streams[&1].counts(&b), "behind its own last batch");
    assert!(
        !bench.done.iter().any(|it| matches!(it, LogCommand::Tell(_))),
        "nothing was forgotten"
    );
    let bench = begun(1);
    assert!(bench.leads() && bench.streams.contains_key(&2), "somebody led: the stream forgot");
}

/// A cluster was made at a folder with data; another node joined before the first one ever led.
#[test]
fn an_empty_copy_does_not_found_the_cluster_while_another_one_is_silent_or_has_data() {
    let begun = |copies: &[LogBeat]| {
        let followers = vec![by(1).node, by(2).node];
        let entry = LogEntry { generation: 1, followers, ..LogEntry::default() };
        let mut bench = Bench::new(&[], 0, Some(entry));
        bench.copies = copies.to_vec();
        bench.run(200);
        (bench.claims(), bench.opened().len())
    };
    assert_eq!(begun(&[]), (false, 0), "the silent one may have data");
    assert_eq!(begun(&[LogBeat { index: 9, synced: 9, ..empty() }]), (false, 0));
    assert_eq!(begun(&[LogBeat { synced: 9, ..empty() }]), (false, 0), "its mark is lost");
    assert_eq!(begun(&[empty()]), (true, 1), "nobody has anything");
}

/// The leader is silent, and another follower claims: it is named before it is heard as a leader.
#[test]
fn whoever_has_just_claimed_has_as_long_to_lead_as_a_leader_may_be_silent() {
    let [lead, ..] = four();
    let entry = |leader: u16, epoch, followers: [u16; 2]| {
        let followers = followers.map(|node| by(node).node).to_vec();
        let leader = Some(by(leader));
        LogEntry { generation: 1, epoch, leader, followers, ..LogEntry::default() }
    };
    let mut bench = Bench::new(&[&lead], 1, Some(entry(1, 1, [3, 2])));
    bench.stream().messages = messages(1, &[&lead]);
    bench.copies = vec![empty(), empty()];
    assert!(!bench.run(7).claims(), "the other one is first");
    bench.table = Some((2, entry(3, 2, [1, 2])));
    bench.tell_table();
    assert!(!bench.run(8).claims());
    assert!(bench.run(3).claims(), "it does not come to lead");
}

/// A power cut took the mark of the leader's disk and the end of the stream: what its clients were
/// told is in the tail alone.
#[test]
fn a_restarted_leader_publishes_what_the_stream_lacks() {
    let [lead, a, b, _] = four();
    let keeps = || {
        let (leader, followers) = (Some(by(2)), vec![by(1).node]);
        let entry = LogEntry { generation: 1, epoch: 1, leader, followers, ..LogEntry::default() };
        let mut bench = Bench::new(&[&lead, &a, &b], 2, Some(entry));
        bench.stream().messages = messages(2, &[&lead, &a]);
        assert_eq!(bench.run(9).opened(), [2]);
        bench.disk.contains(&b) && bench.stream().counts(&b)
    };
    assert!(keeps());
    assert!(!without(Rule::PublishTheTail, keeps), "without the rule it is cut");
}

/// The stream forgot `b`, which the claimer has. A message of the leader before is under way.
#[test]
fn nothing_is_acknowledged_in_a_generation_that_is_over() {
    let [lead, a, b, _] = four();
    let other = batch(a.end(), 1, &[b"B"]);
    let late = || {
        let mut bench = Bench::new(&[&lead, &a, &b], 3, led());
        bench.stream().messages = messages(1, &[&lead, &a]);
        bench.copies = vec![empty()];
        bench.late = Some((2, messages(1, &[&other]).remove(0)));
        assert_eq!(bench.run(12).opened(), [2]);
        assert!(bench.disk.contains(&b) && bench.streams.contains_key(&2));
        bench.late_result.expect("it was tried")
    };
    assert_eq!(late(), Err(StreamError::Refused));
    let rule = Rule::EndTheGeneration;
    assert_eq!(without(rule, late), Ok(3), "without the rule it is acknowledged and lost");
}

/// A server that is behind answers a claimer; `c` was acknowledged a moment ago.
#[test]
fn a_stream_that_is_longer_than_judged_is_judged_anew() {
    let [lead, a, b, c] = four();
    let keeps = || {
        let mut bench = Bench::new(&[&lead, &a, &b], 3, led());
        bench.stream().messages = messages(1, &[&lead, &a, &b]);
        bench.copies = vec![empty()];
        let comes = messages(1, &[&c]).pop();
        bench.on_claim = OnClaim { comes, stale: 2 };
        assert_eq!(bench.run(12).opened(), [2]);
        bench.disk.contains(&c)
    };
    assert!(keeps());
    assert!(!without(Rule::EndWhatWasJudged, keeps), "without the rule it is lost");
}

/// The answer to a Lead does not come, and another node leads behind it.
#[test]
fn a_lead_that_another_one_follows_opens_nothing() {
    let [lead, a, ..] = four();
    let opened = || {
        let mut bench = Bench::new(&[&lead, &a], 2, led());
        bench.stream().messages = messages(1, &[&lead, &a]);
        bench.is_mute = true;
        bench.run(8);
        let own = StreamBatch::lead(a.end(), 2, LogLeader { boot: 2, ..by(2) });
        assert!(bench.stream().counts(&own), "it is there, and the node does not know it");
        let later = StreamBatch::lead(own.end(), 3, by(3));
        bench.stream().messages.extend(messages(3, &[&later]));
        bench.is_mute = false;
        bench.run(3).opened()
    };
    assert!(opened().is_empty());
    assert_eq!(without(Rule::LeadWhenSettled, opened), [2]);
}

/// The stream forgot everything, and this copy has nothing.
#[test]
fn an_empty_stream_is_no_beginning_once_somebody_led() {
    let emptied = |seconds: u64, first: u64, copies: &[LogBeat]| {
        let mut bench = Bench::new(&[], 0, led());
        bench.stream().first = first;
        bench.copies = copies.to_vec();
        let opened = bench.run(seconds).opened();
        (!opened.is_empty()).then(|| *bench.streams.keys().next_back().expect("one"))
    };
    assert_eq!(emptied(200, 15, &[]), None, "another copy may have what was purged");
    assert_eq!(emptied(12, 15, &[empty()]), Some(2), "no copy has anything");
    assert_eq!(emptied(200, 1, &[]), None, "another copy may have what the cluster began with");
    assert_eq!(emptied(12, 1, &[empty()]), Some(2), "no copy has anything");
    let rule = Rule::EmptyStreamIsNoBeginning;
    assert_eq!(without(rule, || emptied(12, 15, &[])), Some(1), "without the rule all is lost");
}

/// While a claimer reads its log, another one begins the next generation.
#[test]
fn a_claim_does_not_go_on_in_a_generation_that_it_has_not_read() {
    let [lead, a, ..] = four();
    let opens_for_nothing = || {
        let mut bench = Bench::new(&[&lead], 1, led());
        bench.stream().messages = messages(1, &[&lead]);
        bench.held = Some(VecDeque::new());
        bench.run(8);
        let answer = bench.held.take().and_then(|mut it| it.pop_front()).expect("it reads its log");
        let both = messages_of(NAME, by(3), &[lead.clone(), a.clone()]);
        bench.streams.insert(2, Stream { first: 1, messages: both });
        let followers = vec![by(1).node, by(2).node];
        let entry =
            LogEntry { generation: 2, epoch: 3, leader: Some(by(3)), wanted: None, followers };
        bench.table = Some((9, entry));
        bench.tell_table();
        bench.on(answer);
        let own = StreamBatch::lead(lead.end(), 2, LogLeader { boot: 2, ..by(2) });
        let counts = bench.streams[&2].counts(&own);
        !bench.opened().is_empty() && !counts
    };
    assert!(!opens_for_nothing());
    assert!(without(Rule::FollowTheGeneration, opens_for_nothing));
}

/// A node that asks and gives way each time must not seem to lead: nodes with more would wait.
#[test]
fn a_node_that_asks_the_other_copies_says_that_it_follows() {
    let [lead, ..] = four();
    let mut bench = Bench::new(&[&lead], 1, led());
    bench.stream().messages = messages(1, &[&lead]);
    (bench.copies, bench.is_mute) = (Vec::new(), true);
    while !bench.done.iter().any(|it| matches!(it, LogCommand::AskCopies { .. })) {
        bench.run(1);
    }
    assert!(!bench.claims() && bench.replica.beat().role == LogRole::Following);
    bench.run(1);
    assert!(bench.claims() && bench.replica.beat().role == LogRole::Claiming);
}

/// The node reaches the table, which names another one, and not the stream.
#[test]
fn a_leader_that_the_table_names_no_more_is_isolated_until_it_has_read_the_stream() {
    let mut bench = leading();
    let (leader, followers) = (Some(by(1)), vec![by(2).node]);
    let entry = LogEntry { generation: 1, epoch: 2, leader, followers, ..LogEntry::default() };
    (bench.table, bench.is_deaf) = (Some((9, entry)), true);
    bench.tell_table();
    assert!(!bench.run(3).leads(), "the other one may lead");
    bench.is_deaf = false;
    assert!(bench.run(3).leads(), "nobody else leads: the other one gave up");
    assert_eq!(bench.opened(), [1], "it was not closed");
}

/// The end of the generation that forgot, and the stream of the next one, need room as well.
#[test]
fn a_nats_without_room_for_a_new_generation_is_told_of_until_something_is_taken() {
    let is_full = |bench: &Bench| bench.replica.is_full();
    let write = |bench: &mut Bench| {
        let end = bench.replica.own().end();
        bench.on(LogEvent::Written { batch: batch(end, 1, &[b"a"]) });
    };
    for is_gone in [true, false] {
        let mut bench = leading();
        bench.is_full = true;
        match is_gone {
            true => bench.streams.clear(),
            false => bench.stream().messages.clear(),
        }
        write(&mut bench);
        assert!(is_full(bench.run(9)) && bench.leads_or_fences(), "it goes on to ask");
        let number = PublishNumber { round: 0, number: 0 };
        bench.is_full = false;
        assert!(!is_full(bench.run(9)) && bench.leads() && bench.streams.contains_key(&2));
        let (generation, result) = (2, Err(StreamError::Full));
        bench.on(LogEvent::Published { generation, number, result });
        assert!(!is_full(&bench), "that answer is late: everything was taken since");
    }
    let mut bench = leading();
    bench.is_full = true;
    write(&mut bench);
    assert!(is_full(&bench));
    let later = LogBeat { role: LogRole::Absent, epoch: 2, index: 2, synced: 2, ..empty() };
    bench.hear(3, later);
    assert!(!is_full(bench.run(1)), "a node that no longer leads does not report room");
}

/// A node claimed and gave up: the table would name it for ever, and clients be sent to it.
#[test]
fn a_leader_takes_its_name_back_from_a_claimer_that_gave_up() {
    let mut bench = leading();
    let (leader, followers) = (Some(by(1)), vec![by(2).node]);
    let entry = LogEntry { generation: 1, epoch: 2, leader, followers, ..LogEntry::default() };
    bench.table = Some((9, entry));
    bench.tell_table();
    let named = |bench: &Bench| bench.table.clone().map(|(at, it)| (at, it.leader, it.epoch));
    assert_eq!(named(bench.run(3)), Some((9, Some(by(1)), 2)), "the other one may still come");
    let me = Some(LogLeader { boot: 2, ..by(2) });
    assert_eq!(named(bench.run(6)), Some((10, me, 2)), "the epoch of the last claim stays");
    assert_eq!(named(bench.run(9)), Some((10, me, 2)), "once");
    assert!(bench.leads() && bench.opened() == [1]);
    // Its stream is lost: the next generation is its own, under that name.
    bench.streams.clear();
    let end = bench.replica.own().end();
    bench.on(LogEvent::Written { batch: batch(end, 1, &[b"a"]) });
    assert!(bench.run(9).leads() && bench.streams.contains_key(&2));
    assert_eq!(bench.opened(), [1], "it was not closed");
}

/// The stream forgot the Lead of another node; a third one has read it before.
#[test]
fn a_leader_that_hears_of_a_later_lead_leaves() {
    let closes = || {
        let mut bench = leading();
        let role = LogRole::Absent;
        bench.hear(3, LogBeat { role, epoch: 2, index: 2, synced: 2, ..empty() });
        let closed = LogCommand::Close { why: ClosedBy::Deposed };
        bench.run(1).done.contains(&closed)
    };
    assert!(closes());
    assert!(!without(Rule::HeedLaterEpochs, closes), "without the rule two logs go on");
}

/// The stream forgot the last batch of a leader, and another one led and wrote as much again: the
/// next message of the first one finds the sequence that it expects.
#[test]
fn a_leader_that_hung_or_was_cut_off_reads_the_stream_before_it_publishes() {
    let acknowledges = |silence: fn(&mut Bench)| {
        let mut bench = leading();
        let lead = bench.replica.own().end();
        bench.on(LogEvent::Written { batch: batch(lead, 1, &[b"a"]) });
        assert!(bench.done.contains(&LogCommand::Release { index: 2 }));
        bench.stream().messages.truncate(1);
        let rival = StreamBatch::lead(lead, 2, by(1));
        bench.stream().messages.extend(messages(1, &[&rival]));
        silence(&mut bench);
        let end = bench.replica.own().end();
        bench.on(LogEvent::Written { batch: batch(end, 1, &[b"b"]) });
        bench.run(1).done.contains(&LogCommand::Release { index: 3 })
    };
    let hangs = |bench: &mut Bench| bench.now = bench.now + Duration::from_secs(8);
    let is_cut_off = |bench: &mut Bench| {
        bench.is_unproved = true;
        bench.run(8);
    };
    let rule = Rule::LookAfterSilence;
    for silence in [hangs as fn(&mut Bench), is_cut_off] {
        assert!(!acknowledges(silence));
        assert!(without(rule, || acknowledges(silence)), "without the rule it is lost");
    }
}

/// A leader that said good-bye cannot be asked; its logs are closed.
#[test]
fn a_leader_that_left_is_not_waited_for() {
    let [lead, a, ..] = four();
    let claims_after = |role: LogRole, ticks: u64| {
        let entry = led().map(|entry| LogEntry { wanted: Some(by(2).node), ..entry });
        let mut bench = Bench::new(&[&lead, &a], 2, entry);
        bench.stream().messages = messages(1, &[&lead, &a]);
        let beat = LogBeat { role: LogRole::Leading, epoch: 1, index: 2, synced: 2, ..empty() };
        bench.hear(1, beat);
        assert!(!bench.ticks(9).claims(), "it leads");
        bench.hear(1, LogBeat { role, ..beat });
        bench.ticks(ticks).claims()
    };
    assert!(claims_after(LogRole::Left, 1));
    assert!(!claims_after(LogRole::Following, 5), "it is asked, and does not answer");
    assert!(claims_after(LogRole::Following, 15));
}

/// The stream is gone, and a copy that has more does not lead: it may come to that later.
#[test]
fn a_copy_that_answers_is_heard_however_long_ago_the_stream_was_lost() {
    let [lead, a, ..] = four();
    let run = |seconds: u64, copies: &[LogBeat]| {
        let mut bench = Bench::new(&[&lead, &a], 2, led());
        bench.streams.clear();
        bench.copies = copies.to_vec();
        bench.run(seconds);
        let is_claim = |it: &&LogCommand| matches!(it, LogCommand::Claim { .. });
        (bench.done.iter().filter(is_claim).count(), bench.opened().len())
    };
    let acknowledged = LogBeat { epoch: 1, index: 4, synced: 4, ..empty() };
    assert_eq!(run(200, &[acknowledged]), (0, 0));
    let tail = LogBeat { index: 2, ..acknowledged };
    assert_eq!(run(60, &[tail]), (1, 0), "it is not kept from claiming by this one's claims");
    assert_eq!(run(90, &[tail]).1, 1, "it did not come to lead, and nobody acknowledged that");
    assert_eq!((run(60, &[]).1, run(90, &[]).1), (0, 1), "silence is waited for a minute");
}

/// The leader told that more was acknowledged than the stream has, and is silent.
#[test]
fn a_stream_that_lacks_what_a_leader_told_is_not_gone_on_with_for_a_minute() {
    let [lead, a, ..] = four();
    let opened = |seconds: u64| {
        let mut bench = Bench::new(&[&lead, &a], 2, led());
        bench.stream().messages = messages(1, &[&lead, &a]);
        let role = LogRole::Leading;
        bench.hear(1, LogBeat { role, epoch: 1, index: 4, synced: 4, ..empty() });
        bench.run(seconds).opened()
    };
    assert!(opened(40).is_empty(), "it may come back");
    assert_eq!(opened(90).len(), 1);
    let rule = Rule::NoticeForgetting;
    assert_eq!(without(rule, || opened(12)), [2], "without the rule it is lost at once");
}

/// The stream forgot the end of a leader that is cut off, and another node leads behind what is
/// left. Beats of a copy arrive first when the leader reaches NATS again.
#[test]
fn a_leader_that_was_cut_off_purges_nothing_before_it_has_read_the_stream() {
    let purged = || {
        let mut bench = leading_with_copies();
        (bench.is_unproved, bench.is_deaf) = (true, true);
        bench.run(20);
        let lead = bench.disk[0].clone();
        bench.stream().messages.truncate(1);
        let rival = StreamBatch::lead(lead.end(), 2, by(1));
        bench.stream().messages.extend(messages(1, &[&rival]));
        bench.hear_of_copy();
        bench.run(2);
        bench.purges()
    };
    assert!(purged().is_empty());
    let rule = Rule::LookBeforePurge;
    assert_eq!(without(rule, purged), [3], "without the rule the rival's Lead is purged");
}

/// NATS has no room for the table's values either. A purge makes room.
#[test]
fn a_leader_without_proof_purges_what_it_has_just_read() {
    for seconds in [8, 30] {
        let mut bench = leading_with_copies();
        bench.is_unproved = true;
        bench.run(seconds);
        bench.hear_of_copy();
        bench.run(2);
        assert_eq!(bench.purges(), [3], "{seconds} s");
    }
}

/// The request for the stream of generation 2 gets lost. Another node claims meanwhile, ends that
/// generation, and removes its stream.
#[test]
fn a_claimer_whose_claim_is_replaced_does_not_make_a_stream_anew_that_is_over() {
    let [lead, a, b, _] = four();
    let mut bench = Bench::new(&[&lead, &a, &b], 3, led());
    bench.stream().messages = messages(1, &[&lead, &a]);
    (bench.copies, bench.makes_none) = (vec![empty()], true);
    bench.run(12);
    let creates = |bench: &Bench| {
        let is_it = |it: &&LogCommand| matches!(it, LogCommand::Create { generation: 2, .. });
        bench.done.iter().filter(is_it).count()
    };
    let before = creates(&bench);
    assert!(before > 0, "it is asked for");
    let (revision, entry) = bench.table.clone().expect("there");
    let (leader, followers) = (Some(by(3)), vec![by(1).node, by(2).node]);
    let epoch = entry.epoch + 1;
    bench.table = Some((revision + 1, LogEntry { epoch, leader, followers, ..entry }));
    bench.tell_table();
    bench.makes_none = false;
    bench.run(5);
    assert!(creates(&bench) == before && bench.opened().is_empty());
}
