//! Login of a device: authentication, then the account, then the position in the inbox.
//!
//! ```text
//! Login ─► access (at once, later, in steps) ─► account's row ─► inbox's cursor ─► LoggedIn
//! ```
//! The cheapest check comes first; no state is kept for a refused login. A connection that ends
//! meanwhile is forgotten, and late answers for it are ignored. Invariant: a connection has one
//! login at most.

use crate::accounts::{FOUND_BYTES, Owner, fault_of};
use crate::service::flow::Flow;
use crate::sessions::{Arrival, guests};
use crate::{Chat, Effects};
use base::pace::AdmissionPace;
use base::time::Now;
use model::account::AccountId;
use model::chat::{ChatDelivery, ChatFault, DEVICE_NAME_BYTES_MAX, LoggedIn, Login, LoginRefused};
use model::counters::ChatCounter;
use model::id::ConnRef;
use model::link::Source;
use model::ports::access::{Admission, EXTERNAL, Grant, NameOwner, Question, Who};
use model::ports::bans::BanAct;
use model::ports::log::{Call, Done, Read, TimelineStatus};
use model::ports::requests::PortRequest;
use model::session::Denial;
use model::timeline::{ReaderId, TimelineId};
use std::collections::BTreeMap;

/// Logins of a shard that may be open. A further one is refused as busy.
const UNDER_WAY_MAX: usize = 65_536;

/// Largest number of steps of an authentication exchange.
const STEPS_MAX: u8 = 8;

/// Logins that are under way.
pub(crate) struct Logins {
    /// By connection: the number of the question to access control, if one is open, or if the
    /// client's next step is due.
    under_way: BTreeMap<ConnRef, Option<u64>>,
    asking: BTreeMap<u64, Asking>,
    last: u64,
    pace: AdmissionPace,
    closed: bool,
}

/// A question to access control, or an exchange that waits for the client's next step.
struct Asking {
    conn: ConnRef,
    login: Box<Login>,
    dialogue: Option<Box<[u8]>>,
    steps: u8,
}

/// An authenticated login.
pub(crate) struct LetIn {
    pub conn: ConnRef,
    pub login: Box<Login>,
    pub grant: Grant,
    pub owner: Owner,
    /// Version of the rules by which the login was granted.
    pub version: u64,
    /// The last data of an authentication exchange.
    pub data: Option<Box<[u8]>>,
}

impl Logins {
    /// No logins; at most this many per second are admitted.
    pub(crate) fn new(logins_per_s: u32) -> Logins {
        Logins {
            under_way: BTreeMap::new(),
            asking: BTreeMap::new(),
            last: 0,
            pace: AdmissionPace::new(logins_per_s),
            closed: false,
        }
    }

    /// Stops admitting logins, or admits them again.
    pub(crate) fn set_closed(&mut self, closed: bool) {
        self.closed = closed;
    }

    /// Sets how many logins per second are admitted.
    pub(crate) fn set_rate(&mut self, logins_per_s: u32) {
        self.pace.set_rate(logins_per_s);
    }

    /// Ends a connection's login. False: it had none.
    fn ends(&mut self, conn: ConnRef) -> bool {
        let Some(asking) = self.under_way.remove(&conn) else { return false };
        if let Some(number) = asking {
            self.asking.remove(&number);
        }
        true
    }

    fn put(&mut self, asking: Asking) -> u64 {
        self.last += 1;
        self.under_way.insert(asking.conn, Some(self.last));
        self.asking.insert(self.last, asking);
        self.last
    }

    fn take(&mut self, number: u64) -> Option<Asking> {
        let asking = self.asking.remove(&number)?;
        self.under_way.insert(asking.conn, None);
        Some(asking)
    }

    /// Takes the exchange of a connection whose next step is due.
    fn take_of(&mut self, conn: ConnRef) -> Option<Asking> {
        let number = (*self.under_way.get(&conn)?)?;
        self.take(number)
    }
}

/// Completes an authenticated login, or answers with the reason why not, unless the connection has
/// ended.
pub(super) async fn enter(mut flow: Flow, let_in: LetIn) {
    if let Err(why) = enter_account(&mut flow, &let_in).await {
        let (chat, _, fx) = flow.state();
        chat.turn_away(&let_in.login, let_in.conn, why, fx);
    }
}

async fn enter_account(flow: &mut Flow, let_in: &LetIn) -> Result<(), Denial> {
    let id = account_of(flow, let_in).await?;
    let (chat, _, _) = flow.state();
    let (address, reader) = (&let_in.login.account, chat.reader_of(&let_in.login));
    let timeline = address.inbox(chat.settings.home, id);
    if guests::is_guest(&let_in.login) {
        guests::mark(flow, let_in, timeline).await?;
    } else if !chat.log.may_ask() {
        return Err(Denial::Busy);
    }
    flow.state().0.sessions.expect(timeline, address);
    let standing = flow.log(Call::Read(Read::Standing { timeline, reader })).await;
    let (chat, now, fx) = flow.state();
    let entered = match standing {
        Ok(Done::Standing(status)) => chat.enter_at(now, let_in, (id, timeline), status, fx),
        Ok(_) => Err(Denial::StoreFailed),
        Err(error) => Err(denial_of(fault_of(error))),
    };
    chat.sessions.expect_no_more(timeline);
    if !chat.sessions.online.contains_key(&timeline) {
        chat.leaves_guest(timeline);
    }
    entered
}

/// The account of an authenticated login, which is created if needed.
async fn account_of(flow: &mut Flow, let_in: &LetIn) -> Result<AccountId, Denial> {
    let address = &let_in.login.account;
    loop {
        let row = flow.account_row((address, Some(let_in.owner)), FOUND_BYTES).await;
        if flow.state().0.erasures.has_name(address) {
            return Err(Denial::NotAuthorized);
        }
        match row {
            Ok(row) if row.owner == let_in.owner => return Ok(row.id),
            // A login without a proof was creating the account at the same time: it is looked up
            // again.
            Ok(row) if row.owner == Owner::Nobody && let_in.owner == Owner::Outside => {}
            Ok(_) => return Err(Denial::BadCredentials),
            Err(fault) => return Err(denial_of(fault)),
        }
    }
}

/// The reason for refusing a login whose account, or position in the inbox, cannot be read now.
pub(super) fn denial_of(fault: ChatFault) -> Denial {
    match fault {
        ChatFault::StoreFull => Denial::StoreFull,
        ChatFault::StoreFailed => Denial::StoreFailed,
        _ => Denial::Busy,
    }
}

impl Chat {
    /// Begins a device's login.
    pub(crate) fn login(&mut self, now: Now, from: ConnRef, login: Box<Login>, fx: &mut Effects) {
        if !self.may_try(now, from, &login, fx) {
            return;
        }
        let question = self.question_of(&login);
        let asking = Asking { conn: from, login, dialogue: None, steps: 0 };
        self.ask(now, asking, question, fx);
    }

    /// Whether a login may be attempted; it is then under way. Otherwise it is refused with the
    /// reason.
    pub(crate) fn may_try(
        &mut self,
        now: Now,
        from: ConnRef,
        login: &Login,
        fx: &mut Effects,
    ) -> bool {
        let who = Who { client_id: "", user: Some(self.settings.user_of(&login.account)) };
        let (now_s, address) = (now.unix_s(), Some(login.peer.ip()));
        let is_banned = self.settings.access.is_banned(now_s, &who, address, BanAct::Refuses);
        let logins = &mut self.logins;
        let is_device = match login.binds {
            true => login.device.is_empty(),
            false => (1..=DEVICE_NAME_BYTES_MAX).contains(&login.device.len()),
        };
        let refused = if logins.closed {
            Some((Denial::ShuttingDown, 0))
        } else if login.crowded || self.sessions.is_full() {
            Some((Denial::Full, self.settings.limits.retry_jitter_ms))
        } else if is_banned {
            Some((Denial::Banned, 0))
        } else if logins.under_way.len() >= UNDER_WAY_MAX {
            Some((Denial::Busy, self.settings.limits.retry_jitter_ms))
        } else if !is_device
            || login.account.is_group()
            || login.account.is_chatroom()
            || login.account.is_system()
            || logins.under_way.contains_key(&from)
        {
            Some((Denial::ClientIdInvalid, 0))
        } else {
            logins.pace.admit(now).err().map(|retry_ms| (Denial::Busy, retry_ms.max(1)))
        };
        let retry_ms = self.settings.limits.retry_jitter_ms;
        let is_many = || self.refuses_guest(login).map(|why| (why, retry_ms));
        let refused = refused.or_else(is_many);
        if let Some((why, retry_after_ms)) = refused {
            refuse(from, login, (why, retry_after_ms), fx);
            return false;
        }
        self.logins.under_way.insert(from, None);
        true
    }

    /// Continues an exchange with the client's next step.
    pub(crate) fn proceed(&mut self, now: Now, from: ConnRef, data: Box<[u8]>, fx: &mut Effects) {
        let Some(mut asking) = self.logins.take_of(from) else { return };
        asking.steps += 1;
        // An open question has no dialogue yet, so a client's step is out of turn.
        let (Some(dialogue), true) = (asking.dialogue.take(), asking.steps <= STEPS_MAX) else {
            return self.turn_away(&asking.login, from, Denial::BadCredentials, fx);
        };
        let mut question = self.question_of(&asking.login);
        let method = asking.login.method.as_ref().map(|(method, _)| method.clone());
        question.method = method.map(|method| (method, data));
        question.dialogue = Some(dialogue);
        self.ask(now, asking, question, fx);
    }

    fn ask(&mut self, now: Now, asking: Asking, question: Question, fx: &mut Effects) {
        match self.settings.access.admit(now.unix_s(), &question) {
            Admission::Later => {
                let number = self.logins.put(asking);
                fx.port_requests.push((number, PortRequest::Access(Box::new(question))));
            }
            answer => self.answered(asking, answer, fx),
        }
    }

    /// Handles access control's answer to a question.
    pub(crate) fn admitted(&mut self, number: u64, answer: Admission, fx: &mut Effects) {
        if let Some(asking) = self.logins.take(number) {
            self.answered(asking, answer, fx);
        }
    }

    fn answered(&mut self, mut asking: Asking, answer: Admission, fx: &mut Effects) {
        let conn = asking.conn;
        match answer {
            Admission::Granted(grant, data) => {
                let Asking { login, .. } = asking;
                let Some(owner) = self.owner_of_login(&login, &grant) else {
                    return self.turn_away(&login, conn, Denial::BadCredentials, fx);
                };
                let version = self.settings.access.version();
                let let_in = LetIn { conn, login, grant, owner, version, data };
                self.begin_to_enter(let_in, fx);
            }
            Admission::Continue { data, dialogue } => {
                fx.deliveries.push((conn, ChatDelivery::Challenge(data)));
                asking.dialogue = Some(dialogue);
                self.logins.put(asking);
            }
            Admission::Refused(why) => self.turn_away(&asking.login, conn, why, fx),
            Admission::Later => self.turn_away(&asking.login, conn, Denial::Unavailable, fx),
        }
    }

    /// The owner of the login's account; `None`: the grant is not for this account. The account's
    /// name must be the proof's; a login without a proof may have a name that no user has.
    pub(crate) fn owner_of_login(&self, login: &Login, grant: &Grant) -> Option<Owner> {
        let name = self.settings.user_of(&login.account);
        let granted = grant.account.map(|account| account.uid);
        let owner = self.settings.access.owner(name);
        match (grant.user.as_deref(), owner) {
            (None, NameOwner::Unknown) => Some(Owner::Nobody),
            (Some(user), _) if *user != *name => None,
            // A certificate outlives the account that it names: where it is the only proof
            // (EXTERNAL), it creates no account.
            (Some(_), NameOwner::Unknown) if is_by(login, EXTERNAL) => None,
            (Some(_), NameOwner::Account(uid)) => {
                granted.is_none_or(|granted| granted == uid).then_some(Owner::Booked(uid))
            }
            (Some(_), _) => granted.is_none().then_some(Owner::Outside),
            (None, _) => None,
        }
    }

    /// Begins to complete an authenticated login.
    pub(super) fn begin_to_enter(&mut self, let_in: LetIn, fx: &mut Effects) {
        if self.flows.is_full() {
            return self.turn_away(&let_in.login, let_in.conn, Denial::Busy, fx);
        }
        self.begin(|flow| enter(flow, let_in));
    }

    /// Creates the session, if the connection still exists, now that the position in the inbox is
    /// known.
    fn enter_at(
        &mut self,
        now: Now,
        let_in: &LetIn,
        (id, inbox): (AccountId, TimelineId),
        status: TimelineStatus,
        fx: &mut Effects,
    ) -> Result<(), Denial> {
        let LetIn { conn, login, grant, owner, version, data } = let_in;
        if !self.logins.under_way.contains_key(conn) {
            return Ok(());
        }
        let cursor = status.cursor.min(status.last);
        let arrival = Arrival {
            conn: *conn,
            inbox,
            device: login.device.clone(),
            reader: self.reader_of(login),
            binds: login.binds,
            cursor,
            last: status.last,
            version: *version,
            account: grant.account,
            until_s: grant.until_s,
            by_password: grant.by_password,
            owner: *owner,
            since_s: now.unix_s(),
            source: self.settings.home.of(&[&Source::of(login.peer.ip()).bytes()]) as u32,
        };
        let (session, head) = self.arrive(arrival, fx).ok_or(Denial::Full)?;
        self.logins.ends(*conn);
        fx.counters.count(ChatCounter::Logins);
        let logged_in = LoggedIn {
            session,
            account: id,
            address: login.account.clone(),
            head,
            cursor,
            server_ms: now.wall_ms,
            data: data.clone(),
        };
        fx.deliveries.push((*conn, ChatDelivery::LoggedIn(Box::new(logged_in))));
        // The rules may have changed since the grant, and the walk over sessions may have passed
        // this one.
        self.renew_one(now, session.key(), self.settings.access.version(), fx);
        Ok(())
    }

    /// The reader of the inbox that a device uses.
    fn reader_of(&self, login: &Login) -> ReaderId {
        match login.binds {
            true => self.settings.shared_reader(),
            false => self.settings.reader(&login.device),
        }
    }

    /// Refuses a login that is under way, unless its connection has ended.
    pub(crate) fn turn_away(
        &mut self,
        login: &Login,
        conn: ConnRef,
        why: Denial,
        fx: &mut Effects,
    ) {
        if !self.logins.ends(conn) {
            return;
        }
        let may_pass = matches!(
            why,
            Denial::Busy | Denial::Rate | Denial::Unavailable | Denial::StoreFull | Denial::Full
        );
        let retry_ms = if may_pass { self.settings.limits.retry_jitter_ms.max(1) } else { 0 };
        refuse(conn, login, (why, retry_ms), fx);
    }

    /// Forgets the login of a connection that ended before it had a session.
    pub(crate) fn gone(&mut self, from: ConnRef) {
        self.logins.ends(from);
    }

    /// The question to access control: a login without a proof has no user there, and may have a
    /// name that no user has ([`Chat::owner_of_login`]).
    fn question_of(&self, login: &Login) -> Question {
        let proves =
            login.password.is_some() || login.method.is_some() || login.certificate.is_some();
        Question {
            client_id: login.device.clone(),
            user: proves.then(|| self.settings.user_of(&login.account).into()),
            password: login.password.clone(),
            certificate: login.certificate.clone(),
            method: login.method.clone(),
            dialogue: None,
            bindings: login.bindings.clone(),
            peer: login.peer,
            near: login.near,
            door: login.door,
            tls: login.tls,
            protocol: login.protocol,
        }
    }
}

/// Whether the login uses this method.
pub(crate) fn is_by(login: &Login, method: &str) -> bool {
    login.method.as_ref().is_some_and(|(of, _)| **of == *method)
}

fn refuse(conn: ConnRef, login: &Login, (why, retry_after_ms): (Denial, u32), fx: &mut Effects) {
    fx.counters.count(ChatCounter::LoginsRefused);
    let who = Some(login.account.as_str().into());
    let refused = LoginRefused { why, retry_after_ms, server: None, who };
    fx.deliveries.push((conn, ChatDelivery::Refused(Box::new(refused))));
}
