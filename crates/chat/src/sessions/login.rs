//! A device comes: it is asked who it is, its account is found, its place in the inbox is read, and
//! it is let in.
//!
//! ```text
//! Login ─► access (at once, later, in steps) ─► account's row ─► inbox's standing ─► LoggedIn
//! ```
//! The cheapest question first; nothing is kept for whoever is refused. A connection that goes
//! meanwhile is forgotten, and what comes for it finds nobody. Invariant: one login a connection.

use crate::accounts::{AccountRow, Owner, Waiter, fault_of};
use crate::log::{Answered, PendingCall};
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
use model::session::Denial;
use model::timeline::{ReaderId, TimelineId};
use std::collections::BTreeMap;

/// Logins that may be under way, a shard. One more is refused as busy.
const UNDER_WAY_MAX: usize = 65_536;

/// Steps of one exchange.
const STEPS_MAX: u8 = 8;

/// Devices on their way in.
pub(crate) struct Logins {
    /// By connection: the number of its question, if one is out or the client's answer is due.
    under_way: BTreeMap<ConnRef, Option<u64>>,
    asking: BTreeMap<u64, Asking>,
    last: u64,
    pace: AdmissionPace,
    closed: bool,
}

/// A question that is out, or waits for the client's next step.
struct Asking {
    conn: ConnRef,
    login: Box<Login>,
    dialogue: Option<Box<[u8]>>,
    steps: u8,
}

/// A device that has shown who it is.
pub(crate) struct LetIn {
    pub conn: ConnRef,
    pub login: Box<Login>,
    pub grant: Grant,
    pub owner: Owner,
    /// Of the rules by which it was let in.
    pub version: u64,
    /// The last word of an exchange.
    pub data: Option<Box<[u8]>>,
}

impl Logins {
    /// None; so many a second may come in.
    pub(crate) fn new(logins_per_s: u32) -> Logins {
        Logins {
            under_way: BTreeMap::new(),
            asking: BTreeMap::new(),
            last: 0,
            pace: AdmissionPace::new(logins_per_s),
            closed: false,
        }
    }

    /// From now on nobody comes in, or somebody may again.
    pub(crate) fn set_closed(&mut self, closed: bool) {
        self.closed = closed;
    }

    /// From now on so many a second may log in.
    pub(crate) fn set_rate(&mut self, logins_per_s: u32) {
        self.pace.set_rate(logins_per_s);
    }

    /// A login of this connection is not under way any more. False: it was not.
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

    /// The exchange of a connection whose next step is due.
    fn take_of(&mut self, conn: ConnRef) -> Option<Asking> {
        let number = (*self.under_way.get(&conn)?)?;
        self.take(number)
    }
}

impl Chat {
    /// A device wants to come in.
    pub(crate) fn login(&mut self, now: Now, from: ConnRef, login: Box<Login>, fx: &mut Effects) {
        if !self.may_try(now, from, &login, fx) {
            return;
        }
        let question = self.question_of(&login);
        let asking = Asking { conn: from, login, dialogue: None, steps: 0 };
        self.ask(now, asking, question, fx);
    }

    /// Whether somebody may show who it is; then its login is under way. Else it is told why not.
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

    /// The next step of an exchange.
    pub(crate) fn proceed(&mut self, now: Now, from: ConnRef, data: Box<[u8]>, fx: &mut Effects) {
        let Some(mut asking) = self.logins.take_of(from) else { return };
        asking.steps += 1;
        // A question that is out has no dialogue yet, or none that this is an answer to.
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
                fx.questions.push((number, Box::new(question)));
            }
            answer => self.answered(now, asking, answer, fx),
        }
    }

    /// The answer to a question that was handed out.
    pub(crate) fn admitted(&mut self, now: Now, number: u64, answer: Admission, fx: &mut Effects) {
        if let Some(asking) = self.logins.take(number) {
            self.answered(now, asking, answer, fx);
        }
    }

    fn answered(&mut self, now: Now, mut asking: Asking, answer: Admission, fx: &mut Effects) {
        let conn = asking.conn;
        match answer {
            Admission::Granted(grant, data) => {
                let Asking { login, .. } = asking;
                let Some(owner) = self.owner_of_login(&login, &grant) else {
                    return self.turn_away(&login, conn, Denial::BadCredentials, fx);
                };
                let version = self.settings.access.version();
                let let_in = Box::new(LetIn { conn, login, grant, owner, version, data });
                self.find_for_login(now, let_in, fx);
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

    /// Whose the account of somebody is who was let in; `None`: not theirs. The name is that of the
    /// proof; who brings none may have one that nobody else has.
    pub(crate) fn owner_of_login(&self, login: &Login, grant: &Grant) -> Option<Owner> {
        let name = self.settings.user_of(&login.account);
        let granted = grant.account.map(|account| account.uid);
        let owner = self.settings.access.owner(name);
        match (grant.user.as_deref(), owner) {
            (None, NameOwner::Unknown) => Some(Owner::Nobody),
            (Some(user), _) if *user != *name => None,
            // A certificate outlives the account that it names: where it is all that a client
            // chose to show (EXTERNAL), it makes none.
            (Some(_), NameOwner::Unknown) if is_by(login, EXTERNAL) => None,
            (Some(_), NameOwner::Account(uid)) => {
                granted.is_none_or(|granted| granted == uid).then_some(Owner::Booked(uid))
            }
            (Some(_), _) => granted.is_none().then_some(Owner::Outside),
            (None, _) => None,
        }
    }

    pub(crate) fn find_for_login(&mut self, now: Now, let_in: Box<LetIn>, fx: &mut Effects) {
        let (address, owner) = (let_in.login.account.clone(), let_in.owner);
        self.find_account(now, &address, Some(owner), Waiter::Login(let_in), fx);
    }

    /// The account of a device that was let in is found.
    pub(crate) fn account_of_login(
        &mut self,
        now: Now,
        let_in: LetIn,
        row: Result<AccountRow, ChatFault>,
        fx: &mut Effects,
    ) {
        if self.erasures.has_name(&let_in.login.account) {
            return self.turn_away(&let_in.login, let_in.conn, Denial::NotAuthorized, fx);
        }
        let id = match row {
            Ok(row) if row.owner == let_in.owner => row.id,
            // It was being made for nobody, when somebody came who has a proof.
            Ok(AccountRow { owner: Owner::Nobody, .. }) if let_in.owner == Owner::Outside => {
                return self.find_for_login(now, Box::new(let_in), fx);
            }
            Ok(_) => {
                return self.turn_away(&let_in.login, let_in.conn, Denial::BadCredentials, fx);
            }
            Err(fault) => return self.give_up(let_in, fault, fx),
        };
        let timeline = let_in.login.account.inbox(self.settings.home, id);
        if !self.log.may_ask() {
            if guests::is_guest(&let_in.login) {
                self.erasures.opens(timeline, let_in.login.account.clone());
            }
            return self.give_up(let_in, ChatFault::Busy, fx);
        }
        match guests::is_guest(&let_in.login) {
            true => self.marks_guest((let_in, id), timeline, fx),
            false => self.looks_where(let_in, (id, timeline), fx),
        }
    }

    /// Where the inbox and the device stand is asked for.
    pub(crate) fn looks_where(
        &mut self,
        let_in: LetIn,
        (id, timeline): (AccountId, TimelineId),
        fx: &mut Effects,
    ) {
        self.sessions.expect(timeline, &let_in.login.account);
        let reader = self.reader_of(&let_in.login);
        let read = Read::Standing { timeline, reader };
        self.log.ask(PendingCall::Standing(Box::new(let_in), id), Call::Read(read), fx);
    }

    /// Where the inbox and the device stand is known: the device is in, if it is still there.
    pub(crate) fn enter(
        &mut self,
        now: Now,
        let_in: LetIn,
        id: AccountId,
        result: Answered,
        fx: &mut Effects,
    ) {
        let inbox = let_in.login.account.inbox(self.settings.home, id);
        match result {
            Ok(Done::Standing(status)) => self.enter_at(now, let_in, (id, inbox), status, fx),
            Ok(_) => self.give_up(let_in, ChatFault::StoreFailed, fx),
            Err(error) => self.give_up(let_in, fault_of(error), fx),
        }
        self.sessions.expect_no_more(inbox);
        if !self.sessions.online.contains_key(&inbox) {
            self.leaves_guest(inbox);
        }
    }

    fn enter_at(
        &mut self,
        now: Now,
        let_in: LetIn,
        (id, inbox): (AccountId, TimelineId),
        status: TimelineStatus,
        fx: &mut Effects,
    ) {
        if !self.logins.ends(let_in.conn) {
            return;
        }
        let LetIn { conn, login, grant, owner, version, data } = let_in;
        let cursor = status.cursor.min(status.last);
        let arrival = Arrival {
            conn,
            inbox,
            device: login.device.clone(),
            reader: self.reader_of(&login),
            binds: login.binds,
            cursor,
            last: status.last,
            version,
            account: grant.account,
            until_s: grant.until_s,
            by_password: grant.by_password,
            owner,
            since_s: now.unix_s(),
            source: self.settings.home.of(&[&Source::of(login.peer.ip()).bytes()]) as u32,
        };
        let Some((session, head)) = self.arrive(arrival, fx) else {
            return refuse(conn, &login, (Denial::Full, self.settings.limits.retry_jitter_ms), fx);
        };
        fx.counters.count(ChatCounter::Logins);
        let logged_in = LoggedIn {
            session,
            account: id,
            address: login.account,
            head,
            cursor,
            server_ms: now.wall_ms,
            data,
        };
        fx.deliveries.push((conn, ChatDelivery::LoggedIn(Box::new(logged_in))));
        // The rules may have changed since it was let in, and the walk that follows be past it.
        self.renew_one(now, session.key(), self.settings.access.version(), fx);
    }

    /// As whom a device goes through the inbox.
    fn reader_of(&self, login: &Login) -> ReaderId {
        match login.binds {
            true => self.settings.shared_reader(),
            false => self.settings.reader(&login.device),
        }
    }

    pub(crate) fn give_up(&mut self, let_in: LetIn, fault: ChatFault, fx: &mut Effects) {
        let why = match fault {
            ChatFault::StoreFull => Denial::StoreFull,
            ChatFault::StoreFailed => Denial::StoreFailed,
            _ => Denial::Busy,
        };
        self.turn_away(&let_in.login, let_in.conn, why, fx);
    }

    /// Whoever is on the way in is not let in; nobody, if the connection has gone.
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

    /// A connection went before it had its session.
    pub(crate) fn gone(&mut self, from: ConnRef) {
        self.logins.ends(from);
    }

    /// What access is asked: who brings no proof is nobody there, and may have a name that no user
    /// has ([`Chat::owner_of_login`]).
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

/// Whether somebody comes by this method.
pub(crate) fn is_by(login: &Login, method: &str) -> bool {
    login.method.as_ref().is_some_and(|(of, _)| **of == *method)
}

fn refuse(conn: ConnRef, login: &Login, (why, retry_after_ms): (Denial, u32), fx: &mut Effects) {
    fx.counters.count(ChatCounter::LoginsRefused);
    let who = Some(login.account.as_str().into());
    let refused = LoginRefused { why, retry_after_ms, server: None, who };
    fx.deliveries.push((conn, ChatDelivery::Refused(Box::new(refused))));
}
