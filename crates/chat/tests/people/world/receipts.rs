//! Receipts: devices that ask who has read what, what they are told of deliveries, and what that
//! may be.

use super::{Device, PEOPLE, World, person};
use model::account::AccountAddress;
use model::chat::*;
use model::timeline::Seq;
use std::collections::{BTreeMap, BTreeSet};

/// What a device has asked of receipts, and was told.
#[derive(Default)]
pub struct Receipts {
    pub(super) asking: BTreeMap<u32, AccountAddress>,
    /// What it was told of others' positions.
    pub pages: Vec<ReadersPage>,
    /// What was delivered, as it was told live over this connection, by whom.
    pub delivered: BTreeMap<AccountAddress, Seq>,
    /// Whether its account shares, as it was told last.
    pub privacy: Option<PrivacyState>,
    /// Messages of others that it ever had, by whom and place; installed anew it had them, too.
    pub(super) had: BTreeSet<(AccountAddress, Seq)>,
}

impl Receipts {
    /// It is told something. False: that is no receipt.
    pub(super) fn hears(&mut self, delivery: &ChatDelivery) -> bool {
        match delivery {
            ChatDelivery::Readers(page) => {
                let with = self.asking.remove(&page.number).expect("it asked");
                assert_eq!(page.with, with);
                self.pages.push((**page).clone());
            }
            ChatDelivery::Privacy { number, state } => {
                self.asking.remove(number).expect("it asked");
                self.privacy = Some(*state);
            }
            ChatDelivery::Delivered(news) => {
                // One that is lower says nothing new: a device that came anew has it, too.
                let known = self.delivered.entry(news.with.clone()).or_default();
                *known = news.upto.max(*known);
            }
            _ => return false,
        }
        true
    }

    /// Its connection has ended.
    pub(super) fn is_cut(&mut self) {
        self.asking.clear();
        self.delivered.clear();
    }
}

impl Device {
    fn asks_readers(&mut self, with: AccountAddress, seq: Seq, at: (u32, u16)) -> ChatRequest {
        let session = self.session.expect("it is here");
        let number = self.number();
        self.receipts.asking.insert(number, with.clone());
        let range = ReadersRange { with: with.into(), seq, from: at.0, count: at.1 };
        ChatRequest::Readers { session, number, range: Box::new(range) }
    }
}

impl World {
    /// A device asks how far others are.
    pub(super) fn asks_for_readers(&mut self, at: usize) {
        let group = if self.rng.one_in(2) { self.a_group() } else { None };
        let with = group.unwrap_or_else(|| person(self.rng.below(PEOPLE.into()) as u32));
        let (seq, count) = (self.rng.below(12), 1 + self.rng.below(4) as u16);
        if self.devices[at].is_here() {
            let request = self.devices[at].asks_readers(with, seq, (0, count));
            self.ask(at, request);
        }
    }

    /// Who has read what, when everything is at rest.
    pub fn readers(
        &mut self,
        at: usize,
        with: &AccountAddress,
        (seq, from, count): (Seq, u32, u16),
    ) -> Result<ReadersPage, ChatFault> {
        self.devices[at].failed = None;
        let request = self.devices[at].asks_readers(with.clone(), seq, (from, count));
        self.ask(at, request);
        self.rest();
        let fault = self.devices[at].failed.take();
        let pages = &self.devices[at].receipts.pages;
        fault.map_or_else(|| Ok(pages.last().expect("answered").clone()), Err)
    }

    /// A device sets whether its account shares, or asks; the answer, when everything is at rest.
    pub fn privacy(&mut self, at: usize, shares_reads: Option<bool>) -> bool {
        let wish = PrivacyWish { shares_reads, ..PrivacyWish::default() };
        self.wants_privacy(at, wish).shares_reads
    }

    /// A device sets its account's privacy, or asks; the answer, when everything is at rest.
    pub fn wants_privacy(&mut self, at: usize, wish: PrivacyWish) -> PrivacyState {
        let session = self.devices[at].session.expect("it is here");
        let number = self.devices[at].number();
        let account = self.devices[at].account.clone();
        self.devices[at].receipts.asking.insert(number, account);
        self.ask(at, ChatRequest::Privacy { session, number, wish });
        self.rest();
        self.devices[at].receipts.privacy.expect("answered")
    }

    /// A device's account blocks somebody; it is so everywhere when everything is at rest.
    pub fn blocks(&mut self, at: usize, whom: &AccountAddress) {
        self.wants_of_contact(at, whom, ContactOrder::Block);
    }

    /// A device's account has somebody in its list.
    pub fn lists_contact(&mut self, at: usize, whom: &AccountAddress) {
        let (name, groups) = Default::default();
        self.wants_of_contact(at, whom, ContactOrder::Set { name, groups });
    }

    fn wants_of_contact(&mut self, at: usize, whom: &AccountAddress, order: ContactOrder) {
        let session = self.devices[at].session.expect("it is here");
        let number = self.devices[at].number();
        let wish = ContactWish { contact: whom.clone().into(), order };
        let ask = PeopleAsk::Wish(Box::new(wish));
        let request = Box::new(PeopleRequest { session, number, ask });
        self.ask(at, ChatRequest::People(request));
        self.rest();
        let is_done =
            |it: &ChatDelivery| matches!(it, ChatDelivery::Done { number: n } if *n == number);
        assert!(self.devices[at].push_answers.iter().any(is_done), "it is answered");
    }

    /// A device acknowledges what it has, and a second goes by.
    pub fn acknowledges(&mut self, at: usize) {
        let request = self.devices[at].acknowledges().expect("it is here");
        self.ask(at, request);
        self.pass_ms(1_000);
        self.rest();
    }

    /// What a device was told live of what somebody has of it.
    pub fn delivered(&self, at: usize, to: &AccountAddress) -> Seq {
        self.devices[at].receipts.delivered.get(to).copied().unwrap_or(0)
    }

    /// Nobody was told of a delivery that was none.
    pub(super) fn is_delivered(&self, at: usize, news: &DeliveredNews) {
        let account = &self.devices[at].account;
        let theirs = self.devices.iter().filter(|device| device.account == news.with);
        let mut had = theirs.map(|device| &device.receipts.had);
        let said = (account.clone(), news.upto);
        assert!(had.any(|had| had.contains(&said)), "{account} is told {news:?}");
    }

    /// Whoever asks at the end is told what each knows of itself.
    pub(super) fn check_receipts(&mut self) {
        for n in 0..PEOPLE {
            let at = self.devices.iter().position(|it| it.account == person(n)).expect("there");
            for other in (0..PEOPLE).filter(|other| *other != n) {
                let (me, with) = (person(n), person(other));
                let Some(mine) = self.knows(at, &with) else { continue };
                if mine.last_seq == 0 {
                    continue;
                }
                let page = self.readers(at, &with, (1, 0, 5)).expect("told");
                let theirs = self.devices.iter().position(|it| it.account == with);
                let theirs = self.knows(theirs.expect("there"), &me).expect("it was said to both");
                let [reader] = &page.readers[..] else { panic!("{page:?}") };
                assert_eq!(
                    (reader.read, mine.peer_read),
                    (theirs.read, theirs.read),
                    "{me} {with}"
                );
                assert_eq!((page.total, page.read), (1, u32::from(theirs.read > 0)));
                assert!(reader.delivered >= reader.read && reader.delivered <= mine.last_seq);
            }
        }
    }
}
