//! Archives as devices read them, checked against the messages that must be there.

use super::{DEVICES, Device, PEOPLE, World, person, whole};
use base::prng::Prng;
use model::account::AccountAddress;
use model::chat::*;
use model::timeline::Seq;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Device {
    /// Requests a part of its account's archive.
    pub(super) fn asks_archive(&mut self, range: ArchiveRange) -> Option<ChatRequest> {
        let session = self.session?;
        let number = self.number();
        self.archive = None;
        self.archiving.insert(number, range.clone());
        Some(ChatRequest::Archive { session, number, range: Box::new(range) })
    }

    /// Requests a random part of the archive, by ids of messages that it has.
    pub(super) fn looks_back(&mut self, rng: &mut Prng, people: u32) -> Option<ChatRequest> {
        let with = rng.one_in(2).then(|| person(rng.below(people.into()) as u32));
        let is_of = |it: &&Arc<ChatMessage>| match &with {
            Some(with) => !it.to.is_group() && partner(&self.account, it) == with,
            None => true,
        };
        let known: Vec<_> = self.has.values().filter(is_of).cloned().collect();
        let mut one = || {
            let is_wanted = !known.is_empty() && rng.one_in(3);
            is_wanted.then(|| known[rng.below(known.len() as u64) as usize].clone())
        };
        let (after, before, named) = (one(), one(), one());
        let (since, until) = (one(), one());
        let ids = |it: Option<Arc<ChatMessage>>| -> Vec<ArchiveId> {
            it.iter().map(|it| ArchiveId::of(it)).collect()
        };
        let range = ArchiveRange {
            with: with.clone().map(Into::into),
            after: ids(after),
            before: ids(before),
            named: ids(named.filter(|it| !it.to.is_group() && it.seq.is_multiple_of(3))),
            since_ms: since.map_or(0, |it| it.at_ms),
            until_ms: until.map_or(u64::MAX, |it| it.at_ms),
            backwards: rng.one_in(2),
            count: 1 + rng.below(8) as u16,
        };
        self.asks_archive(range)
    }

    /// Checks a part of the archive.
    pub(super) fn archived(&mut self, page: ArchivePage) {
        let range = self.archiving.remove(&page.number).expect("it asked");
        assert!(page.messages.len() <= usize::from(range.count).max(range.named.len()));
        let with = range.with.as_ref().map(|with| with.within("a.example"));
        let mut last = BTreeMap::<AccountAddress, Seq>::new();
        for message in &page.messages {
            let of_group = with.as_ref().is_some_and(|with| with.is_group());
            assert!(message.to.is_group() == of_group, "{range:?}");
            assert!(range.has_time(message.at_ms), "{range:?}");
            let mine = of_group || [&message.from, &message.to].contains(&&self.account);
            let partner = partner(&self.account, message);
            assert!(mine && with.as_ref().is_none_or(|with| with == partner), "{message:?}");
            let before = last.insert(partner.clone(), message.seq).unwrap_or(0);
            assert!(message.seq > before, "in the order of its conversation");
            let id = ArchiveId::of(message);
            assert!(range.named.is_empty() || range.named.contains(&id));
            assert!(!range.after.contains(&id) && !range.before.contains(&id));
            if with.is_some() {
                assert!(range.after.iter().all(|bound| message.seq > bound.seq));
                assert!(range.before.iter().all(|bound| message.seq < bound.seq));
            }
        }
        self.archive = Some(page);
    }

    /// Handles the refusal of a read.
    pub(super) fn archive_refused(&mut self, number: u32, why: ChatFault) {
        if let Some(range) = self.archiving.remove(&number) {
            assert_eq!(why, ChatFault::Busy, "{} has all of {range:?}", self.account);
        }
    }
}

/// The other party of a message, for an account.
fn partner<'a>(account: &AccountAddress, message: &'a ChatMessage) -> &'a AccountAddress {
    let is_its = message.from == *account || message.to.is_group();
    if is_its { &message.to } else { &message.from }
}

impl World {
    /// Stores messages for an external archive, from now on until a crash.
    pub fn keeps_for_archive(&mut self) {
        self.shards.iter_mut().for_each(|shard| shard.chat.keep_for_archive());
    }

    /// A part of an account's archive, when everything is at rest.
    pub fn archive(&mut self, at: usize, range: ArchiveRange) -> Result<ArchivePage, ChatFault> {
        if let Some(request) = self.devices[at].asks_archive(range) {
            self.ask(at, request);
        }
        self.rest();
        match self.devices[at].archive.take() {
            Some(page) => Ok(page),
            None => Err(self.devices[at].failed.take().expect("an answer")),
        }
    }

    /// The fault for a request with an unknown id.
    pub fn archive_fault(&mut self, at: usize, range: ArchiveRange) -> ChatFault {
        let request = self.devices[at].asks_archive(range);
        self.devices[at].archiving.clear();
        request.into_iter().for_each(|request| self.ask(at, request));
        self.rest();
        self.devices[at].failed.take().expect("a fault")
    }

    /// A whole archive, page by page from one end.
    pub fn whole_archive(
        &mut self,
        at: usize,
        with: Option<&AccountAddress>,
        backwards: bool,
    ) -> Vec<Arc<ChatMessage>> {
        let with = with.cloned().map(Into::into);
        let mut range = ArchiveRange { with, ..ArchiveRange::whole(backwards, 40) };
        let mut all = Vec::new();
        loop {
            let page = self.archive(at, range.clone()).expect("it is read");
            match backwards {
                true => drop(all.splice(0..0, page.messages)),
                false => all.extend(page.messages),
            }
            let Some(id) = page.goes_on else { return all };
            let bound = if backwards { &mut range.before } else { &mut range.after };
            assert_ne!(*bound, [id], "it gets on");
            *bound = vec![id];
        }
    }

    /// Checks that a person's archive has the messages of its devices between two accounts, in the
    /// order of the inbox; and that the archive with one other has those with it.
    pub(super) fn check_archive(&mut self, n: u32) {
        let account = person(n);
        let of: Vec<&Device> =
            self.devices.iter().filter(|device| device.account == account).collect();
        let inbox = whole(&of);
        let all: Vec<_> = inbox.values().filter(|it| !it.to.is_group()).cloned().collect();
        let ids = |all: &[Arc<ChatMessage>]| -> Vec<ArchiveId> {
            all.iter().map(|it| ArchiveId::of(it)).collect()
        };
        let at = (n * DEVICES) as usize;
        let mut read = Vec::new();
        for backwards in [false, true] {
            read = self.whole_archive(at, None, backwards);
            assert_eq!(ids(&read), ids(&all), "{account}, backwards: {backwards}");
        }
        for other in (0..PEOPLE).map(person) {
            let is_with = |it: &&Arc<ChatMessage>| *partner(&account, it) == other;
            let both: Vec<_> = read.iter().filter(is_with).cloned().collect();
            let backwards = n.is_multiple_of(2);
            let with_other = self.whole_archive(at, Some(&other), backwards);
            assert_eq!(ids(&with_other), ids(&both), "{account} with {other}");
        }
    }
}
