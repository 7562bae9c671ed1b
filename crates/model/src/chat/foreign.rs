//! Foreign accounts: those of domains that another server serves, or a component beside this one.
//!
//! A foreign account has an address like any other, and a home here by the hash of that; but
//! nothing is stored for it there: what would come into its inbox goes out instead, as a
//! [`ForeignWord`], and what it says comes in as a [`ForeignArrival`]. Which domains are foreign is
//! a matter of settings, [`ForeignDomains`]. Values only: nothing here knows a stream or a stanza's
//! form.

use crate::account::{AccountAddress, AccountId};
use crate::chat::{
    Availability, CHANNEL_SERVICE, CHATROOM_SERVICE, ChatMessage, ContactWish, GROUP_SERVICE,
    GroupAside, NewMessage, NodesAsk, RoomNews, SubscriptionVerb,
};
use crate::id::SessionRef;
use crate::ports::chat::ErrandWhat;
use crate::timeline::{Seq, TimelineId};
use base::encoding::Encoding;
use std::sync::Arc;

/// Prefix of our domain in those of our own services.
const SERVICES: [&str; 4] = [GROUP_SERVICE, CHANNEL_SERVICE, CHATROOM_SERVICE, "upload."];

impl AccountId {
    /// The number of every foreign account: only its own server tells accounts of one name apart.
    pub const FOREIGN: AccountId = AccountId(u64::MAX);
}

/// Domains whose accounts are foreign.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ForeignDomains {
    /// The domain that is served here; of several the first, whose accounts need not name it.
    pub own: Box<str>,
    /// The other domains that are served here.
    pub others: Box<[Box<str>]>,
    /// Domains of components.
    pub components: Box<[Box<str>]>,
    /// Every domain that is not ours is another server's.
    pub federates: bool,
}

impl ForeignDomains {
    /// Whether there is any.
    pub fn is_any(&self) -> bool {
        self.federates || !self.components.is_empty()
    }

    /// Whether a component has this domain.
    pub fn is_component(&self, domain: &str) -> bool {
        self.components.iter().any(|component| **component == *domain)
    }

    /// Whether accounts of this domain are foreign. Those of our own services never are, unless a
    /// component has that name.
    pub fn is_foreign(&self, domain: &str) -> bool {
        self.is_component(domain) || self.federates && !self.is_ours(domain)
    }

    /// Whether it is served here.
    pub fn is_own(&self, domain: &str) -> bool {
        *domain == *self.own || self.others.iter().any(|other| **other == *domain)
    }

    /// The domains that are served here.
    pub fn all_own(&self) -> impl Iterator<Item = &str> {
        [&self.own].into_iter().chain(&self.others).map(|domain| &**domain)
    }

    /// Whether it is served here, or a service of such a domain.
    pub fn is_ours(&self, domain: &str) -> bool {
        let is_its = |service| domain.strip_prefix(service).is_some_and(|rest| self.is_own(rest));
        self.is_own(domain) || SERVICES.into_iter().any(is_its)
    }
}

/// Traffic to a foreign account, or to a foreign domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ForeignWord {
    /// A message that was stored, and stands in a queue until it is with its server.
    Message(QueuedMessage),
    /// Request or answer about a subscription to presence.
    Subscription {
        /// Account that sends it.
        from: AccountAddress,
        /// Recipient.
        to: AccountAddress,
        /// Step of the subscription.
        verb: SubscriptionVerb,
        /// Text that the account adds to a request.
        greeting: Box<str>,
    },
    /// How somebody is there.
    Presence {
        /// Account whose presence it is.
        from: AccountAddress,
        /// Device of the sender; `None`: the account has no device online any more.
        device: Option<Box<str>>,
        /// How; none: it went.
        availability: Option<Arc<Availability>>,
        /// Account that is notified.
        to: AccountAddress,
    },
    /// How is somebody there?
    Probe {
        /// Account that asks.
        from: AccountAddress,
        /// Account whose presence is asked for.
        to: AccountAddress,
    },
    /// A device has gone, of which an account elsewhere had been told that it is available.
    Gone {
        /// Account whose device is gone.
        from: AccountAddress,
        /// Device that has gone.
        device: Box<str>,
        /// Receiver: an address of XMPP.
        to: Box<str>,
        /// Its domain.
        domain: Box<str>,
    },
    /// A stanza of a device, which is stored nowhere.
    Stanza(ForeignStanza),
    /// A message of a group that was stored, for its members and its room.
    Room(Box<RoomWord>),
    /// News of a room, for devices of other servers that are in it: accounts and devices.
    RoomNews(Arc<RoomNews>, Arc<[(AccountAddress, Box<str>)]>),
    /// A group tells some of its members something that is kept nowhere.
    Aside(Box<AsideWord>),
}

/// Where a message for another server stands until it is there, or was refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct QueuePlace {
    /// The queue ([`Space::SendQueue`](crate::timeline::Space::SendQueue)).
    pub queue: TimelineId,
    /// The place there.
    pub seq: Seq,
}

/// A message for another server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueuedMessage {
    /// The message.
    pub message: Arc<ChatMessage>,
    /// Place of the message in its queue.
    pub place: QueuePlace,
    /// Whether the message was read back from the log. Such messages are limited by their bytes and
    /// not by their number, and each waits for its full time, whether or not its server is reached
    /// at once.
    pub is_again: bool,
}

/// Refused traffic between this server and others, which is counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ForeignRefused {
    /// Stanzas and streams that were dropped for want of room.
    pub dropped: u64,
    /// Stanzas that were invalid.
    pub invalid: u64,
}

/// A message of a group, for its members of other servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoomWord {
    /// The message.
    pub message: Arc<ChatMessage>,
    /// Whoever is a member when the message is said, or was until then. Shared by all messages
    /// between two changes of the members.
    pub to: Arc<[AccountAddress]>,
}

/// A group tells some of its members something that is kept nowhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AsideWord {
    /// The aside itself.
    pub aside: Arc<GroupAside>,
    /// Members of other servers that are notified.
    pub to: Arc<[AccountAddress]>,
}

impl ForeignWord {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let beside = match self {
            ForeignWord::Message(queued) => queued.message.weight(),
            ForeignWord::Stanza(stanza) => stanza.weight(),
            ForeignWord::Presence { availability, .. } => {
                availability.as_ref().map_or(0, |it| it.weight())
            }
            ForeignWord::Subscription { greeting, .. } => greeting.len(),
            ForeignWord::Gone { to, domain, .. } => to.len() + domain.len(),
            ForeignWord::Probe { .. } => 0,
            ForeignWord::Room(word) => size_of::<RoomWord>() + word.message.weight(),
            ForeignWord::RoomNews(news, _) => news.weight(),
            ForeignWord::Aside(word) => size_of::<AsideWord>() + word.aside.weight(),
        };
        size_of::<ForeignWord>() + 128 + beside
    }

    /// The domain it is for.
    pub fn domain(&self) -> &str {
        match self {
            ForeignWord::Message(queued) => queued.message.to.domain(),
            ForeignWord::Subscription { to, .. }
            | ForeignWord::Presence { to, .. }
            | ForeignWord::Probe { to, .. } => to.domain(),
            ForeignWord::Gone { domain, .. } => domain,
            ForeignWord::Stanza(stanza) => &stanza.domain,
            // That of all of them is known to whoever knows who looks at the room.
            ForeignWord::Room(word) => word.message.to.domain(),
            ForeignWord::RoomNews(news, _) => news.group.domain(),
            ForeignWord::Aside(word) => word.aside.group.domain(),
        }
    }
}

/// A whole stanza of XMPP, as it is to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignStanza {
    /// The domain it is for.
    pub domain: Box<str>,
    /// The stanza, its sender in it.
    pub xml: Box<[u8]>,
}

impl ForeignStanza {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        size_of::<ForeignStanza>() + self.domain.len() + self.xml.len()
    }
}

/// A stanza of a device for another domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HandingOn {
    /// Session that hands it on.
    pub session: SessionRef,
    /// Recipient: an account, or `None` for the domain itself.
    pub to: Option<AccountAddress>,
    /// The stanza.
    pub stanza: ForeignStanza,
    /// Recipient and state of the device's presence, if the stanza is directed presence. Addressees
    /// that got the presence are told when the session ends.
    pub directed: Option<(Box<str>, bool)>,
    /// Error stanza that the device is sent, unchanged, if it has blocked the recipient.
    pub refusal: Option<Arc<[u8]>>,
}

/// Traffic from a foreign account, or from a foreign domain.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct ForeignArrival {
    /// At whose home it is done.
    pub home: AccountAddress,
    /// The content of the arrival.
    pub what: ArrivalWhat,
}

impl ForeignArrival {
    /// The account here that it is for, if it is for one, else whose home it is. Its home is where
    /// it arrives: the account may have blocked where it comes from.
    pub fn concerns(&self) -> AccountAddress {
        let to = match &self.what {
            ArrivalWhat::Send { message, .. } => &message.to,
            ArrivalWhat::Ask { what, .. } => match &**what {
                ErrandWhat::Send(message) => &message.to,
                _ => return self.home.clone(),
            },
            ArrivalWhat::Wish(wish) => &wish.contact,
            ArrivalWhat::Nodes { of, .. } => return of.clone(),
            ArrivalWhat::Presence { .. }
            | ArrivalWhat::Probe { .. }
            | ArrivalWhat::Stanza { .. } => return self.home.clone(),
        };
        let to = to.within(self.home.domain());
        if to.is_group() || to.is_chatroom() { self.home.clone() } else { to }
    }

    /// The sender, if it is of a kind that can be blocked: an account, or a domain itself.
    pub fn sender(&self) -> Option<&AccountAddress> {
        match &self.what {
            ArrivalWhat::Send { .. }
            | ArrivalWhat::Ask { .. }
            | ArrivalWhat::Wish(_)
            | ArrivalWhat::Nodes { .. } => Some(&self.home),
            ArrivalWhat::Presence { from, .. } | ArrivalWhat::Probe { from } => Some(from),
            ArrivalWhat::Stanza { from, .. } => from.as_ref(),
        }
    }
}

/// Kind of an arrival. The answer is [`ChatAnswer::Told`](crate::ports::chat::ChatAnswer::Told) or
/// [`ChatAnswer::Reached`](crate::ports::chat::ChatAnswer::Reached).
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding(Send = 0, Wish = 1, Presence = 2, Probe = 3, Ask = 4, Stanza = 5, Nodes = 6)]
pub enum ArrivalWhat {
    /// The foreign account, whose home it is, says something.
    Send {
        /// Device of the sender.
        device: Box<str>,
        /// The message.
        message: Box<NewMessage>,
    },
    /// The foreign account wants something of a contact here.
    Wish(Box<ContactWish>),
    /// A foreign account is there like this, for the account whose home it is.
    Presence {
        /// The foreign account.
        from: AccountAddress,
        /// Device of the sender; `None`: the account has no device online any more.
        device: Option<Box<str>>,
        /// How; none: it went.
        availability: Option<Box<Availability>>,
    },
    /// A foreign account asks how the one whose home it is is there.
    Probe {
        /// Account that asks.
        from: AccountAddress,
    },
    /// The foreign account, whose home it is, asks something of a room here. The result is
    /// delivered as to a device.
    Ask {
        /// Device of the sender.
        device: Box<str>,
        /// The request.
        what: Box<ErrandWhat>,
    },
    /// A stanza for a device of the account whose home it is.
    Stanza {
        /// The sender, if it is of a kind that can be blocked: an account, or a domain itself.
        from: Option<AccountAddress>,
        /// Device of the recipient; `None`: all its devices that are online.
        device: Option<Box<str>>,
        /// The stanza, as it is written to a client.
        xml: Arc<[u8]>,
    },
    /// The foreign account, whose home it is, asks about nodes of an account here.
    Nodes {
        /// Account whose nodes are asked for.
        of: AccountAddress,
        /// The question or order.
        ask: Box<NodesAsk>,
    },
}

impl ForeignArrival {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let beside = match &self.what {
            ArrivalWhat::Send { message, .. } => message.weight(),
            ArrivalWhat::Stanza { xml, .. } => xml.len(),
            ArrivalWhat::Ask { what, .. } => match &**what {
                ErrandWhat::Send(message) => message.weight(),
                _ => 512,
            },
            _ => 512,
        };
        size_of::<ForeignArrival>() + beside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_does_so_at_the_home_of_the_account_that_it_is_for() {
        use crate::chat::{ClientMessageId, ContactOrder, Content};
        let address = |text: &str| AccountAddress::parse(text, "a.example").expect("right");
        let (ann, bob) = (address("ann"), address("bob@b.example"));
        let message = |to: &str| NewMessage {
            to: address(to).into(),
            client_id: ClientMessageId([1; 16]),
            content: Content::text("hello"),
        };
        let send = |to| ArrivalWhat::Send { device: "".into(), message: Box::new(message(to)) };
        let ask = |what| ArrivalWhat::Ask { device: "".into(), what: Box::new(what) };
        let wish = ContactWish { contact: ann.clone().into(), order: ContactOrder::Remove };
        let stanza = |from| ArrivalWhat::Stanza { from, device: None, xml: [][..].into() };
        let room = "1@conference.a.example";
        for (home, what, concerned, sender) in [
            (&bob, send("ann"), &ann, Some(&bob)),
            (&bob, ask(ErrandWhat::Send(Box::new(message("ann")))), &ann, Some(&bob)),
            (&bob, ask(ErrandWhat::Send(Box::new(message(room)))), &bob, Some(&bob)),
            (&bob, ask(ErrandWhat::Privacy), &bob, Some(&bob)),
            (&bob, ArrivalWhat::Wish(Box::new(wish)), &ann, Some(&bob)),
            (&ann, ArrivalWhat::Probe { from: bob.clone() }, &ann, Some(&bob)),
            (&ann, stanza(Some(bob.clone())), &ann, Some(&bob)),
            (&ann, stanza(None), &ann, None),
        ] {
            let arrival = ForeignArrival { home: home.clone(), what };
            assert_eq!(arrival.concerns(), *concerned, "{arrival:?}");
            assert_eq!(arrival.sender(), sender, "{arrival:?}");
        }
    }

    #[test]
    fn what_is_ours_is_never_foreign_and_components_always_are() {
        let domains = |federates| ForeignDomains {
            own: "a.example".into(),
            others: ["c.example".into()].into(),
            components: ["echo.a.example".into()].into(),
            federates,
        };
        for federates in [false, true] {
            let domains = domains(federates);
            assert!(domains.is_any() && domains.is_foreign("echo.a.example"));
            for ours in ["a.example", "c.example", "conference.c.example", "live.a.example"] {
                assert!(domains.is_ours(ours) && !domains.is_foreign(ours), "{ours}");
            }
            assert!(domains.is_own("c.example") && !domains.is_own("conference.c.example"));
            assert_eq!(domains.all_own().collect::<Vec<_>>(), ["a.example", "c.example"]);
            assert!(!domains.is_foreign("a.example"));
            for service in ["conference", "channel", "live", "upload"] {
                assert!(!domains.is_foreign(&format!("{service}.a.example")), "{service}");
            }
            assert_eq!(domains.is_foreign("b.example"), federates);
            assert_eq!(domains.is_foreign("conference.b.example"), federates);
        }
        assert!(!ForeignDomains { own: "a.example".into(), ..Default::default() }.is_any());
    }
}
