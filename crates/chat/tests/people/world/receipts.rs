//! Receipts: devices that ask for readers, notices of delivery, and checks of both.

use super::{Device, PEOPLE, World, person};
use model::account::AccountAddress;
use model::chat::*;
use model::timeline::Seq;
use std::collections::{BTreeMap, BTreeSet};

/// A device's requests for receipts, and their answers.
#[derive(Default)]
pub struct Receipts {
    pub(super) asking: BTreeMap<u32, AccountAddress>,
    /// Positions of others that it got.
    pub pages: Vec<ReadersPage>,
    /// Positions of delivery that it was notified of over this connection, by account.
    pub delivered: BTreeMap<AccountAddress, Seq>,
    /// The last privacy setting of its account that it got.
    pub privacy: Option<PrivacyState>,
    /// Messages of others that it ever had, by sender and offset, also before it was installed
    /// anew.
    pub(super) had: BTreeSet<(AccountAddress, Seq)>,
}

impl Receipts {
    /// Handles a delivery. False: it is no receipt.
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
                // A lower position brings nothing new: another device has received the message,
                // too.
                let known = self.delivered.entry(news.with.clone()).or_default();
                *known = news.upto.max(*known);
            }
            _ => return false,
        }
        true
    }

    /// Handles the end of its connection.
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
    /// Makes a device's request for others' positions.
    pub(super) fn asks_for_readers(&mut self, at: usize) {
        let group = if self.rng.one_in(2) { self.a_group() } else { None };
        let with = group.unwrap_or_else(|| person(self.rng.below(PEOPLE.into()) as u32));
        let (seq, count) = (self.rng.below(12), 1 + self.rng.below(4) as u16);
        if self.devices[at].is_here() {
            let request = self.devices[at].asks_readers(with, seq, (0, count));
            self.ask(at, request);
        }
    }

    /// The readers of a conversation, when everything is at rest.
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

    /// Sets whether a device's account shares read positions, or asks; returns the setting, when
    /// everything is at rest.
    pub fn privacy(&mut self, at: usize, shares_reads: Option<bool>) -> bool {
        let wish = PrivacyWish { shares_reads, ..PrivacyWish::default() };
        self.wants_privacy(at, wish).shares_reads
    }

    /// Sets a device's privacy, or asks; returns the setting, when everything is at rest.
    pub fn wants_privacy(&mut self, at: usize, wish: PrivacyWish) -> PrivacyState {
        let session = self.devices[at].session.expect("it is here");
        let number = self.devices[at].number();
        let account = self.devices[at].account.clone();
        self.devices[at].receipts.asking.insert(number, account);
        self.ask(at, ChatRequest::Privacy { session, number, wish });
        self.rest();
        self.devices[at].receipts.privacy.expect("answered")
    }

    /// Blocks an account; the block holds everywhere when everything is at rest.
    pub fn blocks(&mut self, at: usize, whom: &AccountAddress) {
        self.wants_of_contact(at, whom, ContactOrder::Block);
    }

    /// Puts an account into the contact list.
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

    /// Lets a device acknowledge what it has, and a second pass.
    pub fn acknowledges(&mut self, at: usize) {
        let request = self.devices[at].acknowledges().expect("it is here");
        self.ask(at, request);
        self.pass_ms(1_000);
        self.rest();
    }

    /// The position of delivery to an account that a device was notified of.
    pub fn delivered(&self, at: usize, to: &AccountAddress) -> Seq {
        self.devices[at].receipts.delivered.get(to).copied().unwrap_or(0)
    }

    /// Checks that a notice of delivery is true.
    pub(super) fn is_delivered(&self, at: usize, news: &DeliveredNews) {
        let account = &self.devices[at].account;
        let theirs = self.devices.iter().filter(|device| device.account == news.with);
        let mut had = theirs.map(|device| &device.receipts.had);
        let said = (account.clone(), news.upto);
        assert!(had.any(|had| had.contains(&said)), "{account} is told {news:?}");
    }

    /// Checks that a request at the end gets the positions that each account itself knows.
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
