//! Fencing: a claimer's Lead in the stream, or a new generation of a stream that forgot.
//!
//! ```text
//! Read to the end ─► Log: the own tail ─► Shipper: tail and Lead ─► Opening
//!       │ it lacks what was acknowledged, has ended, or is gone
//!       └─► Copies ─► End ─► Name ─► Create ─► Read, of the new generation
//!             └─ not all answered: Read again, for up to 60 s
//! ```
//! A leader whose stream forgot goes from End on while it stays open: its epoch goes on, and the
//! new stream begins with the last batch that it knows acknowledged.

use super::claiming::{COPIES_LONGEST, Copies, Say};
use super::{Phase, Replica};
use crate::batch::StreamBatch;
use crate::counting::Counting;
use crate::ending::{Ending, EndingStep};
use crate::follow::{Follow, FollowStep};
use crate::held::Held;
use crate::port::{
    ANSWER, Ask, ClosedBy, LogCommand, LogNotice, PublishNumber, StreamError, StreamPage,
};
use crate::replica::NodeView;
use crate::rules::Rule;
use crate::ship::{ShipRoute, Shipper};
use crate::wire::message::LogName;
use crate::wire::table::LogEntry;
use base::time::Instant;

/// The table's watcher has so many halves of a second to tell of the own claim.
const TRIES_MAX: u8 = 12;

/// The fencing of a claim.
pub(super) struct Fencing {
    step: Step,
    /// Of a leader that is open: what the new generation begins with.
    pub(super) rest: Vec<StreamBatch>,
    /// This node made the stream of the generation that is read.
    has_created: bool,
    /// The table never named a leader of this log before the claim: a stream in which nothing was
    /// ever written is where the log begins.
    is_first: bool,
    /// The last sequence of the stream that was judged to be of no use; none if it is gone.
    judged: Option<u64>,
}

enum Step {
    Read(Follow),
    Log { ask: Ask, again: Instant, counted: Box<(Counting, Held)> },
    Shipper { lead: StreamBatch },
    Copies(Copies),
    End(Ending),
    Name { ask: Ask, again: Instant, tries: u8 },
    Create { ask: Ask, again: Instant },
}

impl Fencing {
    pub(super) fn begin(name: LogName, generation: u32, ask: Ask, is_first: bool) -> Fencing {
        let follow = Follow::begin(name, generation, ask, true);
        let step = Step::Read(follow);
        Fencing { step, rest: Vec::new(), has_created: false, is_first, judged: None }
    }

    pub(super) fn tick(&mut self, now: Instant, out: &mut Vec<LogCommand>) {
        match &mut self.step {
            Step::Read(follow) => follow.tick(now, out),
            Step::End(ending) => ending.tick(now, out),
            _ => {}
        }
    }

    pub(super) fn copies(&mut self) -> Option<&mut Copies> {
        match &mut self.step {
            Step::Copies(copies) => Some(copies),
            _ => None,
        }
    }
}

impl Replica {
    /// A leader's stream forgot: it goes on with the next generation.
    pub(super) fn regenerate_open(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        let Some(ship) = self.ship.take() else { return };
        let rest = ship.into_rest();
        let step = Step::End(self.ending(None));
        let (has_created, is_first) = (false, false);
        let mut fencing = Fencing { step, rest, has_created, is_first, judged: None };
        fencing.tick(view.now, out);
        self.phase = Phase::Fencing(fencing);
    }

    fn ending(&mut self, judged: Option<u64>) -> Ending {
        let ask = self.next_asks();
        Ending::begin(self.name, self.me, (self.generation, self.epoch), judged, ask)
    }

    fn read_stream(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        let ask = self.next_asks();
        let follow = Follow::begin(self.name, self.generation, ask, true);
        self.step(view, Step::Read(follow), out);
    }

    fn step(&mut self, view: &NodeView<'_>, step: Step, out: &mut Vec<LogCommand>) {
        if let Phase::Fencing(fencing) = &mut self.phase {
            fencing.step = step;
            fencing.tick(view.now, out);
        }
    }

    pub(super) fn tick_fencing(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        let now = view.now;
        let Phase::Fencing(fencing) = &mut self.phase else { return };
        fencing.tick(now, out);
        match &mut fencing.step {
            Step::Log { again, .. } if now >= *again => self.give_way(now),
            Step::Copies(copies) if now >= copies.again => {
                self.judge_generation(view, out);
                // One stale page must not keep it for so long as copies may be silent.
                if matches!(&self.phase, Phase::Fencing(it) if matches!(it.step, Step::Copies(_))) {
                    self.read_stream(view, out);
                }
            }
            Step::Name { again, tries, .. } if now >= *again => match *tries < TRIES_MAX {
                true => self.name_generation(view, out),
                false => self.give_way(now),
            },
            Step::Create { again, .. } if now >= *again => match self.is_replaced() {
                false => self.create(view, out),
                true if self.is_open => self.close(now, ClosedBy::Deposed, out),
                true => self.give_way(now),
            },
            _ => {}
        }
    }

    pub(super) fn fencing_read(
        &mut self,
        view: &NodeView<'_>,
        ask: Ask,
        result: Result<StreamPage, StreamError>,
        out: &mut Vec<LogCommand>,
    ) {
        let Phase::Fencing(fencing) = &mut self.phase else { return };
        match &mut fencing.step {
            Step::Read(follow) if self.is_open => {
                // The stream of a new generation is empty, or another node has written to it.
                let mut own = self.own.clone();
                let mut none = Vec::new();
                match follow.read(view.now, (ask, result), &mut own, &mut none) {
                    Some(FollowStep::AtEnd) => self.reopen(view, out),
                    Some(FollowStep::Gap) => self.close(view.now, ClosedBy::Deposed, out),
                    Some(FollowStep::Gone) => self.name_generation(view, out),
                    _ => {
                        let is_read = |it: &LogCommand| matches!(it, LogCommand::Read { .. });
                        out.extend(none.into_iter().filter(is_read));
                    }
                }
            }
            Step::Read(follow) => match follow.read(view.now, (ask, result), &mut self.own, out) {
                Some(FollowStep::AtEnd) => self.at_end(view, out),
                Some(FollowStep::Gap) => {
                    self.ship = None;
                    self.copy(view, out);
                }
                Some(FollowStep::Gone) => self.regenerate(view, None, out),
                _ => {}
            },
            Step::End(ending) => {
                let step = ending.read(view.now, (ask, result), out);
                self.ended(view, step, out);
            }
            _ => {}
        }
    }

    /// The stream was read to its end by a claimer.
    fn at_end(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        let Phase::Fencing(fencing) = &self.phase else { return };
        let Step::Read(follow) = &fencing.step else { return };
        let Some(counting) = follow.counting() else { return };
        let end = counting.anchor().map(|anchor| anchor.end);
        let counted = end.map_or(0, |end| end.index);
        let later = counting.ended().is_some_and(|epoch| epoch > self.epoch);
        if later || end.is_some_and(|end| end.epoch >= self.epoch) {
            return self.give_way(view.now);
        }
        let (has_ended, last) = (counting.ended().is_some(), counting.next() - 1);
        let is_first = fencing.is_first && last == 0;
        let told = self.told(view);
        let own = (self.own.acknowledged(), self.own.end().index);
        // Where others have more than this copy, they are to begin it.
        let is_new = counting.is_empty() && (fencing.has_created || is_first && own.1 >= told);
        // Somebody led before, or something was purged: all that was there is forgotten.
        let is_emptied =
            end.is_none() && (self.epoch > 1 || last > 0) && Rule::EmptyStreamIsNoBeginning.holds();
        let is_useless = has_ended || is_emptied || counting.is_void();
        let known = own.0.max(told);
        let lacks = counted < known && Rule::NoticeForgetting.holds();
        if !is_new && lacks && own.1 < told {
            let since = *self.forgot.get_or_insert(view.now);
            if view.now.since(since) < COPIES_LONGEST {
                return self.give_way(view.now); // others have more
            }
        }
        if !is_new && (is_useless || (lacks && own.1 > counted)) {
            return self.regenerate(view, Some(last), out);
        }
        self.forgot = None;
        let from = if is_new { self.own.last_acknowledged_batch() } else { counted + 1 };
        let Phase::Fencing(fencing) = &mut self.phase else { return };
        let none = Step::Create { ask: 0, again: view.now };
        let Step::Read(follow) = std::mem::replace(&mut fencing.step, none) else { return };
        let Some(counted) = follow.into_counted() else { return };
        self.asks += 1;
        let (ask, again) = (self.asks, view.now + ANSWER);
        out.push(LogCommand::ReadLog { ask, from });
        self.step(view, Step::Log { ask, again, counted: Box::new(counted) }, out);
    }

    /// The own tail was read: it is published, and the Lead behind it.
    pub(super) fn log_read(
        &mut self,
        view: &NodeView<'_>,
        ask: Ask,
        batches: Vec<StreamBatch>,
        out: &mut Vec<LogCommand>,
    ) {
        let Phase::Fencing(Fencing { step: Step::Log { ask: asked, counted, .. }, .. }) =
            &self.phase
        else {
            return;
        };
        if *asked != ask {
            return;
        }
        let (counting, held) = &**counted;
        let (route, ask) = (self.route(), self.asks + (1 << 20));
        let mut ship = Shipper::new(route, counting, held.clone(), ask);
        let counted = counting.anchor().map(|anchor| anchor.end);
        let is_tail = Rule::PublishTheTail.holds();
        let at = match (is_tail, counted) {
            (false, Some(counted)) => counted,
            _ => self.own.end(),
        };
        if let Some(behind) = counted.filter(|_| !is_tail && at.index < self.own.end().index) {
            self.own.cut(behind);
            out.push(LogCommand::Cut { behind });
        }
        let lead = self.lead(at);
        let tail = batches.into_iter().filter(|_| is_tail || counted.is_none());
        for batch in tail.chain([lead.clone()]) {
            ship.push(view.now, batch, out);
        }
        self.asks = ask;
        self.ship = Some(ship);
        self.step(view, Step::Shipper { lead }, out);
    }

    /// Begins to lead if everything that the claimer ships was acknowledged.
    pub(super) fn look_at_lead(&mut self, out: &mut Vec<LogCommand>) {
        let Phase::Fencing(Fencing { step: Step::Shipper { lead }, .. }) = &self.phase else {
            return;
        };
        let is_settled = |ship: &Shipper| match Rule::LeadWhenSettled.holds() {
            true => ship.is_settled(),
            false => ship.is_idle(),
        };
        if !self.ship.as_ref().is_some_and(is_settled) {
            return;
        }
        self.own.push(lead);
        self.own.acknowledge(lead.last_index());
        out.push(LogCommand::Append { batch: lead.clone() });
        out.push(LogCommand::Mark { index: lead.last_index() });
        out.push(LogCommand::Open { epoch: self.epoch });
        self.forgot = None;
        if self.generation > 1 {
            out.push(LogCommand::Delete { generation: self.generation - 1 });
        }
        (self.is_open, self.is_isolated, self.phase) = (true, false, Phase::Opening);
    }

    /// The stream is of no use: a new one is to begin, behind the best copy.
    fn regenerate(&mut self, view: &NodeView<'_>, judged: Option<u64>, out: &mut Vec<LogCommand>) {
        self.forgot.get_or_insert(view.now);
        self.asks += 1;
        if let Phase::Fencing(fencing) = &mut self.phase {
            fencing.judged = judged;
        }
        let copies = Copies::ask(view.now, self.asks, out);
        self.step(view, Step::Copies(copies), out);
        self.judge_generation(view, out);
    }

    /// Whether the stream is known to have forgotten, and others still have their time to lead.
    pub(super) fn forgot_lately(&self, now: Instant) -> bool {
        self.forgot.is_some_and(|since| now.since(since) < COPIES_LONGEST)
    }

    /// Whether a new generation may begin behind this copy.
    pub(super) fn judge_generation(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        let Phase::Fencing(Fencing { step: Step::Copies(copies), judged, .. }) = &self.phase else {
            return;
        };
        let judged = *judged;
        let has_waited = view.now >= copies.again;
        let is_long = self.forgot.is_some() && !self.forgot_lately(view.now);
        // An empty copy is no ground for the next generation: also where nothing was ever written
        // to the stream another copy may have the data with which the cluster was made.
        let is_ground = self.own.end().index > 0;
        // The mark of what was acknowledged may be lost, and the stream is no proof.
        let may = match self.judge(copies, None, |it| it.index.max(it.synced)) {
            Say::GoFirst => true,
            Say::Silent => is_ground && has_waited && is_long,
            // A tail that nobody is known to have acknowledged is waited for as silence is: its
            // node may not come to lead.
            Say::GiveWay if is_long && is_ground => match self.judge(copies, None, |it| it.index) {
                Say::GiveWay => return self.give_way(view.now),
                Say::GoFirst | Say::Silent => has_waited,
            },
            Say::GiveWay => return self.give_way(view.now),
        };
        if may {
            // A stream that is gone has no messages to miss.
            let ending = self.ending(Some(judged.unwrap_or(0)));
            self.step(view, Step::End(ending), out);
        }
    }

    pub(super) fn ending_published(
        &mut self,
        view: &NodeView<'_>,
        generation: u32,
        number: PublishNumber,
        result: Result<u64, StreamError>,
        out: &mut Vec<LogCommand>,
    ) {
        if generation != self.generation {
            return;
        }
        if let Phase::Fencing(Fencing { step: Step::End(ending), .. }) = &mut self.phase {
            let step = ending.published(view.now, number, result);
            self.ended(view, step, out);
        }
    }

    fn ended(&mut self, view: &NodeView<'_>, step: EndingStep, out: &mut Vec<LogCommand>) {
        match step {
            EndingStep::Waits => {}
            EndingStep::Ended => self.name_generation(view, out),
            EndingStep::Deposed if self.is_open => self.close(view.now, ClosedBy::Deposed, out),
            EndingStep::Deposed => self.give_way(view.now),
            EndingStep::Changed if self.is_open => {
                let step = Step::End(self.ending(None));
                self.step(view, step, out);
            }
            EndingStep::Changed => self.read_stream(view, out),
        }
    }

    /// Names the next generation in the table, if the claim still stands there.
    fn name_generation(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        let Some((revision, entry)) = self.entry.clone() else { return };
        let is_mine = self.is_named();
        if is_mine && entry.generation > self.generation {
            return self.create(view, out); // the answer was lost
        }
        if !is_mine && (entry.epoch > self.epoch || !self.is_open) {
            // Its watcher may be behind: then the claim is there a moment later.
            return match entry.epoch > self.epoch && self.is_open {
                true => self.close(view.now, ClosedBy::Deposed, out),
                false if entry.epoch >= self.epoch => self.give_way(view.now),
                false => {
                    let (again, tries) = (view.now + ANSWER / 4, self.tries() + 1);
                    self.step(view, Step::Name { ask: 0, again, tries }, out);
                }
            };
        }
        self.asks += 1;
        let (ask, again) = (self.asks, view.now + ANSWER);
        let followers = entry.copies().filter(|node| *node != self.me.node).collect();
        let (generation, leader) = (self.generation + 1, Some(self.me));
        let epoch = self.epoch.max(entry.epoch);
        let entry = LogEntry { generation, epoch, leader, wanted: None, followers };
        out.push(LogCommand::Claim { ask, revision, entry });
        self.step(view, Step::Name { ask, again, tries: 0 }, out);
    }

    fn tries(&self) -> u8 {
        match &self.phase {
            Phase::Fencing(Fencing { step: Step::Name { tries, .. }, .. }) => *tries,
            _ => 0,
        }
    }

    pub(super) fn generation_named(
        &mut self,
        view: &NodeView<'_>,
        ask: Ask,
        revision: Option<u64>,
        out: &mut Vec<LogCommand>,
    ) {
        let Phase::Fencing(Fencing { step: Step::Name { ask: asked, again, .. }, .. }) =
            &mut self.phase
        else {
            return;
        };
        if *asked != ask {
            return;
        }
        match revision {
            Some(_) => self.create(view, out),
            None => *again = view.now + ANSWER / 4, // the watcher will tell why
        }
    }

    /// Whether the table has a later claim. Whoever made it may have ended and removed the stream
    /// of this generation: made anew, it would take a Lead that is over.
    fn is_replaced(&self) -> bool {
        // A leader that took its name back stands there under the epoch of the claim in between.
        let is_later = self.entry.as_ref().is_some_and(|(_, entry)| entry.epoch > self.epoch);
        is_later && !self.is_named()
    }

    /// The table names the next generation: its stream is made.
    fn create(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        let is_again =
            matches!(&self.phase, Phase::Fencing(Fencing { step: Step::Create { .. }, .. }));
        if !is_again {
            (self.generation, self.forgot) = (self.generation + 1, None);
            let generation = self.generation;
            out.push(LogCommand::Tell(LogNotice::NewGeneration { generation }));
        }
        self.asks += 1;
        let (ask, again) = (self.asks, view.now + ANSWER);
        out.push(LogCommand::Create { generation: self.generation, ask });
        self.step(view, Step::Create { ask, again }, out);
    }

    pub(super) fn created(&mut self, view: &NodeView<'_>, ask: Ask, out: &mut Vec<LogCommand>) {
        let Phase::Fencing(fencing) = &mut self.phase else { return };
        if !matches!(fencing.step, Step::Create { ask: asked, .. } if asked == ask) {
            return;
        }
        fencing.has_created = true;
        self.read_stream(view, out);
    }

    /// The stream of the next generation is there: an open leader goes on in it.
    fn reopen(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        let Phase::Fencing(fencing) = &mut self.phase else { return };
        let Step::Read(follow) = &fencing.step else { return };
        let Some(counting) = follow.counting().filter(|counting| counting.is_empty()) else {
            return self.close(view.now, ClosedBy::Deposed, out);
        };
        self.asks += 1 << 20;
        let route = ShipRoute { name: self.name, by: self.me, generation: self.generation };
        let mut ship = Shipper::new(route, counting, Held::default(), self.asks);
        for batch in std::mem::take(&mut fencing.rest) {
            ship.push(view.now, batch, out);
        }
        self.ship = Some(ship);
        self.phase = Phase::Leading;
        out.push(LogCommand::Delete { generation: self.generation - 1 });
    }
}
