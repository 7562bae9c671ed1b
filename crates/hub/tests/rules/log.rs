//! A durable log in plain maps, for one hub: its answers are right, and a test can damage messages
//! in it.

use model::id::MessageId;
use model::ports::log::*;
use model::timeline::{Message, Placed, Seq, Space, TimelineId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Effect of a call on a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Did {
    /// The call stores this push for a device.
    Waits(MessageId),
    /// The call removes a copy of this push.
    Over(MessageId),
}

/// A row's table and key.
type RowKey = (u8, Box<[u8]>);

#[derive(Clone, Default)]
pub struct Log {
    rows: BTreeMap<RowKey, Box<[u8]>>,
    timelines: BTreeMap<TimelineId, (Seq, BTreeMap<Seq, Arc<Message>>)>,
    once: BTreeMap<u128, (Arc<Message>, Appended)>,
    /// Ids of messages that cannot be read.
    pub damaged: BTreeSet<u64>,
    /// Number of bodies that were read.
    pub read: usize,
    /// Number of calls that are carried out before the process is killed; `None`: no kill.
    left: Option<usize>,
    is_dead: bool,
}

impl Log {
    /// Drops all calls after this many, as a kill does; `None`: carries out all.
    pub fn die_after(&mut self, left: Option<usize>) {
        (self.left, self.is_dead) = (left, false);
    }

    /// Whether a call was dropped.
    pub fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// Whether the next call is carried out; it counts as one.
    pub fn hears(&mut self) -> bool {
        match &mut self.left {
            None => {}
            Some(0) => self.is_dead = true,
            Some(left) => *left -= 1,
        }
        !self.is_dead
    }

    pub fn answer(&mut self, call: &Call) -> Result<Done, StoreError> {
        match call {
            Call::Write(write) => self.write(write),
            Call::Read(Read::Pull(pull)) => self.pull(pull),
            Call::Read(Read::Rows { table, prefix, after, count }) => {
                let from = after.as_ref().unwrap_or(prefix);
                let all = self.rows.range((*table as u8, from.clone())..);
                let all =
                    all.take_while(|((of, key), _)| *of == *table as u8 && key.starts_with(prefix));
                let all = all.filter(|((_, key), _)| after.as_ref().is_none_or(|it| key > it));
                let rows = all.map(|((_, key), value)| (key.clone(), value.clone()));
                Ok(Done::Rows(rows.take(*count).collect()))
            }
            Call::Read(other) => panic!("the hub asks no such thing: {other:?}"),
        }
    }

    fn write(&mut self, write: &Write) -> Result<Done, StoreError> {
        match write {
            Write::Append(append) => return self.append(append).map(Done::Appended),
            Write::Remove { timeline, seqs } => {
                let (_, messages) = self.timelines.entry(*timeline).or_default();
                seqs.iter().for_each(|seq| assert!(messages.remove(seq).is_some(), "removed once"));
            }
            Write::Forget(timeline) => self.timelines.entry(*timeline).or_default().1.clear(),
            Write::Put { table, key, value } => {
                self.rows.insert((*table as u8, key.clone()), value.clone());
            }
            Write::Delete { table, key } => {
                self.rows.remove(&(*table as u8, key.clone()));
            }
            Write::Acknowledge { .. } => panic!("the hub has no cursors"),
            Write::AppendWith(_) => panic!("the hub replaces nothing"),
            Write::Post(_) | Write::Roster(_) | Write::Disband(_) => {
                panic!("the hub has no rosters")
            }
        }
        Ok(Done::Written)
    }

    fn append(&mut self, append: &Append) -> Result<Appended, StoreError> {
        assert!(append.to.len() <= APPEND_SLICE);
        assert_eq!(append.to.iter().collect::<BTreeSet<_>>().len(), append.to.len(), "each once");
        let message = &append.message;
        if let Some((known, first)) = append.once.and_then(|key| self.once.get(&key.0)) {
            let same = (&known.label, &known.body) == (&message.label, &message.body);
            let again = Appended { new: false, ..first.clone() };
            return if same { Ok(again) } else { Err(StoreError::Conflict) };
        }
        let seqs = append.to.iter().map(|timeline| {
            let (last, messages) = self.timelines.entry(*timeline).or_default();
            *last += 1;
            messages.insert(*last, message.clone());
            *last
        });
        let first = Appended { new: true, id: message.id, seqs: seqs.collect() };
        if let Some(key) = append.once {
            self.once.insert(key.0, (message.clone(), first.clone()));
        }
        Ok(first)
    }

    fn pull(&mut self, pull: &Pull) -> Result<Done, StoreError> {
        assert!(!pull.backwards && pull.count_max <= PAGE_MESSAGES_MAX);
        let messages = self.timelines.get(&pull.timeline).map(|(_, messages)| messages);
        let mut rest = messages.into_iter().flat_map(|all| all.range(pull.from + 1..)).peekable();
        let (mut page, mut damaged, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some((seq, message)) = rest.peek().copied() {
            bytes += message.body.len();
            if page.len() + damaged.len() == pull.count_max
                || (bytes > pull.bytes_max && !page.is_empty())
            {
                break;
            }
            if self.damaged.contains(&message.id) {
                damaged.push(*seq);
            } else {
                page.push(Placed { seq: *seq, message: message.clone() });
            }
            rest.next();
        }
        self.read += page.len();
        Ok(Done::Page(Page { more: rest.peek().is_some(), damaged, messages: page }))
    }

    /// The effects on pushes that the call is about to have, one by one.
    pub fn does(&self, call: &Call) -> Vec<Did> {
        match call {
            Call::Write(Write::Append(append)) => {
                let pushes = append.to.iter().filter(|to| to.space() == Space::Pushes);
                pushes.map(|_| Did::Waits(MessageId(append.message.id))).collect()
            }
            Call::Write(Write::Remove { timeline, seqs }) => {
                let ids = seqs.iter().filter_map(|seq| {
                    let (_, messages) = self.timelines.get(timeline)?;
                    messages.get(seq).map(|message| Did::Over(MessageId(message.id)))
                });
                ids.collect()
            }
            _ => Vec::new(),
        }
    }

    /// Passes everything in the log to `each`, in the order that the port demands.
    pub fn restore(&self, mut each: impl FnMut(Restored<'_>)) {
        for ((table, key), value) in &self.rows {
            let table = Table::from_byte(*table).expect("a table");
            each(Restored::Row { table, key, value });
        }
        for (&timeline, (_, messages)) in &self.timelines {
            for (&seq, message) in messages {
                each(Restored::Entry { timeline, seq, id: message.id, label: &message.label });
            }
        }
    }

    /// Adds the content of another log, as when the number of logs changes.
    pub fn take_over(&mut self, other: &Log) {
        self.rows.extend(other.rows.clone());
        self.timelines.extend(other.timelines.clone());
    }

    /// Deletes a message, as by retention.
    pub fn drop_message(&mut self, timeline: TimelineId, seq: Seq) {
        let (_, messages) = self.timelines.get_mut(&timeline).expect("a timeline");
        assert!(messages.remove(&seq).is_some());
    }

    /// Ids of the messages in timelines of a space, timeline by timeline.
    pub fn kept(&self, space: Space) -> Vec<u64> {
        let of = self.timelines.iter().filter(|(timeline, _)| timeline.space() == space);
        of.flat_map(|(_, (_, messages))| messages.values().map(|message| message.id)).collect()
    }

    /// The messages of a timeline.
    pub fn messages(&self, timeline: TimelineId) -> Vec<Arc<Message>> {
        let all = self.timelines.get(&timeline).map(|(_, messages)| messages);
        all.into_iter().flat_map(|messages| messages.values().cloned()).collect()
    }

    /// Number of rows in a table.
    pub fn rows(&self, table: Table) -> usize {
        self.rows.keys().filter(|(of, _)| *of == table as u8).count()
    }
}
