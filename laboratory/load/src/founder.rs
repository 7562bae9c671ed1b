//! Makes conversations of many: one device of their owner that logs in, gives orders and goes.
//!
//! The founder knows no plan's stages and waits on a thread of its own. Each order is given until
//! it is answered, with the same id, over as many connections as that takes: so nothing is made
//! twice, whatever dies in between. The invariant: the founder ends, with all addresses or with a
//! reason.

use crate::local::recruit;
use crate::run::parts::{Founder, WantedConversations};
use crate::target::Url;
use base::time::Instant;
use client::im::{EndReason, ImEvent, ImOrder, ImSession, ImSettings, Profile, client_message_id};
use client::{BrokerAddress, CertificateCheck, ConnectError, ConnectErrorKind, Scram, Trust};
use lab::plan::Group;
use model::account::Addressee;
use model::chat::{
    CHATROOM_SERVICE, ChatFault, ChatroomAsk, ChatroomOrder, ChatroomVerb, GROUP_NAMED_MAX,
    GroupOrder, GroupVerb,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

/// Time for a connection and a login.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Time for an answer, until the order is given again.
const ANSWER_TIME: Duration = Duration::from_secs(15);
/// Time until an order is given again that the server was too busy for.
const BUSY_TIME: Duration = Duration::from_millis(100);
/// Time until an order is given again that came too soon behind others.
const RATE_TIME: Duration = Duration::from_secs(3);
/// Time until a server that is not there is called again.
const AWAY_TIME: Duration = Duration::from_millis(500);
/// Longest time that one order is given again and again.
const ORDER_TIME_MAX: Duration = Duration::from_secs(60);
/// The device that gives the orders.
const DEVICE: &str = "founder";

/// Makes conversations, on a thread.
#[derive(Default)]
pub struct Founding {
    made: Option<Receiver<Result<Vec<String>, String>>>,
    over: Arc<AtomicBool>,
}

impl Founder for Founding {
    fn begin(&mut self, wanted: WantedConversations) {
        let (to, made) = sync_channel(1);
        let over = self.over.clone();
        let thread = std::thread::Builder::new().name("founder".to_owned());
        // Where there is no thread there is no answer, and that is told.
        let _ = thread.spawn(move || to.send(make(&wanted, &over)));
        self.made = Some(made);
    }

    fn take(&mut self) -> Option<Result<Vec<String>, String>> {
        match self.made.as_ref()?.try_recv() {
            Ok(made) => Some(made),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err("its thread has ended".to_owned())),
        }
    }
}

impl Drop for Founding {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Makes all that is wanted, and waits for it; `over` says that nobody waits any more.
pub fn make(wanted: &WantedConversations, over: &AtomicBool) -> Result<Vec<String>, String> {
    let members = wanted.members.iter().map(|name| Addressee::parse(name));
    let members: Vec<Addressee> = members
        .collect::<Result<_, _>>()
        .map_err(|why| format!("the account of a member: {why}"))?;
    if wanted.rooms {
        return make_rooms(wanted, over);
    }
    let size = members.len() + 1;
    let (first, rest) = members.split_at(members.len().min(GROUP_NAMED_MAX));
    let mut owner = Owner::new(settings(&wanted.owner)?, size);
    let mut addresses = Vec::new();
    for number in 0..wanted.count {
        let title = format!("{} {number}", wanted.name);
        let order = order(None, GroupVerb::Create, &title, first)?;
        let address =
            owner.gives_group(order, over)?.ok_or("the server did not report what it created")?;
        let group = Addressee::parse(&address).map_err(|why| format!("`{address}`: {why}"))?;
        for more in rest.chunks(GROUP_NAMED_MAX) {
            owner.gives_group(order_to_add(&group, more)?, over)?;
        }
        addresses.push(address);
    }
    owner.goes();
    Ok(addresses)
}

/// Makes chatrooms, which nobody is in yet.
fn make_rooms(wanted: &WantedConversations, over: &AtomicBool) -> Result<Vec<String>, String> {
    let mut owner = Owner::new(settings(&wanted.owner)?, 1);
    let mut addresses = Vec::new();
    for number in 0..wanted.count {
        let name = format!("{}-{number}", wanted.name);
        let order = ChatroomOrder {
            room: Addressee::parse(&name).map_err(|why| format!("the chatroom `{name}`: {why}"))?,
            verb: ChatroomVerb::Create,
            text: name.as_str().into(),
            accounts: Vec::new(),
            keeps: 0,
            durable: false,
        };
        owner.gives(
            &|number| ImOrder::Chatroom {
                number,
                ask: Box::new(ChatroomAsk::Order(order.clone())),
            },
            over,
        )?;
        addresses.push(format!("{name}@{CHATROOM_SERVICE}{}", owner.domain));
    }
    owner.goes();
    Ok(addresses)
}

fn order_to_add(group: &Addressee, members: &[Addressee]) -> Result<GroupOrder, String> {
    order(Some(group.clone()), GroupVerb::Add, "", members)
}

fn order(
    group: Option<Addressee>,
    verb: GroupVerb,
    title: &str,
    members: &[Addressee],
) -> Result<GroupOrder, String> {
    let client_id = client_message_id().map_err(|why| why.text)?;
    Ok(GroupOrder { group, client_id, verb, title: title.into(), members: members.to_vec() })
}

/// Settings of a session for the first client of a group.
fn settings(group: &Group) -> Result<ImSettings, String> {
    let url = Url::parse(group.url.first().ok_or("no target")?)?;
    let address = BrokerAddress {
        tls: url.scheme.is_encrypted,
        web_socket: url.scheme.is_web_socket().then(|| url.path.clone()),
        ..BrokerAddress::im(&url.host, url.port)
    };
    let authority = group.authority.as_ref().or(url.authority.as_ref());
    let check = authority.map_or(CertificateCheck::Nothing, |_| CertificateCheck::All);
    let trust = Trust { ca_file: authority.map(PathBuf::from), check, ..Trust::default() };
    let account = recruit::account(group).replace("%i", &group.number_of(0).to_string());
    let mut profile = Profile::new(&account, DEVICE);
    let password = group.password.clone().or(url.password);
    let scram = match password {
        Some(password) if group.scram => {
            let user = account.split('@').next().unwrap_or_default().to_owned();
            Some(Scram { user, password })
        }
        password => {
            profile.password = password.unwrap_or_default().into_bytes().into();
            None
        }
    };
    Ok(ImSettings { address, trust, profile, scram, connect_timeout: CONNECT_TIME })
}

/// Device that makes the conversations.
struct Owner {
    settings: ImSettings,
    session: Option<ImSession>,
    number: u32,
    /// Members that each will have.
    size: usize,
    /// That of its account, once it has logged in.
    domain: String,
}

/// An order under a number.
type Numbered<'a> = &'a dyn Fn(u32) -> ImOrder;

/// Result of giving an order once.
enum Given {
    Done(Option<String>),
    /// To be given again, after a while.
    Again(Duration, String),
    Never(String),
}

impl Owner {
    fn new(settings: ImSettings, size: usize) -> Owner {
        Owner { settings, session: None, number: 0, size, domain: String::new() }
    }

    fn goes(mut self) {
        if let Some(session) = &mut self.session {
            session.order(ImOrder::Goodbye);
        }
    }

    /// Gives an order to a group, likewise.
    fn gives_group(
        &mut self,
        order: GroupOrder,
        over: &AtomicBool,
    ) -> Result<Option<String>, String> {
        let numbered = |number| ImOrder::Group { number, order: Box::new(order.clone()) };
        self.gives(&numbered, over)
    }

    /// Gives an order until it is done: the group's address, where the server says it.
    fn gives(&mut self, order: Numbered<'_>, over: &AtomicBool) -> Result<Option<String>, String> {
        let until = client::now().after(ORDER_TIME_MAX);
        loop {
            let (wait, why) = match self.gives_once(order) {
                Given::Done(address) => return Ok(address),
                Given::Never(why) => return Err(why),
                Given::Again(wait, why) => (wait, why),
            };
            if client::now().mono >= until || over.load(Ordering::Relaxed) {
                return Err(why);
            }
            std::thread::sleep(wait);
        }
    }

    fn gives_once(&mut self, order: Numbered<'_>) -> Given {
        if self.session.is_none() {
            let session = ImSession::new(self.settings.clone())
                .and_then(|mut session| session.login().map(|welcome| (session, welcome)));
            match session {
                Ok((session, welcome)) => {
                    self.session = Some(session);
                    self.domain = welcome.account.domain().to_owned();
                }
                Err(why) => return ended(why),
            }
        }
        let Some(session) = &mut self.session else { return Given::Never(String::new()) };
        self.number = self.number.wrapping_add(1);
        session.order(order(self.number));
        let answer = answer(session, self.number, client::now().after(ANSWER_TIME));
        match answer {
            Ok(Some(ImEvent::Changed(changed))) => {
                Given::Done(Some(changed.group.as_str().to_owned()))
            }
            Ok(Some(ImEvent::Done { .. })) => Given::Done(None),
            Ok(Some(ImEvent::Failed { why, word, .. })) => self.failed(why, &word),
            Ok(_) => {
                self.session = None;
                Given::Again(BUSY_TIME, "no answer from the server".to_owned())
            }
            Err(why) => {
                self.session = None;
                ended(why)
            }
        }
    }

    fn failed(&self, why: Option<ChatFault>, word: &str) -> Given {
        let Owner { size, settings, .. } = self;
        match why {
            // Whoever asks again finds done what was done.
            Some(ChatFault::Unchanged) => Given::Done(None),
            Some(ChatFault::Busy | ChatFault::StoreFull | ChatFault::StoreFailed) => {
                Given::Again(BUSY_TIME, format!("the server answered {word}"))
            }
            Some(ChatFault::RateLimited) => {
                Given::Again(RATE_TIME, format!("the server answered {word}"))
            }
            Some(ChatFault::GroupFull) => Given::Never(format!(
                "the server answered {word}: each is to have {size} members; give the server \
                 `[chat] group_members_max = {size}` or more, or the plan fewer members"
            )),
            Some(ChatFault::UnknownAccount) => Given::Never(format!(
                "the server answered {word}: members must have accounts; let them come once in a \
                 stage before"
            )),
            _ => Given::Never(format!("the server answered {word} to {}", settings.profile.name)),
        }
    }
}

/// The answer to an order; `None`: there is none by then.
fn answer(
    session: &mut ImSession,
    order: u32,
    until: Instant,
) -> Result<Option<ImEvent>, ConnectError> {
    loop {
        let now = client::now().mono;
        if now >= until {
            return Ok(None);
        }
        match session.poll(until - now)? {
            Some(ImEvent::Changed(changed)) if changed.number == order => {
                return Ok(Some(ImEvent::Changed(changed)));
            }
            Some(ImEvent::Done { number }) if number == order => {
                return Ok(Some(ImEvent::Done { number }));
            }
            Some(ImEvent::Failed { number, why, word }) if number == order => {
                return Ok(Some(ImEvent::Failed { number, why, word }));
            }
            // What happens in its inbox is not looked at.
            _ => {}
        }
    }
}

/// Meaning of a connection's end for an order.
fn ended(why: ConnectError) -> Given {
    use ConnectErrorKind::{Denied, Settings, Tls};
    let never = [
        EndReason::BadCredentials,
        EndReason::NotAuthorized,
        EndReason::NameInvalid,
        EndReason::BadMethod,
    ];
    match why.what {
        Denied(reason) if never.contains(&reason) => Given::Never(why.text),
        Settings | Tls => Given::Never(why.text),
        _ => Given::Again(AWAY_TIME, why.text),
    }
}
