//! A tie: the state that an account's home keeps of the account and one contact, and its debts:
//! words that it still has to send to the contact's home.
//!
//! ```text
//! version u8 | flags u8 | to u8 | from u8 | owes u8 | version u64 | asked u64 | asking u64
//! block u64 | peer 16, if there is one | name, greetings of both u16 bytes each
//! groups u8, each u8 bytes
//! ```
//! Numbers are little-endian. The words of one home to the other are not queued: they follow from
//! the state, and are repeated until the other has confirmed them. Each subscription request has a
//! number, which rises, and later words name it, so a late word is recognized. Invariant: when
//! neither home owes the other anything, each state mirrors the other's.

use super::subscription;
use base::bytes::{ByteReader, put_text};
use base::encoding::Encoding;
use model::account::AccountAddress;
use model::chat::{Contact, Half, Subscription, SubscriptionVerb};
use model::timeline::TimelineId;
use std::sync::Arc;

const VERSION: u8 = 1;

const LISTED: u8 = 1;
const BLOCKED: u8 = 2;
const APPROVED: u8 = 4;
const BARRED: u8 = 8;
const PEER: u8 = 16;

/// The contact's home is still to be sent the account's own half of the subscription.
pub(crate) const OWES_WISH: u8 = 1;

/// The contact's home is still to be sent the answer to the contact's request.
pub(crate) const OWES_ANSWER: u8 = 2;

/// The contact's home is still to be sent whether the contact is blocked.
pub(crate) const OWES_BLOCK: u8 = 4;

/// The state that an account's home keeps of the account and one contact.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tie {
    pub contact: Arc<Contact>,
    /// Inbox of the account that had the contact's address when the two last communicated.
    pub peer: Option<TimelineId>,
    /// Number of the account's last subscription request to the contact.
    pub asked: u64,
    /// Number of the contact's last subscription request.
    pub asking: u64,
    /// The number of the last change of blocking.
    pub block: u64,
    /// The contact has blocked the account.
    pub is_barred: bool,
    /// Greeting of the account's request.
    pub greeting: Box<str>,
    pub owes: u8,
}

/// Verb of a word between the homes of two accounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encoding)]
#[encoding(Subscription = 0, Block = 1, Unblock = 2)]
pub enum TieVerb {
    /// A subscription verb.
    Subscription(SubscriptionVerb),
    /// The contact is blocked.
    Block,
    /// The contact is unblocked.
    Unblock,
}

/// A word between homes: its verb, and the number of the request or change that it is about.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct TieWord {
    pub(crate) verb: TieVerb,
    pub(crate) number: u64,
    pub(crate) greeting: Box<str>,
}

impl Tie {
    pub(crate) fn new(address: AccountAddress) -> Tie {
        Tie {
            contact: Arc::new(Contact::nobody(address)),
            peer: None,
            asked: 0,
            asking: 0,
            block: 0,
            is_barred: false,
            greeting: Box::default(),
            owes: 0,
        }
    }

    pub(crate) fn subscription(&self) -> Subscription {
        self.contact.subscription
    }

    /// Whether the account sees the contact's presence.
    pub(crate) fn sees(&self) -> bool {
        let is_open = !self.contact.is_blocked && !self.is_barred && self.peer.is_some();
        is_open && self.subscription().to == Half::Subscribed
    }

    /// Whether the contact sees the account's presence, unless it has blocked the account, which
    /// its own home knows.
    pub(crate) fn is_seen(&self) -> bool {
        let is_open = !self.contact.is_blocked && self.peer.is_some();
        is_open && self.subscription().from == Half::Subscribed
    }

    /// Whether the tie counts towards an account's limit of contacts.
    pub(crate) fn counts(&self) -> bool {
        let Subscription { to, from, approved } = self.subscription();
        let is_kept = to != Half::None || from == Half::Subscribed || approved;
        self.contact.is_listed || self.contact.is_blocked || is_kept
    }

    /// Whether the tie is kept only so that devices learn that the contact was removed.
    pub(crate) fn is_over(&self) -> bool {
        self.contact.is_gone() && !self.is_barred && self.owes == 0
    }

    /// Sets the account that has the contact's address now. If another had it before, nothing of
    /// the old state holds for the new one but the account's own name and groups for it, and a
    /// block.
    pub(crate) fn is_now(&mut self, peer: TimelineId) {
        if self.peer == Some(peer) {
            return;
        }
        self.is_nobody();
        self.peer = Some(peer);
        if self.contact.is_blocked {
            self.owe_block();
        }
    }

    /// Records that no account has the contact's address: the subscription with the former one
    /// ends.
    pub(crate) fn is_nobody(&mut self) {
        if self.peer.take().is_some() {
            let contact = Arc::make_mut(&mut self.contact);
            (contact.subscription, contact.greeting) = Default::default();
            (self.asking, self.is_barred, self.owes) = (0, false, 0);
        }
    }

    /// Marks that the contact's home is to be sent whether the contact is blocked. A block of a
    /// domain is for all its accounts, and is known only at the home of the account that made it.
    pub(crate) fn owe_block(&mut self) {
        if self.peer.is_some() && !self.contact.address.is_domain() {
            self.owes |= OWES_BLOCK;
        }
    }

    /// Applies a verb of the account; `number` is one that no earlier request had.
    pub(crate) fn says(&mut self, verb: SubscriptionVerb, number: u64) {
        let before = self.subscription();
        let step = subscription::says(before, verb);
        self.put(step.after);
        if before.to == Half::None && step.after.to == Half::Pending {
            self.asked = number;
        }
        if !step.passes || self.peer.is_none() {
            return;
        }
        match verb {
            SubscriptionVerb::Subscribe | SubscriptionVerb::Unsubscribe => {
                self.owes |= OWES_WISH;
            }
            _ => self.owes |= OWES_ANSWER,
        }
    }

    /// Applies a verb of the contact, which may be blocked, by itself or by domain. Returns whether
    /// sessions are notified.
    pub(crate) fn hears(
        &mut self,
        verb: SubscriptionVerb,
        word: &TieWord,
        is_blocked: bool,
    ) -> bool {
        let TieWord { number, greeting, .. } = word;
        if verb == SubscriptionVerb::Subscribe && is_blocked {
            // A blocked contact's new request shows that its last one was withdrawn; the rest is
            // ignored.
            let is_new = *number > self.asking;
            let last = TieWord { number: self.asking, ..word.clone() };
            return is_new && self.hears(SubscriptionVerb::Unsubscribe, &last, is_blocked);
        }
        let before = self.subscription();
        let is_of_now = match verb {
            // A request that was answered or withdrawn arrives late.
            SubscriptionVerb::Subscribe => {
                let is_open = before.from != Half::None;
                *number > self.asking || *number == self.asking && is_open
            }
            SubscriptionVerb::Unsubscribe => *number >= self.asking,
            SubscriptionVerb::Subscribed => *number == self.asked,
            SubscriptionVerb::Unsubscribed => *number >= self.asked,
        };
        if !is_of_now {
            return false;
        }
        let step = subscription::is_told(before, verb);
        self.put(step.after);
        match verb {
            SubscriptionVerb::Subscribe => {
                self.asking = *number;
                self.owes &= !OWES_ANSWER;
                if step.is_granted {
                    self.owes |= OWES_ANSWER;
                } else if self.contact.greeting != *greeting {
                    Arc::make_mut(&mut self.contact).greeting = greeting.clone();
                }
            }
            SubscriptionVerb::Unsubscribe => self.owes &= !OWES_ANSWER,
            // An account that has withdrawn its request still has to say so.
            SubscriptionVerb::Subscribed if before.to == Half::None => {}
            SubscriptionVerb::Subscribed | SubscriptionVerb::Unsubscribed => {
                self.owes &= !OWES_WISH;
            }
        }
        step.passes && !is_blocked
    }

    /// Handles a receipt of the contact's home.
    pub(crate) fn is_heard(&mut self, verb: TieVerb, number: u64) {
        let Subscription { to, from, .. } = self.subscription();
        let settles = |is_so: bool, bit: u8| if is_so { bit } else { 0 };
        let settled = match verb {
            TieVerb::Subscription(SubscriptionVerb::Subscribe) => {
                // The home took the request after it was withdrawn here: the withdrawal is sent to
                // it.
                if to == Half::None && number == self.asked {
                    self.owes |= OWES_WISH;
                }
                settles(to != Half::None && number == self.asked, OWES_WISH)
            }
            TieVerb::Subscription(SubscriptionVerb::Unsubscribe) => {
                settles(to == Half::None && number == self.asked, OWES_WISH)
            }
            TieVerb::Subscription(SubscriptionVerb::Subscribed) => {
                settles(from == Half::Subscribed && number == self.asking, OWES_ANSWER)
            }
            TieVerb::Subscription(SubscriptionVerb::Unsubscribed) => {
                settles(from == Half::None && number == self.asking, OWES_ANSWER)
            }
            TieVerb::Block => settles(self.contact.is_blocked && number == self.block, OWES_BLOCK),
            TieVerb::Unblock => {
                settles(!self.contact.is_blocked && number == self.block, OWES_BLOCK)
            }
        };
        self.owes &= !settled;
    }

    /// The words that the contact's home is still to be sent.
    pub(crate) fn words(&self) -> impl Iterator<Item = TieWord> + use<> {
        let Subscription { to, from, .. } = self.subscription();
        let wish = match to {
            Half::None => SubscriptionVerb::Unsubscribe,
            _ => SubscriptionVerb::Subscribe,
        };
        let answer = match from {
            Half::Subscribed => SubscriptionVerb::Subscribed,
            _ => SubscriptionVerb::Unsubscribed,
        };
        let block = if self.contact.is_blocked { TieVerb::Block } else { TieVerb::Unblock };
        let all = [
            (OWES_WISH, TieVerb::Subscription(wish), self.asked),
            (OWES_ANSWER, TieVerb::Subscription(answer), self.asking),
            (OWES_BLOCK, block, self.block),
        ];
        let (owes, greeting) = (self.owes, self.greeting.clone());
        all.into_iter().filter(move |(bit, ..)| owes & bit != 0).map(move |(_, verb, number)| {
            let is_wish = verb == TieVerb::Subscription(SubscriptionVerb::Subscribe);
            let greeting = if is_wish { greeting.clone() } else { Box::default() };
            TieWord { verb, number, greeting }
        })
    }

    fn put(&mut self, after: Subscription) {
        if self.contact.subscription != after {
            let contact = Arc::make_mut(&mut self.contact);
            contact.subscription = after;
            if after.from != Half::Pending {
                contact.greeting = Box::default();
            }
        }
    }

    pub(crate) fn encode(&self) -> Box<[u8]> {
        let Contact { is_listed, name, groups, subscription, is_blocked, version, .. } =
            &*self.contact;
        let flags = [
            (*is_listed, LISTED),
            (*is_blocked, BLOCKED),
            (subscription.approved, APPROVED),
            (self.is_barred, BARRED),
            (self.peer.is_some(), PEER),
        ];
        let flags = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum();
        let halves = [subscription.to, subscription.from].map(|half| half as u8);
        let mut out = vec![VERSION, flags, halves[0], halves[1], self.owes];
        for number in [*version, self.asked, self.asking, self.block] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend(self.peer.iter().flat_map(|peer| peer.to_bytes()));
        for text in [&**name, &*self.contact.greeting, &*self.greeting] {
            put_text(text, &mut out);
        }
        out.push(groups.len() as u8);
        for group in groups {
            out.push(group.len() as u8);
            out.extend_from_slice(group.as_bytes());
        }
        out.into()
    }
}

impl Tie {
    /// Decodes the tie with this contact; `None`: it cannot be read.
    pub(crate) fn decode(address: AccountAddress, value: &[u8]) -> Option<Tie> {
        let mut bytes = ByteReader::of(VERSION, value)?;
        let flags = bytes.flags(LISTED | BLOCKED | APPROVED | BARRED | PEER)?;
        let is = |flag: u8| flags & flag != 0;
        let (to, from) = (half(bytes.byte()?)?, half(bytes.byte()?)?);
        let owes = bytes.flags(OWES_WISH | OWES_ANSWER | OWES_BLOCK)?;
        let (version, asked, asking, block) =
            (bytes.u64()?, bytes.u64()?, bytes.u64()?, bytes.u64()?);
        let peer = match is(PEER) {
            true => Some(TimelineId::from_bytes(bytes.take(16)?.try_into().ok()?)?),
            false => None,
        };
        let (name, told, greeting) = (bytes.text()?, bytes.text()?, bytes.text()?);
        let (name, told, greeting) = (name.into(), told.into(), greeting.into());
        let count = bytes.byte()?;
        let groups = (0..count).map(|_| bytes.short_text().map(Box::from));
        let groups = groups.collect::<Option<Vec<_>>>()?.into();
        let contact = Contact {
            address,
            is_listed: is(LISTED),
            name,
            groups,
            subscription: Subscription { to, from, approved: is(APPROVED) },
            greeting: told,
            is_blocked: is(BLOCKED),
            version,
        };
        let (contact, is_barred) = (Arc::new(contact), is(BARRED));
        bytes.ends(Tie { contact, peer, asked, asking, block, is_barred, greeting, owes })
    }
}

fn half(byte: u8) -> Option<Half> {
    [Half::None, Half::Pending, Half::Subscribed].into_iter().find(|half| *half as u8 == byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::account::AccountId;

    const HOME: HashKey = HashKey::new(1, 2);

    fn address(name: &str) -> AccountAddress {
        AccountAddress::parse(name, "a.example").expect("right")
    }

    fn tie(name: &str, id: u64) -> Tie {
        let mut tie = Tie::new(address(name));
        tie.is_now(address(name).inbox(HOME, AccountId(id)));
        tie
    }

    /// Delivers all words that one side owes to the other, perhaps for the second time.
    fn pass(from: &mut Tie, to: &mut Tie) {
        for word in from.words().collect::<Vec<_>>() {
            if let TieVerb::Subscription(verb) = word.verb {
                to.hears(verb, &word, to.contact.is_blocked);
            }
            from.is_heard(word.verb, word.number);
        }
    }

    #[test]
    fn a_row_says_what_was_put_into_it() {
        let mut all = tie("bob", 7);
        all.says(SubscriptionVerb::Subscribe, 9);
        (all.greeting, all.block, all.is_barred) = ("it is me".into(), 3, true);
        let contact = Arc::make_mut(&mut all.contact);
        (contact.name, contact.is_listed, contact.version) = ("Bob".into(), true, 1 << 40);
        contact.groups = ["friends".into(), "work".into()].into();
        contact.subscription.from = Half::Pending;
        contact.greeting = "hello".into();
        for tie in [all, Tie::new(address("bob"))] {
            let row = tie.encode();
            assert_eq!(Tie::decode(address("bob"), &row), Some(tie));
            for end in 0..row.len() {
                assert!(Tie::decode(address("bob"), &row[..end]).is_none(), "cut at {end}");
            }
            assert!(Tie::decode(address("bob"), &[&*row, b"x"].concat()).is_none());
        }
    }

    #[test]
    fn one_wish_and_one_answer_of_the_same_kind_make_friends() {
        let (mut ann, mut bob) = (tie("bob", 2), tie("ann", 1));
        let befriends = |tie: &mut Tie, number| {
            tie.says(SubscriptionVerb::Subscribed, number);
            tie.says(SubscriptionVerb::Subscribe, number);
        };
        befriends(&mut ann, 1);
        pass(&mut ann, &mut bob);
        assert_eq!(bob.subscription().from, Half::Pending);
        befriends(&mut bob, 2);
        for _ in 0..3 {
            pass(&mut bob, &mut ann);
            pass(&mut ann, &mut bob);
        }
        for tie in [&ann, &bob] {
            assert_eq!((tie.subscription().word(), tie.owes), ("both", 0));
            assert!(!tie.subscription().approved, "used up");
        }
    }

    #[test]
    fn a_wish_that_comes_late_is_taken_back() {
        let (mut ann, mut bob) = (tie("bob", 2), tie("ann", 1));
        ann.says(SubscriptionVerb::Subscribe, 5);
        let late: Vec<_> = ann.words().collect();
        pass(&mut ann, &mut bob);
        bob.says(SubscriptionVerb::Unsubscribed, 0);
        pass(&mut bob, &mut ann);
        assert_eq!(ann.subscription().to, Half::None);
        bob.hears(SubscriptionVerb::Subscribe, &late[0], false);
        assert_eq!(bob.subscription().from, Half::None, "it has been answered");
        // The row of the refused account may have been deleted since.
        bob = tie("ann", 1);
        bob.hears(SubscriptionVerb::Subscribe, &late[0], false);
        assert_eq!(bob.subscription().from, Half::Pending);
        ann.is_heard(late[0].verb, late[0].number);
        pass(&mut ann, &mut bob);
        assert_eq!((bob.subscription(), ann.owes), (Subscription::default(), 0));
    }

    #[test]
    fn who_is_blocked_is_not_heard_but_what_it_took_back_is_gone() {
        let (mut ann, mut bob) = (tie("bob", 2), tie("ann", 1));
        ann.says(SubscriptionVerb::Subscribe, 5);
        pass(&mut ann, &mut bob);
        bob.says(SubscriptionVerb::Subscribed, 0);
        pass(&mut bob, &mut ann);
        Arc::make_mut(&mut bob.contact).is_blocked = true;
        ann.says(SubscriptionVerb::Unsubscribe, 0);
        ann.says(SubscriptionVerb::Subscribe, 6);
        pass(&mut ann, &mut bob);
        assert_eq!((bob.subscription().from, bob.owes), (Half::None, 0));
        Arc::make_mut(&mut bob.contact).is_blocked = false;
        ann.says(SubscriptionVerb::Subscribe, 7);
        pass(&mut ann, &mut bob);
        assert_eq!(bob.subscription().from, Half::Pending, "asked again, it is heard");
    }

    #[test]
    fn an_answer_to_an_earlier_wish_is_none_to_the_next() {
        let (mut ann, mut bob) = (tie("bob", 2), tie("ann", 1));
        ann.says(SubscriptionVerb::Subscribe, 5);
        pass(&mut ann, &mut bob);
        bob.says(SubscriptionVerb::Subscribed, 0);
        let late: Vec<_> = bob.words().collect();
        ann.says(SubscriptionVerb::Unsubscribe, 0);
        pass(&mut ann, &mut bob);
        ann.says(SubscriptionVerb::Subscribe, 6);
        assert!(!ann.hears(SubscriptionVerb::Subscribed, &late[0], false));
        assert_eq!(ann.subscription().to, Half::Pending);
        pass(&mut ann, &mut bob);
        assert_eq!(bob.subscription().from, Half::Pending);
    }

    #[test]
    fn whoever_has_the_name_later_has_nothing_of_it_but_that_it_is_blocked() {
        let mut bob = tie("ann", 1);
        bob.hears(
            SubscriptionVerb::Subscribe,
            &TieWord {
                verb: TieVerb::Subscription(SubscriptionVerb::Subscribe),
                number: 5,
                greeting: "hello".into(),
            },
            false,
        );
        bob.says(SubscriptionVerb::Subscribed, 0);
        assert!(bob.is_seen());
        let contact = Arc::make_mut(&mut bob.contact);
        (contact.is_listed, contact.is_blocked, contact.name) = (true, true, "Ann".into());
        bob.is_now(address("ann").inbox(HOME, AccountId(8)));
        assert_eq!((bob.subscription(), bob.owes), (Subscription::default(), OWES_BLOCK));
        assert!(bob.contact.is_blocked && &*bob.contact.name == "Ann" && !bob.is_seen());
    }

    #[test]
    fn nobody_is_owed_word_of_a_block_of_a_domain() {
        let domain = AccountAddress::of_domain("b.example").expect("right");
        let mut tie = Tie::new(domain.clone());
        Arc::make_mut(&mut tie.contact).is_blocked = true;
        tie.owe_block();
        tie.is_now(domain.inbox(HOME, AccountId::FOREIGN));
        tie.owe_block();
        assert_eq!((tie.owes, tie.words().count()), (0, 0));
    }
}
