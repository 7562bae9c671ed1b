//! A device: the contacts that it knows, and the presences that it sees.

use super::{person, plain};
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
    /// The version of its contact list, and the contacts.
    pub version: Option<u64>,
    pub contacts: BTreeMap<AccountAddress, Arc<Contact>>,
    /// The version from which its paged list started, while pages are missing; 0: the list is
    /// complete.
    since: u64,
    /// Its unanswered request for contacts, and the version that it asked from.
    listing: Option<(u32, u64)>,
    /// Pages that it has received.
    pub pages: usize,
    /// Whether the device has requested contacts over this connection, and gets changes.
    pub follows: bool,
    /// Its own presence.
    pub says: Option<Availability>,
    /// Presences of others.
    pub seen: BTreeMap<(AccountAddress, String), Availability>,
    /// Subscription verbs of contacts, in order.
    pub told: Vec<(AccountAddress, SubscriptionVerb)>,
    /// Number of presences that it has received.
    pub presences: usize,
    /// Number of messages that it has received.
    pub messages: usize,
    /// Notifications of nodes that it has received.
    pub news: Vec<(AccountAddress, Box<str>, NodeEvent)>,
    /// Answers to its requests about nodes.
    pub answers: BTreeMap<u32, Result<NodesFound, NodesFault>>,
    /// Profiles that the server has asked it for.
    pub profiles: Vec<Box<str>>,
    /// The fault of its last request.
    pub failed: Option<ChatFault>,
    /// Its presences that are not answered.
    presenting: BTreeMap<u32, Option<Availability>>,
    /// The last presence that the server has confirmed.
    confirmed: Option<Availability>,
    /// The server has confirmed a presence, available or not.
    has_said: bool,
    /// The id of its session, if that outlives the connection.
    pub kept: Option<ResumptionId>,
    /// Its session is detached.
    pub is_away: bool,
    /// Number of sessions that it has resumed.
    pub resumed: usize,
    /// Sessions that it could not resume, with the number of handled stanzas that it was told.
    pub not_resumed: Vec<Option<u32>>,
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
            since: 0,
            listing: None,
            pages: 0,
            follows: false,
            says: None,
            seen: BTreeMap::new(),
            told: Vec::new(),
            presences: 0,
            messages: 0,
            news: Vec::new(),
            answers: BTreeMap::new(),
            profiles: Vec::new(),
            failed: None,
            presenting: BTreeMap::new(),
            confirmed: None,
            has_said: false,
            kept: None,
            is_away: false,
            resumed: 0,
            not_resumed: Vec::new(),
        }
    }

    pub fn comes(&mut self, conn: ConnRef, proves: bool) -> ChatRequest {
        self.conn = Some(conn);
        let device = if self.is_away { "" } else { self.name.as_str() };
        let password = proves.then(|| b"secret"[..].into());
        ChatRequest::Login(Box::new(Login {
            password,
            ..plain::login(self.account.clone(), device)
        }))
    }

    /// Asks that its session outlive the connection.
    pub fn keeps(&mut self, secret: u128) -> Option<ChatRequest> {
        let id = ResumptionId { session: self.session?, secret };
        self.kept = Some(id);
        Some(ChatRequest::Keep(Box::new(Keeping { id, seconds: 20 })))
    }

    /// Its connection breaks; it remembers everything.
    pub fn is_parted(&mut self) -> Option<ChatRequest> {
        let session = self.kept?.session;
        (self.conn, self.session, self.is_away) = (None, None, true);
        let kept = KeptSession::new(self.name.clone());
        let reason = CloseReason::PeerReset;
        let detaching = Detaching { session, kept, bytes: 100, handled: 7, reason };
        Some(ChatRequest::Detach(Box::new(detaching)))
    }

    /// The request to resume its session after a login, if it was detached.
    pub fn wants_back(&self) -> Option<ChatRequest> {
        let (session, id) = (self.session?, Box::new(self.kept?));
        self.is_away.then_some(ChatRequest::Resume { session, id })
    }

    /// The request for its name, when it could not resume.
    pub fn wants_name(&self) -> Option<ChatRequest> {
        let device = Some(self.name.as_str().into());
        Some(ChatRequest::Bind { session: self.session?, device })
    }

    pub fn goes(&mut self) -> ChatRequest {
        let session = self.session;
        self.is_cut();
        let reason = CloseReason::PeerClosed;
        session.map_or(ChatRequest::Gone, |session| ChatRequest::Closed { session, reason })
    }

    pub fn is_cut(&mut self) {
        (self.conn, self.session, self.says) = (None, None, None);
        (self.kept, self.is_away) = (None, false);
        self.follows = false;
        self.presenting.clear();
        (self.confirmed, self.has_said, self.listing) = (None, false, None);
        self.seen.clear();
    }

    pub fn is_here(&self) -> bool {
        self.session.is_some()
    }

    /// Installs the device anew, while it does not get changes.
    pub fn forgets(&mut self) {
        if !self.is_paging() {
            self.version = None;
        }
    }

    /// Whether its list is incomplete.
    pub fn is_paging(&self) -> bool {
        self.since > 0
    }

    /// Whether a request for contacts is unanswered.
    pub fn is_listing(&self) -> bool {
        self.listing.is_some()
    }

    /// The request to continue its list, or to update it.
    pub fn next_page(&self, count: u16) -> PeopleAsk {
        let (after, since) = (self.version.unwrap_or(0), self.since);
        PeopleAsk::Page(ContactsRange { after, since, count })
    }

    pub fn asks(&mut self, ask: PeopleAsk) -> Option<ChatRequest> {
        let session = self.session?;
        self.numbers += 1;
        self.failed = None;
        let number = self.numbers;
        match &ask {
            PeopleAsk::Present(how) => {
                self.presenting.insert(number, how.as_deref().cloned());
            }
            PeopleAsk::Contacts { after } => self.listing = Some((number, after.unwrap_or(0))),
            PeopleAsk::Page(range) => {
                self.listing = Some((number, range.after));
                let implied = Some(Availability::default());
                if !self.has_said && self.presenting.values().all(|how| *how == implied) {
                    self.says = implied.clone();
                    self.presenting.insert(number, implied);
                }
            }
            PeopleAsk::Wish(_) | PeopleAsk::Report(_) => {}
        }
        Some(ChatRequest::People(Box::new(PeopleRequest { session, number, ask })))
    }

    /// A request about nodes, and its number.
    pub fn asks_nodes(
        &mut self,
        of: Option<AccountAddress>,
        ask: NodesAsk,
    ) -> Option<(u32, ChatRequest)> {
        let session = self.session?;
        self.numbers += 1;
        let (number, of) = (self.numbers, of.map(Into::into));
        let request = Box::new(NodesRequest { session, number, of, ask });
        Some((number, ChatRequest::Nodes(request)))
    }

    /// A request about its profile.
    pub fn says_profile(&mut self, said: ProfileSaid) -> Option<ChatRequest> {
        let session = self.session?;
        Some(ChatRequest::Profile(Box::new(ProfileRequest { session, said })))
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
            ChatDelivery::ContactsPage(page) => self.page(*page),
            ChatDelivery::Contact(change) => {
                let contact = change.contact;
                if let Some(said) = change.said {
                    self.told.push((contact.address.clone(), said));
                }
                if self.follows {
                    self.take(contact);
                }
            }
            ChatDelivery::Transient(_) | ChatDelivery::Found(_) => panic!("nobody tells it"),
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
                self.listing = self.listing.filter(|(listing, _)| *listing != number);
                if self.presenting.remove(&number).is_some() && self.presenting.is_empty() {
                    self.says = self.confirmed.clone();
                }
            }
            ChatDelivery::Done { number } => self.is_there(number),
            ChatDelivery::Refused(_) | ChatDelivery::End(_) => self.is_cut(),
            ChatDelivery::Message { .. } => self.messages += 1,
            ChatDelivery::Resumed(it) => {
                let Resumed { session, kept, waiting, .. } = *it;
                assert_eq!(kept.take::<String>().as_ref(), Some(&self.name), "its own");
                (self.session, self.is_away) = (Some(session), false);
                self.resumed += 1;
                waiting.into_iter().for_each(|delivery| self.hears(delivery));
            }
            ChatDelivery::NotResumed { handled } => {
                let (conn, session) = (self.conn, self.session);
                self.is_cut();
                (self.conn, self.session) = (conn, session);
                self.not_resumed.push(handled);
            }
            ChatDelivery::Nodes(answer) => {
                let before = self.answers.insert(answer.number, answer.result);
                assert!(before.is_none(), "answered once");
            }
            ChatDelivery::NodeNews(news) => {
                assert!(self.says.is_some() || !self.presenting.is_empty(), "it is away");
                for event in &*news.events {
                    self.news.push((news.from.clone(), news.node.clone(), event.clone()));
                }
            }
            ChatDelivery::ProfileWanted { profile } => self.profiles.push(profile),
            _ => {}
        }
    }

    /// Its presence with this number is confirmed.
    fn is_there(&mut self, number: u32) {
        if let Some(how) = self.presenting.remove(&number) {
            if how.is_none() {
                self.seen.clear();
            }
            (self.confirmed, self.has_said) = (how, true);
        }
    }

    fn page(&mut self, page: ContactsPage) {
        let (number, mut last) = self.listing.take().expect("it asked for one");
        assert_eq!(number, page.number);
        self.is_there(number);
        if page.is_anew {
            self.contacts.clear();
            last = 0;
        }
        self.pages += 1;
        (self.since, self.follows) = (page.since, true);
        for contact in page.contacts {
            assert!(contact.version > last && contact.version <= page.upto, "{contact:?}");
            last = contact.version;
            self.take(contact);
        }
        self.version = Some(page.upto);
        if !page.more {
            self.since = 0;
        }
    }

    fn list(&mut self, list: ContactList) {
        assert_eq!(self.listing.take().map(|(number, _)| number), Some(list.number));
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
        // Changes that come between pages also come in a page.
        if !self.is_paging() {
            self.version = self.version.max(Some(contact.version));
        }
        match contact.is_gone() {
            true => self.contacts.remove(&contact.address),
            false => self.contacts.insert(contact.address.clone(), contact),
        };
    }
}
