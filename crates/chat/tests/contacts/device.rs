//! A device of somebody: whom it knows, and whom it sees.

use super::person;
use model::account::AccountAddress;
use model::chat::*;
use model::close::CloseReason;
use model::id::{ConnRef, SessionRef};
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct Device {
    pub person: u32,
    pub account: AccountAddress,
    pub name: String,
    pub conn: Option<ConnRef>,
    session: Option<SessionRef>,
    numbers: u32,
    /// Up to where it has the contacts, and all of them.
    pub version: Option<u64>,
    pub contacts: BTreeMap<AccountAddress, Arc<Contact>>,
    /// It has asked for them over this connection, and is told of changes.
    pub follows: bool,
    /// What it says of itself.
    pub says: Option<Availability>,
    /// How others are there.
    pub seen: BTreeMap<(AccountAddress, String), Availability>,
    /// What contacts said, in order.
    pub told: Vec<(AccountAddress, SubscriptionVerb)>,
    /// Presences that it was told of.
    pub presences: usize,
    /// Messages that it was sent.
    pub messages: usize,
    /// Why its last request was not carried out.
    pub failed: Option<ChatFault>,
    /// What it has said of itself and was not answered.
    presenting: BTreeMap<u32, Option<Availability>>,
    /// What the server has of that.
    confirmed: Option<Availability>,
}

impl Device {
    pub fn new(who: u32, n: u32) -> Device {
        Device {
            person: who,
            account: person(who),
            name: format!("d{n}"),
            conn: None,
            session: None,
            numbers: 0,
            version: None,
            contacts: BTreeMap::new(),
            follows: false,
            says: None,
            seen: BTreeMap::new(),
            told: Vec::new(),
            presences: 0,
            messages: 0,
            failed: None,
            presenting: BTreeMap::new(),
            confirmed: None,
        }
    }

    pub fn comes(&mut self, conn: ConnRef, proves: bool) -> ChatRequest {
        self.conn = Some(conn);
        ChatRequest::Login(Box::new(Login {
            protocol: "im",
            account: self.account.clone(),
            device: self.name.as_str().into(),
            binds: false,
            password: proves.then(|| b"secret"[..].into()),
            method: None,
            bindings: None,
            certificate: None,
            peer: ([127, 0, 0, 1], 1).into(),
            near: true,
            door: 0,
            tls: false,
            crowded: false,
        }))
    }

    pub fn goes(&mut self) -> ChatRequest {
        let session = self.session;
        self.is_cut();
        let reason = CloseReason::PeerClosed;
        session.map_or(ChatRequest::Gone, |session| ChatRequest::Closed { session, reason })
    }

    pub fn is_cut(&mut self) {
        (self.conn, self.session, self.says) = (None, None, None);
        self.follows = false;
        self.presenting.clear();
        self.confirmed = None;
        self.seen.clear();
    }

    pub fn is_here(&self) -> bool {
        self.session.is_some()
    }

    /// It is installed anew, while it is not told of changes.
    pub fn forgets(&mut self) {
        self.version = None;
    }

    pub fn asks(&mut self, ask: PeopleAsk) -> Option<ChatRequest> {
        let session = self.session?;
        self.numbers += 1;
        self.failed = None;
        let number = self.numbers;
        if let PeopleAsk::Present(how) = &ask {
            self.presenting.insert(number, how.as_deref().cloned());
        }
        Some(ChatRequest::People(Box::new(PeopleRequest { session, number, ask })))
    }

    pub fn sends(&mut self, to: AccountAddress) -> Option<ChatRequest> {
        let session = self.session?;
        self.numbers += 1;
        self.failed = None;
        let client_id = ClientMessageId(u128::from(self.numbers).to_be_bytes());
        let content = Content::text("hello");
        let message = Box::new(NewMessage { to: to.into(), client_id, content });
        Some(ChatRequest::Send { session, number: self.numbers, message })
    }

    pub fn hears(&mut self, delivery: ChatDelivery) {
        match delivery {
            ChatDelivery::LoggedIn(logged_in) => self.session = Some(logged_in.session),
            ChatDelivery::Contacts(list) => self.list(*list),
            ChatDelivery::Contact(change) => {
                let contact = change.contact;
                if let Some(said) = change.said {
                    self.told.push((contact.address.clone(), said));
                }
                if self.follows {
                    self.take(contact);
                }
            }
            ChatDelivery::Presence(presence) => {
                self.presences += 1;
                let goes = self.presenting.values().any(Option::is_none);
                assert!(self.says.is_some() || goes, "it is away");
                let Presence { from, device, availability } = *presence;
                match (device, availability) {
                    (Some(device), Some(how)) => {
                        self.seen.insert((from, device.into()), (*how).clone());
                    }
                    (Some(device), None) => {
                        self.seen.remove(&(from, device.into()));
                    }
                    (None, _) => self.seen.retain(|(of, _), _| *of != from),
                }
            }
            ChatDelivery::Failed { number, why } => {
                self.failed = Some(why);
                if self.presenting.remove(&number).is_some() && self.presenting.is_empty() {
                    self.says = self.confirmed.clone();
                }
            }
            ChatDelivery::Done { number } => {
                if let Some(how) = self.presenting.remove(&number) {
                    if how.is_none() {
                        self.seen.clear();
                    }
                    self.confirmed = how;
                }
            }
            ChatDelivery::Refused(_) | ChatDelivery::End(_) => self.is_cut(),
            ChatDelivery::Message { .. } => self.messages += 1,
            _ => {}
        }
    }

    fn list(&mut self, list: ContactList) {
        if list.is_whole {
            self.contacts.clear();
        }
        let mut last = 0;
        for contact in list.contacts {
            assert!(list.is_whole || contact.version > last, "{contact:?} behind {last}");
            last = if list.is_whole { last } else { contact.version };
            assert!(!list.is_whole || !contact.is_gone());
            self.take(contact);
        }
        self.version = Some(list.version);
        self.follows = true;
    }

    fn take(&mut self, contact: Arc<Contact>) {
        self.version = self.version.max(Some(contact.version));
        match contact.is_gone() {
            true => self.contacts.remove(&contact.address),
            false => self.contacts.insert(contact.address.clone(), contact),
        };
    }
}
