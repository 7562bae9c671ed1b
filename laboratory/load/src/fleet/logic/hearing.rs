//! Fates of messages that arrive: timed by their head, identified by their proof, answered.
//!
//! Every message whose body bears a proof is known by its publisher and number, whatever its topic:
//! it is the first of its kind, a copy, or late. Where each client hears one sender, its numbers
//! tell besides what is missing. A number that is passed over may still come: it is missing once it
//! has not for a while. A message that cannot be judged is counted as unjudged.

use super::lately::{Rank, key};
use super::pairs::{mark_of, pair_of};
use super::traffic::topic_of;
use super::{FleetLogic, ShardHandle};
use crate::fleet::client::{ClientAct, FleetProfile, TopicMessage};
use crate::fleet::stamp::{
    self, ANSWERS, From, NO_TOPIC, ROW_END, Sign, StampHead, StampProof, TO_MANY, UNORDERED,
};
use base::time::{Instant, Now};
use lab::timing::Timing;
use model::ports::virtual_client::DeliveryClaim;
use std::collections::{HashSet, VecDeque};
use std::sync::PoisonError;
use std::time::Duration;

/// Time after which a number that was passed over is missing.
const PATIENCE: Duration = Duration::from_secs(1);
/// Numbers that are waited for, at most; more are missing at once. Likewise those given up.
const WAITED_FOR_MAX: usize = 1 << 20;

/// Numbers that were passed over.
#[derive(Default)]
pub(super) struct Gaps {
    waited_for: HashSet<(u32, u32)>,
    /// Waited-for numbers in the order of time.
    since: VecDeque<(Instant, u32, u32)>,
    /// Numbers that were waited for in vain.
    given_up: HashSet<(u32, u32)>,
}

/// Fate of a number that was passed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Filled {
    /// The number came in time.
    Late,
    /// The number came after it had been counted as missing.
    Found,
    /// The number had come before.
    Again,
}

impl Gaps {
    /// Numbers that are waited for.
    pub(super) fn open(&self) -> u64 {
        self.waited_for.len() as u64
    }

    /// A number was passed over; false: there is no room to wait for it.
    fn pass(&mut self, now: Instant, virtual_client: u32, number: u32) -> bool {
        let has_room = self.since.len() < WAITED_FOR_MAX;
        if has_room && self.waited_for.insert((virtual_client, number)) {
            self.since.push_back((now, virtual_client, number));
        }
        has_room
    }

    /// A number comes that is not ahead.
    fn fill(&mut self, virtual_client: u32, number: u32) -> Filled {
        match (virtual_client, number) {
            one if self.waited_for.remove(&one) => Filled::Late,
            one if self.given_up.remove(&one) => Filled::Found,
            _ => Filled::Again,
        }
    }

    /// How many have been waited for long enough.
    pub(super) fn give_up(&mut self, now: Instant) -> u64 {
        let mut missing = 0;
        while let Some(&(since, virtual_client, number)) = self.since.front()
            && now - since >= PATIENCE
        {
            self.since.pop_front();
            if self.waited_for.remove(&(virtual_client, number)) {
                missing += 1;
                if self.given_up.len() < WAITED_FOR_MAX {
                    self.given_up.insert((virtual_client, number));
                }
            }
        }
        missing
    }
}

/// A message that came.
pub(super) struct Came<'a> {
    /// The front of its body.
    pub front: &'a [u8],
    /// Bytes of its body.
    pub bytes: u32,
    /// Checksum of what is behind the front.
    pub rest: u32,
    /// The server says that it may have been sent before.
    pub again: bool,
    /// Properties that the protocol gave for the message.
    pub claim: DeliveryClaim,
}

impl FleetLogic {
    /// A message has come.
    pub(super) fn heard(
        &mut self,
        now: Now,
        virtual_client: u32,
        came: &Came<'_>,
        handle: &mut ShardHandle,
    ) {
        let proof = stamp::proof(came.front, came.bytes, came.rest);
        let is_chat = self.pool.plan.hearing.is_chat;
        if is_chat && self.is_of_another_run(now, proof, came.front) {
            self.pool.log.earlier += 1;
            return;
        }
        self.pool.log.messages += 1;
        self.pool.log.message_bytes += u64::from(came.bytes);
        if self.sends_requests() {
            return; // bytes that nobody asked for
        }
        self.pool.log.changed += u64::from(proof == StampProof::Changed);
        self.pool.log.foreign += u64::from(proof == StampProof::Foreign);
        let head = match proof {
            // Not even its time is to be believed.
            StampProof::Changed | StampProof::Foreign => None,
            _ => stamp::read(came.front, self.wall_us(now.mono)),
        };
        let Some(head) = head else {
            self.pool.log.unjudged += 1;
            self.pool.log.repeated += u64::from(came.again && !is_chat);
            return;
        };
        let timing = if head.is_answer { Timing::Request } else { Timing::Delivery };
        if !self.pool.plan.hearing.audits {
            self.pool.log.timings.at(timing).note_both(head.corrected_us, head.raw_us);
        }
        let rank = self.rank(now, virtual_client, (proof, &head), came.again);
        if let StampProof::Whole(sign) = proof {
            self.look_at_claim(virtual_client, came, &sign, rank);
        }
        let sender = match head.from {
            From::Sender(number) => number,
            _ => self.pool.number(virtual_client),
        };
        self.answer(now, virtual_client, came.front, sender, handle);
    }

    /// Counts what a message is among all that came; `None`: it came astray, or it is not known.
    fn rank(
        &mut self,
        now: Now,
        virtual_client: u32,
        (proof, head): (StampProof, &StampHead),
        again: bool,
    ) -> Option<Rank> {
        match (proof, head.from) {
            (StampProof::Whole(sign), _) if self.is_astray(virtual_client, &sign) => {
                self.pool.log.astray += 1;
                None
            }
            (StampProof::Whole(sign), From::Row { number, .. })
                if self.pool.plan.hearing.is_chat =>
            {
                let rank = self.pairs.rank(pair_of(virtual_client, &sign), number);
                self.count_rank(rank);
                if matches!(rank, Rank::New | Rank::Late) {
                    self.pool.log.received_marks += u64::from(mark_of(&sign));
                }
                Some(rank)
            }
            (_, From::Row { tag, number }) if self.is_row_of(virtual_client, tag) => {
                Some(self.look_at_number(now, virtual_client, (tag, number)))
            }
            (StampProof::Whole(sign), _) => Some(self.judge(now, virtual_client, head, &sign)),
            _ => {
                self.pool.log.unjudged += 1;
                self.pool.log.repeated += u64::from(again);
                None
            }
        }
    }

    /// Whether a message was sent before this run began: inboxes outlive runs.
    fn is_of_another_run(&self, now: Now, proof: StampProof, front: &[u8]) -> bool {
        let head = stamp::read(front, self.wall_us(now.mono));
        let is_older = head.is_none_or(|head| head.corrected_us > now.mono.nanos() / 1_000);
        matches!(proof, StampProof::Whole(_)) && is_older
    }

    /// Whether a message came to a client that has not subscribed to its topic.
    fn is_astray(&self, virtual_client: u32, sign: &Sign) -> bool {
        let is_to_many = sign.stream < ANSWERS && sign.stream & TO_MANY != 0;
        self.pool.plan.hearing.hears_own
            && !is_to_many
            && sign.topic != NO_TOPIC
            && sign.topic != self.pool.number(virtual_client)
    }

    /// Whether a client hears the rows of this group and no others.
    fn is_row_of(&self, virtual_client: u32, tag: u8) -> bool {
        let heard = self.pool.clients[virtual_client as usize].heard;
        self.pool.plan.hearing.checks_rows && (heard == 0 || heard >> 24 == u32::from(tag))
    }

    fn look_at_number(&mut self, now: Now, virtual_client: u32, (tag, number): (u8, u32)) -> Rank {
        let word = u32::from(tag) << 24 | number;
        let this = &mut self.pool.clients[virtual_client as usize];
        if this.heard == 0 {
            this.heard = word;
            return Rank::New;
        }
        let last = this.heard % ROW_END;
        match number.wrapping_sub(last) % ROW_END {
            0 => {
                self.pool.log.repeated += 1;
                Rank::Repeated
            }
            ahead if ahead < ROW_END / 2 => {
                this.heard = word;
                for passed in 1..ahead {
                    let number = (last + passed) % ROW_END;
                    let waits = self.gaps.pass(now.mono, virtual_client, number);
                    self.pool.log.missing += u64::from(!waits);
                }
                Rank::New
            }
            _ => match self.gaps.fill(virtual_client, number) {
                Filled::Again => {
                    self.pool.log.repeated += 1;
                    Rank::Repeated
                }
                filled => {
                    self.pool.log.reordered += 1;
                    self.pool.log.missing -= u64::from(filled == Filled::Found);
                    Rank::Late
                }
            },
        }
    }

    /// Tells a message from all that were heard lately.
    fn judge(&mut self, now: Now, virtual_client: u32, head: &StampHead, sign: &Sign) -> Rank {
        let whose = u64::from(sign.tag) << 32 | u64::from(sign.publisher);
        let place = u64::from(self.pool.number(virtual_client)) << 32 | u64::from(sign.topic);
        let order = key([whose, place, u64::from(sign.stream)]);
        let order = (sign.stream != UNORDERED).then_some(order);
        let age_ns = head.raw_us.saturating_mul(1_000);
        let sent = Instant::from_nanos(now.mono.nanos().saturating_sub(age_ns));
        let rank = match &self.share.shared {
            // One of all its members gets a message: a copy may come to another.
            Some(shared) => {
                let keys = (key([whose, sign.number, 0]), order);
                let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                match shared.has(keys.0) {
                    true => Rank::Repeated,
                    false => shared.rank(now.mono, sent, keys, sign.number),
                }
            }
            None => {
                let keys = (key([whose, sign.number, u64::from(virtual_client) + 1]), order);
                self.lately.rank(now.mono, sent, keys, sign.number)
            }
        };
        self.count_rank(rank);
        rank
    }

    fn count_rank(&mut self, rank: Rank) {
        let is_elsewhere = self.pool.plan.hearing.is_shared_elsewhere;
        match rank {
            Rank::Repeated => self.pool.log.repeated += 1,
            Rank::Late => self.pool.log.reordered += 1,
            Rank::Unknown => self.pool.log.unjudged += 1,
            Rank::New => self.pool.log.unjudged += u64::from(is_elsewhere),
        }
    }

    fn answer(
        &mut self,
        now: Now,
        virtual_client: u32,
        front: &[u8],
        sender: u32,
        handle: &mut ShardHandle,
    ) {
        let Some(formula) = &self.pool.plan.hearing.answer_to else { return };
        let (Some(head), FleetProfile::Mqtt(_)) = (stamp::answer(front), &self.pool.plan.profile)
        else {
            return;
        };
        let own = self.pool.number(virtual_client);
        let topic = topic_of(formula, own, sender);
        let qos = self.pool.plan.hearing.answer_qos;
        let number = match (formula.contains("%s"), formula.contains("%i")) {
            (true, false) => sender,
            (false, true) => own,
            _ => NO_TOPIC,
        };
        let sign = self.sign(own, number, ANSWERS);
        let body = Box::new(stamp::prove(&head, &sign, stamp::rest_of(&[])));
        let topic_message = TopicMessage { topic, qos, retain: false, body };
        self.flights_begin(virtual_client, now.mono, 0, qos > 0);
        self.tell(virtual_client, ClientAct::Publish(Box::new(topic_message)), handle);
    }

    /// The sign of the next message of this publisher.
    pub(super) fn sign(&mut self, publisher: u32, topic: u32, stream: u8) -> Sign {
        self.numbered = (self.numbered + 1) % stamp::NUMBER_END;
        Sign { publisher, topic, tag: self.pool.plan.tag, stream, number: self.numbered }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_comes_within_a_second_is_not_missing() {
        let mut gaps = Gaps::default();
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        assert!(gaps.pass(at(0), 1, 7) && gaps.pass(at(500), 1, 8));
        assert_eq!(gaps.fill(1, 7), Filled::Late);
        assert_eq!((gaps.give_up(at(1_200)), gaps.open()), (0, 1));
        assert_eq!((gaps.give_up(at(1_500)), gaps.open()), (1, 0));
        assert_eq!([gaps.fill(1, 8), gaps.fill(1, 8)], [Filled::Found, Filled::Again]);
    }
}
