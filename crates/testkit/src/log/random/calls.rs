//! Where a run's calls come from: few timelines, readers and keys, so that they meet often.
//!
//! Everything follows from the seed and from nothing that a store answers. Labels and bodies follow
//! from a number, so that whoever has the number knows whether a message is whole.

use crate::log::LogOptions;
use base::hash::HashKey;
use base::prng::Prng;
use model::ports::log::*;
use model::timeline::{Message, ReaderId, Seq, Space, TimelineId};
use std::collections::VecDeque;
use std::sync::Arc;

const LINES: u8 = 7;
/// Lines of a long append, those among them: a message does not stand beside so many.
const MANY: u8 = 20;
const READERS: u64 = 3;
const ROSTERS: u64 = 2;
const ROW_TABLES: [Table; 3] = [Table::Products, Table::Marks, Table::Other];

/// Makes calls.
pub(super) struct Caller {
    prng: Prng,
    next_id: u64,
    /// Messages that may be appended again as they are.
    recent: VecDeque<Arc<Message>>,
    /// Keys that every store still remembers, with their messages and times.
    keys: VecDeque<(OnceKey, Arc<Message>, u32)>,
    keys_max: usize,
    key_age_s_max: u32,
    /// Some runs never forget, so that timelines grow long.
    forgets: bool,
    /// Appends so far: no place is higher.
    appends: u64,
    /// Versions of the rosters if all changes were taken.
    versions: [u64; ROSTERS as usize],
}

impl Caller {
    pub(super) fn new(seed: u64, options: &LogOptions) -> Caller {
        Caller {
            prng: Prng::new(seed),
            next_id: 1,
            recent: VecDeque::new(),
            keys: VecDeque::new(),
            keys_max: (options.once_count_max / 2).min(300),
            key_age_s_max: options.once_age_s_max / 2,
            forgets: !seed.is_multiple_of(3),
            appends: 0,
            versions: [0; ROSTERS as usize],
        }
    }

    /// Some calls to be handed over together.
    pub(super) fn batch(&mut self, now_s: u32) -> Vec<Call> {
        let count = match self.prng.below(4) {
            0 => 1,
            1 => 1 + self.prng.below(4),
            _ => 1 + self.prng.below(16),
        };
        let reads = [0, 1, 5][self.prng.below(3) as usize];
        let mut calls = Vec::new();
        for _ in 0..count {
            calls.push(if self.prng.below(10) < reads {
                Call::Read(self.read())
            } else {
                Call::Write(self.write(now_s))
            });
        }
        calls
    }

    /// Reads that tell everything there is to tell.
    pub(super) fn audit(&mut self) -> Vec<Call> {
        let mut calls = Vec::new();
        for n in 0..LINES {
            let timeline = line(n);
            for reader in (0..READERS).map(ReaderId) {
                calls.push(Call::Read(Read::Standing { timeline, reader }));
            }
            let (ahead, back) = (self.prng.below(self.appends + 2), 1 + self.prng.below(40));
            for (from, backwards, count_max) in [
                (0, false, PAGE_MESSAGES_MAX),
                (ahead, false, PAGE_MESSAGES_MAX),
                (Seq::MAX, true, PAGE_MESSAGES_MAX),
                (ahead, true, back as usize),
            ] {
                let bytes_max = usize::MAX;
                let pull = Pull { timeline, from, backwards, count_max, bytes_max };
                calls.push(Call::Read(Read::Pull(pull)));
            }
        }
        for roster in (0..ROSTERS).map(roster) {
            calls.push(Call::Read(Read::Roster(roster)));
        }
        for table in ROW_TABLES {
            let prefix = [].into();
            calls.push(Call::Read(Read::Rows { table, prefix, after: None, count: ROWS_MAX }));
        }
        calls
    }

    fn write(&mut self, now_s: u32) -> Write {
        let timeline = line(self.prng.below(u64::from(LINES)) as u8);
        match self.prng.below(100) {
            0..24 => self.append(now_s),
            24..30 => self.append_with(now_s, timeline),
            30..40 => self.post(now_s),
            40..46 => self.change(),
            46..65 => Write::Remove { timeline, seqs: self.places() },
            65..75 => {
                let reader = ReaderId(self.prng.below(READERS));
                Write::Acknowledge { timeline, reader, upto: self.place() }
            }
            75..78 if self.forgets => Write::Forget(timeline),
            78..92 => {
                let length = [3, 40, 2_000][self.prng.below(3) as usize];
                let fill = self.prng.draw() as u8;
                let (table, key) = self.row();
                Write::Put { table, key, value: vec![fill; length].into() }
            }
            _ => {
                let (table, key) = self.row();
                Write::Delete { table, key }
            }
        }
    }

    fn append(&mut self, now_s: u32) -> Write {
        let (message, once) = self.keyed(now_s);
        let to = self.lines(once.is_some());
        Write::Append(Append { message, to, once, heard: None, ends: false })
    }

    fn append_with(&mut self, now_s: u32, timeline: TimelineId) -> Write {
        let (message, once) = self.keyed(now_s);
        let mut to = self.lines(once.is_some());
        to.truncate(REPLACE_TIMELINES_MAX);
        let append = Append { message, to, once, heard: None, ends: false };
        let (table, key) = self.row();
        let (seq, value) = (self.place(), vec![self.prng.draw() as u8; 30].into());
        let replaced = Replaced { timeline, seq, table, key, value };
        let replaces = self.prng.one_in(2).then_some(replaced);
        let check = self.prng.below(2) as u32;
        Write::AppendWith(Box::new(AppendWith { append, check, replaces }))
    }

    fn post(&mut self, now_s: u32) -> Write {
        let (message, once) = self.keyed(now_s);
        let number = self.prng.below(ROSTERS);
        // Now and then another version than the last.
        let version = self.versions[number as usize].saturating_sub(self.prng.below(8) / 7);
        let only = self.prng.one_in(3).then(|| {
            let all = 0..u32::from(LINES) / 2;
            all.filter(|_| self.prng.one_in(2)).collect()
        });
        Write::Post(Post { message, roster: roster(number), version, only, once })
    }

    fn change(&mut self) -> Write {
        let number = self.prng.below(ROSTERS);
        let last = &mut self.versions[number as usize];
        if self.prng.one_in(8) {
            *last = 0;
            return Write::Disband(roster(number));
        }
        let after = last.saturating_sub(self.prng.below(6) / 5);
        let version = after + 1 + self.prng.below(2);
        *last = version;
        let mut some = |of: u64| -> Vec<TimelineId> {
            (0..LINES).filter(|_| self.prng.below(6) < of).map(line).collect()
        };
        let (leave, join) = (some(1), some(4));
        Write::Roster(RosterChange { roster: roster(number), after, version, leave, join })
    }

    /// A message, and perhaps a once key, be it of this message, of another or its own.
    fn keyed(&mut self, now_s: u32) -> (Arc<Message>, Option<OnceKey>) {
        self.appends += 1;
        while self.keys.front().is_some_and(|key| now_s.saturating_sub(key.2) > self.key_age_s_max)
        {
            self.keys.pop_front();
        }
        let known = self.prng.below(self.keys.len() as u64) as usize;
        let mut once = None;
        let mut message = match self.prng.below(4) {
            0 if !self.recent.is_empty() => {
                self.recent[self.prng.below(self.recent.len() as u64) as usize].clone()
            }
            _ => self.message(),
        };
        match self.prng.below(10) {
            0..2 if !self.keys.is_empty() => {
                let (key, first, _) = &self.keys[known];
                once = Some(*key);
                if !self.prng.one_in(4) {
                    message = first.clone();
                    if self.prng.one_in(2) {
                        message = Arc::new(Message { id: self.next_id, ..(*message).clone() });
                    }
                }
            }
            2..5 => {
                let key = OnceKey(u128::from(self.prng.draw()) << 64 | u128::from(self.appends));
                once = Some(key);
                self.keys.push_back((key, message.clone(), now_s));
                if self.keys.len() > self.keys_max {
                    self.keys.pop_front();
                }
            }
            _ => {}
        }
        (message, once)
    }

    fn lines(&mut self, or_none: bool) -> Vec<TimelineId> {
        if self.prng.one_in(12) {
            let first = self.prng.below(2) as u8; // the same ones come again
            return (first..MANY).map(line).collect();
        }
        let first = self.prng.below(u64::from(LINES)) as u8;
        let count = match self.prng.below(10) {
            0 if or_none => 0,
            0..6 => 1,
            _ => 1 + self.prng.below(u64::from(LINES)) as u8,
        };
        (0..count).map(|n| line((first + n * 3) % LINES)).collect()
    }

    fn message(&mut self) -> Arc<Message> {
        let id = self.next_id;
        self.next_id += 1;
        let length = match self.prng.below(20) {
            0 => 5_000 + self.prng.below(40_000),
            1 => 0,
            2..8 => 200 + self.prng.below(3_000),
            _ => 1 + self.prng.below(100),
        };
        let mut bytes = Prng::new(id);
        let body = (0..length).map(|_| bytes.draw() as u8).collect();
        let label = vec![id as u8; (id % 40) as usize].into();
        let at_s = 1_700_000_000 + (id as u32 * 7) % 1_000;
        let message = Arc::new(Message { id, at_s, label, body });
        self.recent.push_back(message.clone());
        if self.recent.len() > 6 {
            self.recent.pop_front();
        }
        message
    }

    /// Places, most of which have a message or had one.
    fn places(&mut self) -> Vec<Seq> {
        let count = match self.prng.below(8) {
            0 => 0,
            1..5 => 1,
            5..7 => 1 + self.prng.below(10),
            _ => 1 + self.prng.below(200),
        };
        let first = self.place();
        if self.prng.one_in(2) {
            return (first..first + count).collect();
        }
        (0..count).map(|_| self.place()).collect()
    }

    /// A place in some timeline, with luck a late one.
    fn place(&mut self) -> Seq {
        let most = self.appends * 2 / 5 + 3;
        if self.prng.one_in(2) {
            self.prng.below(most)
        } else {
            most - self.prng.below(most.min(40))
        }
    }

    fn row(&mut self) -> (Table, Box<[u8]>) {
        let table = ROW_TABLES[self.prng.below(ROW_TABLES.len() as u64) as usize];
        let key = format!("{}/{}", self.prng.below(3), self.prng.below(12));
        (table, key.into_bytes().into())
    }

    fn read(&mut self) -> Read {
        let timeline = line(self.prng.below(u64::from(LINES)) as u8);
        match self.prng.below(10) {
            0..5 => Read::Pull(Pull {
                timeline,
                from: [0, self.place(), self.place(), Seq::MAX][self.prng.below(4) as usize],
                backwards: self.prng.one_in(2),
                count_max: 1 + self.prng.below(30) as usize,
                bytes_max: [0, 500, 5_000, usize::MAX][self.prng.below(4) as usize],
            }),
            5..7 => Read::Standing { timeline, reader: ReaderId(self.prng.below(READERS)) },
            7 => {
                let (table, key) = self.row();
                Read::Row { table, key }
            }
            8 => Read::Roster(roster(self.prng.below(ROSTERS))),
            _ => {
                let (table, after) = self.row();
                let prefix = [&b""[..], b"1/", b"2/1"][self.prng.below(3) as usize].into();
                let after = self.prng.one_in(2).then_some(after);
                Read::Rows { table, prefix, after, count: self.prng.below(9) as usize }
            }
        }
    }
}

/// A read that means nothing.
pub(super) fn nothing() -> Read {
    Read::Row { table: Table::Other, key: [].into() }
}

fn line(n: u8) -> TimelineId {
    let space = Space::ALL[usize::from(n) % Space::ALL.len()];
    TimelineId::of(space, HashKey::new(11, 12), &[&[n]])
}

fn roster(number: u64) -> RosterId {
    RosterId(u128::from(number) << 100 | 7)
}

/// The timeline's number, if it is one of a run.
fn number(timeline: TimelineId) -> u8 {
    (0..MANY).find(|&n| line(n) == timeline).unwrap_or(u8::MAX)
}

/// A call in one line, without its bodies.
pub(super) fn brief(call: &Call) -> String {
    match call {
        Call::Write(Write::Append(Append { message, to, once, .. })) => {
            let to: Vec<_> = to.iter().map(|&timeline| number(timeline)).collect();
            let once = once.map_or(String::new(), |key| format!(" once {:x}", key.0));
            format!("append {} of {} bytes to {to:?}{once}", message.id, message.body.len())
        }
        Call::Write(Write::Post(Post { message, roster, version, only, once })) => {
            let once = once.map_or(String::new(), |key| format!(" once {:x}", key.0));
            let (id, bytes, roster) = (message.id, message.body.len(), roster.0 >> 100);
            format!("post {id} of {bytes} bytes to {roster} at {version} {only:?}{once}")
        }
        Call::Write(Write::Roster(RosterChange { roster, after, version, leave, join })) => {
            let [leave, join] = [leave, join]
                .map(|all| all.iter().map(|&timeline| number(timeline)).collect::<Vec<_>>());
            let roster = roster.0 >> 100;
            format!("roster {roster} from {after} to {version}: {leave:?} leave, {join:?} join")
        }
        Call::Write(Write::AppendWith(it)) => {
            let AppendWith { append, check, replaces } = &**it;
            let to: Vec<_> = append.to.iter().map(|&timeline| number(timeline)).collect();
            let once = append.once.map_or(String::new(), |key| format!(" once {:x}", key.0));
            let of = replaces.as_ref().map(|it| (it.seq, number(it.timeline)));
            format!("append {} as {check} to {to:?}{once}, in place of {of:?}", append.message.id)
        }
        Call::Write(Write::Disband(roster)) => format!("disband {}", roster.0 >> 100),
        Call::Write(Write::Remove { timeline, seqs }) => {
            format!("remove {seqs:?} from {}", number(*timeline))
        }
        Call::Write(Write::Acknowledge { timeline, reader, upto }) => {
            format!("acknowledge {} by {} up to {upto}", number(*timeline), reader.0)
        }
        Call::Write(Write::Forget(timeline)) => format!("forget {}", number(*timeline)),
        Call::Write(Write::Put { table, key, value }) => {
            let byte = value.first().copied().unwrap_or(0);
            format!("put {table:?} {} = {} times {byte}", key.escape_ascii(), value.len())
        }
        Call::Write(Write::Delete { table, key }) => {
            format!("delete {table:?} {}", key.escape_ascii())
        }
        Call::Read(Read::Pull(pull)) => format!(
            "pull {} from {} {} at most {} and {} bytes",
            number(pull.timeline),
            pull.from,
            if pull.backwards { "back" } else { "ahead" },
            pull.count_max,
            pull.bytes_max
        ),
        Call::Read(Read::Standing { timeline, reader }) => {
            format!("standing {} of {}", number(*timeline), reader.0)
        }
        Call::Read(other) => format!("{other:?}"),
    }
}
