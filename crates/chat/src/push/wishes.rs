//! How an account's devices are to be woken: registrations, hours of quiet, one wish after another.
//!
//! ```text
//! wish ─► line ─► the rows are read ─► judged ─► a row is written ─► answered
//!                                        ├─► other accounts give the device up (yields.rs)
//!                                        └─► a code is pushed to the device ─► answered
//! ```
//! A device of MIOP is bound by a code that is pushed to it: whoever has both says so. The code is
//! a keyed hash of account, device and time, so that nothing of it is kept. Invariant: what is
//! answered is on stable storage; of the accounts that have registrations, and of no others, memory
//! knows how many.

use super::rows::{self, Kind, Rows};
use super::telling::Post;
use super::{WAYS, Way};
use crate::log::{Answered, PendingCall};
use crate::sessions::Requester;
use crate::{Chat, Effects};
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{
    ChatDelivery, ChatFault, PUSH_CODE_CHARS, PushRegistration, PushRoute, PushStatus, PushWish,
};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef, ShardId};
use model::ports::log::{Call, Done, Write};
use model::ports::notifications::{
    NotificationOrder, NotificationTargets, NotificationWhat, Notified,
};
use model::timeline::TimelineId;
use std::collections::VecDeque;
use std::time::Duration;

/// Wishes of one account that may wait. One more is answered as busy.
const LINE_MAX: usize = 64;

/// For so long a code is good, seconds, and at most twice as long.
const CODE_S: u64 = 600;

/// Time between two codes for one account.
const CODE_PAUSE: Duration = Duration::from_secs(5);

/// Accounts that codes were just pushed for. One more is answered as busy.
const CODES_MAX: usize = 4_096;

/// What waits for the rows of an account.
#[derive(Default)]
pub(crate) struct Line {
    pub(super) waiting: VecDeque<PushChore>,
    /// The first of them, whose answer is awaited.
    pub(super) step: Step,
}

/// Where the first of a line is.
#[derive(Default)]
pub(super) enum Step {
    #[default]
    Reading,
    /// Other accounts are to give up the device, by the number of the claim; then this is written.
    Claiming(u64, Box<Rows>, Vec<Write>),
    /// These rows are so when the log has written so many things.
    Writing(Box<Rows>, u32, bool),
    Coding,
}

/// What is to be done with the registrations of an account.
pub(crate) enum PushChore {
    /// A device of this account, of this name, wants it.
    Wish(Requester, Box<(AccountAddress, Box<str>)>, Box<PushWish>),
    /// What is registered so, by its token or name, is gone for good.
    Gone(Way, Box<str>),
    /// The account is nobody's any more.
    Clear,
    /// The device that this way leads to is another account's now: a claim asks for it.
    Yield(Box<PushRoute>, (ShardId, u64)),
}

/// What a wish comes to.
enum Verdict {
    Is(Rows, Vec<Write>),
    /// That it is, when other accounts have given up the device.
    Claims(Rows, Vec<Write>, PushRoute),
    Told(ChatDelivery),
    Code(PushRoute),
    Not(ChatFault),
}

impl Chat {
    /// A device wants something of how its account's devices are woken.
    pub(crate) fn push_wish(
        &mut self,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        wish: Box<PushWish>,
        fx: &mut Effects,
    ) {
        let Some(asker) = self.asker(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        let inbox = asker.inbox;
        let chore = PushChore::Wish(wait, Box::new((asker.address, asker.device)), wish);
        self.run_chore(inbox, chore, fx);
    }

    /// Something is to be done with the registrations of an account.
    pub(super) fn run_chore(&mut self, inbox: TimelineId, chore: PushChore, fx: &mut Effects) {
        let line = self.pushes.lines.get(&inbox);
        if line.is_some_and(|line| line.waiting.len() >= LINE_MAX) || !self.log.may_ask() {
            return self.chore_fails(&chore, ChatFault::Busy, fx);
        }
        let is_first = line.is_none();
        let line = self.pushes.lines.entry(inbox).or_default();
        line.waiting.push_back(chore);
        if is_first {
            self.next_chore(inbox, fx);
        }
    }

    /// An account is being erased: nothing of it is woken any more.
    pub(crate) fn clear_pushes(&mut self, inbox: TimelineId, fx: &mut Effects) {
        self.run_chore(inbox, PushChore::Clear, fx);
    }

    fn next_chore(&mut self, inbox: TimelineId, fx: &mut Effects) {
        let Some(line) = self.pushes.lines.get_mut(&inbox) else { return };
        if line.waiting.is_empty() {
            self.pushes.lines.remove(&inbox);
            return;
        }
        line.step = Step::Reading;
        self.log.ask(PendingCall::PushWish(inbox), Call::Read(rows::read(inbox)), fx);
    }

    /// The log has answered for the first of a line.
    pub(crate) fn push_wish_goes_on(
        &mut self,
        now: Now,
        inbox: TimelineId,
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(line) = self.pushes.lines.get_mut(&inbox) else { return };
        match (&mut line.step, result) {
            (Step::Reading, Ok(Done::Rows(all))) => {
                self.chore_judged(now, inbox, Rows::of(&all), fx)
            }
            (Step::Writing(_, left, has_failed), result) => {
                *left -= 1;
                *has_failed |= result.is_err();
                if *left == 0 {
                    self.chore_written(inbox, fx);
                }
            }
            (Step::Reading | Step::Coding | Step::Claiming(..), _) => {
                self.chore_over(inbox, Err(ChatFault::Busy), fx)
            }
        }
    }

    fn chore_judged(&mut self, now: Now, inbox: TimelineId, rows: Rows, fx: &mut Effects) {
        let Some(line) = self.pushes.lines.get(&inbox) else { return };
        let Some(chore) = line.waiting.front() else { return };
        match self.judge_chore(now, inbox, chore, rows) {
            Verdict::Is(_, writes) if writes.is_empty() => {
                self.chore_over(inbox, Ok(None), fx);
            }
            Verdict::Is(rows, writes) => self.write_chore(inbox, (Box::new(rows), writes), fx),
            Verdict::Claims(rows, writes, route) => {
                self.claim_device(inbox, (Box::new(rows), writes), route, fx);
            }
            Verdict::Told(delivery) => self.chore_over(inbox, Ok(Some(delivery)), fx),
            Verdict::Not(fault) => self.chore_over(inbox, Err(fault), fx),
            Verdict::Code(route) => self.push_code(now, inbox, route, fx),
        }
    }

    /// These rows are written.
    pub(super) fn write_chore(
        &mut self,
        inbox: TimelineId,
        (rows, writes): (Box<Rows>, Vec<Write>),
        fx: &mut Effects,
    ) {
        if let Some(line) = self.pushes.lines.get_mut(&inbox) {
            line.step = Step::Writing(rows, writes.len() as u32, false);
        }
        for write in writes {
            self.log.ask(PendingCall::PushWish(inbox), Call::Write(write), fx);
        }
    }

    fn judge_chore(
        &self,
        now: Now,
        inbox: TimelineId,
        chore: &PushChore,
        mut rows: Rows,
    ) -> Verdict {
        let (wait, (address, device), wish) = match chore {
            PushChore::Wish(wait, of, wish) => (wait, &**of, &**wish),
            PushChore::Gone(way, name) => {
                let is_it = |it: &PushRegistration| Way::of(&it.route) == *way && names(it, name);
                return rows.judged_without(inbox, is_it);
            }
            PushChore::Yield(route, _) => {
                return rows.judged_without(inbox, |it| it.route.leads_where(route));
            }
            PushChore::Clear => {
                let (rows, mut writes) = rows.without(inbox, |_| true);
                writes.push(rows::delete(inbox, (Kind::Quiet, "")));
                return Verdict::Is(rows, writes);
            }
        };
        match wish {
            PushWish::Register { name, route, code, shared } => {
                let name = name.as_ref().unwrap_or(device).clone();
                let (device, route) = (device.clone(), route.clone());
                let it = PushRegistration { name, device, route };
                self.judge_registration(now, (inbox, address), (it, code.as_deref()), rows, *shared)
            }
            PushWish::Remove { name } => {
                let name = name.as_ref().unwrap_or(device).clone();
                rows.judged_without(inbox, |it| name.is_empty() || it.name == name)
            }
            PushWish::Disable { service, node } => {
                rows.judged_without(inbox, |it| is_at(it, service.as_deref(), node.as_deref()))
            }
            PushWish::Show => {
                let Rows { registrations, quiet, .. } = rows;
                let number = wait.number;
                let status = Box::new(PushStatus { number, registrations, quiet });
                Verdict::Told(ChatDelivery::PushStatus(status))
            }
            PushWish::Quiet(hours) => {
                rows.quiet = *hours;
                let row = (Kind::Quiet, "");
                let write = match hours {
                    Some(hours) => rows::put(inbox, row, rows::encode_quiet(*hours)),
                    None => rows::delete(inbox, row),
                };
                Verdict::Is(rows, vec![write])
            }
        }
    }

    fn judge_registration(
        &self,
        now: Now,
        (inbox, address): (TimelineId, &AccountAddress),
        (registration, code): (PushRegistration, Option<&str>),
        rows: Rows,
        is_shared: bool,
    ) -> Verdict {
        if let Some(fault) = self.may_not_register(inbox, &registration, &rows) {
            return Verdict::Not(fault);
        }
        let route = registration.route.clone();
        if let PushRoute::Miop { .. } = route
            && !rows.registrations.contains(&registration)
        {
            match code {
                None => return Verdict::Code(route),
                Some(code) if !self.is_code(now, inbox, &route, code) => {
                    return Verdict::Not(ChatFault::BadCode);
                }
                Some(_) => {}
            }
        }
        let value = rows::encode_registration(address, &registration);
        let row = (Kind::Registration, &*registration.name);
        let write = rows::put(inbox, row, value);
        // One device is registered once, whatever it was called before.
        let is_same =
            |it: &PushRegistration| it.name != registration.name && it.route.leads_where(&route);
        let (mut rows, mut writes) = rows.without(inbox, is_same);
        writes.push(write);
        rows.registrations.retain(|it| it.name != registration.name);
        rows.registrations.push(registration);
        match is_shared {
            true => Verdict::Is(rows, writes),
            false => Verdict::Claims(rows, writes, route),
        }
    }

    fn may_not_register(
        &self,
        inbox: TimelineId,
        registration: &PushRegistration,
        rows: &Rows,
    ) -> Option<ChatFault> {
        let limits = &self.settings.limits.notifications;
        let shards = u32::from(self.settings.shards.max(1));
        let others = rows.registrations.iter().filter(|it| it.name != registration.name).count();
        let is_new = !self.pushes.accounts.contains_key(&inbox);
        let is_full =
            is_new && self.pushes.accounts.len() >= (limits.accounts_max / shards) as usize;
        let is_gateway = matches!(registration.route, PushRoute::Gateway { .. });
        let name_max = registration.route.name_bytes_max();
        if !(1..=name_max).contains(&registration.name.len()) {
            Some(ChatFault::Invalid)
        } else if is_gateway && !self.settings.push.gateway {
            Some(ChatFault::NoGateway)
        } else if is_full || others >= usize::from(limits.registrations_an_account_max) {
            Some(ChatFault::PushFull)
        } else {
            None
        }
    }

    /// What the first of a line wanted stands in the log, or not.
    fn chore_written(&mut self, inbox: TimelineId, fx: &mut Effects) {
        let Some(line) = self.pushes.lines.get_mut(&inbox) else { return };
        let Step::Writing(rows, _, has_failed) = std::mem::take(&mut line.step) else { return };
        if has_failed {
            return self.chore_over(inbox, Err(ChatFault::Busy), fx);
        }
        match line.waiting.front() {
            Some(PushChore::Wish(_, _, wish)) if matches!(**wish, PushWish::Register { .. }) => {
                fx.counters.count(ChatCounter::PushesRegistered);
            }
            Some(PushChore::Gone(..) | PushChore::Clear | PushChore::Yield(..)) => {
                fx.counters.count(ChatCounter::PushesGone)
            }
            _ => {}
        }
        let count = |way| rows.registrations.iter().filter(|it| Way::of(&it.route) == way).count();
        let counts = Way::ALL.map(|way| count(way) as u8);
        let home = self.settings.home;
        let devices = rows.registrations.iter().map(|it| super::yields::name_of(home, &it.route));
        let devices: Vec<u64> = devices.collect();
        self.pushes.lets_go(inbox);
        if counts != [0; WAYS] {
            self.pushes.accounts.entry(inbox).or_default().counts = counts;
            devices.into_iter().for_each(|device| self.pushes.holds(inbox, device));
        } else if self.pushes.accounts.remove(&inbox).is_some() {
            self.pushes.disarm(inbox);
            self.pushes.owing.remove(&inbox);
            self.log.write(rows::delete(inbox, (Kind::Mark, "")), fx);
        }
        self.chore_over(inbox, Ok(None), fx);
    }

    /// The first of a line is over, and the next begins.
    pub(super) fn chore_over(
        &mut self,
        inbox: TimelineId,
        result: Result<Option<ChatDelivery>, ChatFault>,
        fx: &mut Effects,
    ) {
        let line = self.pushes.lines.get_mut(&inbox);
        let Some(chore) = line.and_then(|line| line.waiting.pop_front()) else { return };
        self.pushes.claims.take_all(|claim| claim.inbox == inbox);
        match (result, &chore) {
            (Err(fault), _) => self.chore_fails(&chore, fault, fx),
            (Ok(delivery), PushChore::Wish(wait, ..)) => {
                let number = wait.number;
                let delivery = delivery.unwrap_or(ChatDelivery::Done { number });
                self.answer_session((wait.conn, wait.session), delivery, fx);
            }
            (Ok(_), PushChore::Yield(_, claim)) => self.tell_yielded(*claim, (0, true), fx),
            (Ok(_), PushChore::Gone(..) | PushChore::Clear) => {}
        }
        self.next_chore(inbox, fx);
    }

    fn chore_fails(&mut self, chore: &PushChore, why: ChatFault, fx: &mut Effects) {
        let wait = match chore {
            PushChore::Wish(wait, ..) => wait,
            PushChore::Yield(_, claim) => return self.tell_yielded(*claim, (0, false), fx),
            // What nobody wants any more is found again by the next push.
            PushChore::Gone(..) | PushChore::Clear => return,
        };
        fx.counters.count(ChatCounter::PushWishesFailed);
        let failed = ChatDelivery::Failed { number: wait.number, why };
        self.answer_session((wait.conn, wait.session), failed, fx);
    }

    /// A code is pushed to a device that is to be bound.
    fn push_code(&mut self, now: Now, inbox: TimelineId, route: PushRoute, fx: &mut Effects) {
        let codes = &mut self.pushes.codes;
        if codes.len() >= CODES_MAX {
            codes.retain(|_, at| *at + CODE_PAUSE > now.mono);
        }
        let is_early = codes.get(&inbox).is_some_and(|at| *at + CODE_PAUSE > now.mono);
        let PushRoute::Miop { product, device } = &route else { return };
        if is_early || codes.len() >= CODES_MAX {
            return self.chore_over(inbox, Err(ChatFault::Busy), fx);
        }
        codes.insert(inbox, now.mono);
        let code = self.code_of((inbox, &route), now.unix_s().into());
        let (product, devices) = (product.clone(), vec![device.clone()]);
        let targets = NotificationTargets::Miop { product, devices };
        let what = NotificationWhat::Code(code);
        if let Some(line) = self.pushes.lines.get_mut(&inbox) {
            line.step = Step::Coding;
        }
        let post = self.pushes.posts.put(Post::Code(inbox));
        fx.notifications.push((post, Box::new(NotificationOrder { targets, what })));
    }

    /// What became of a code.
    pub(super) fn code_told(&mut self, inbox: TimelineId, what: &Notified, fx: &mut Effects) {
        let Some(line) = self.pushes.lines.get(&inbox) else { return };
        let number = match line.waiting.front() {
            Some(PushChore::Wish(wait, ..)) if matches!(line.step, Step::Coding) => wait.number,
            _ => return,
        };
        let result = match what {
            Notified::Taken { gone } if gone.is_empty() => {
                Ok(Some(ChatDelivery::PushCode { number }))
            }
            Notified::Later { .. } | Notified::Failing => Err(ChatFault::Busy),
            Notified::Taken { .. } | Notified::Refused => Err(ChatFault::UnknownDevice),
        };
        self.chore_over(inbox, result, fx);
    }

    fn is_code(&self, now: Now, inbox: TimelineId, route: &PushRoute, code: &str) -> bool {
        let at = u64::from(now.unix_s());
        let of = |at| self.code_of((inbox, route), at);
        [at, at.saturating_sub(CODE_S)].into_iter().any(|at| *of(at) == *code)
    }

    /// The code that binds a device to an account at this time: letters and digits that are not
    /// taken for one another.
    fn code_of(&self, (inbox, route): (TimelineId, &PushRoute), unix_s: u64) -> Box<str> {
        const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
        let PushRoute::Miop { product, device } = route else { return "".into() };
        let (inbox, period) = (inbox.to_bytes(), (unix_s / CODE_S).to_be_bytes());
        let names = [product.as_str().as_bytes(), device.as_str().as_bytes()];
        let parts = [&b"push code"[..], &inbox, names[0], names[1], &period];
        let hash = self.settings.home.of(&parts);
        let letter = |at: usize| char::from(LETTERS[(hash >> (5 * at)) as usize % LETTERS.len()]);
        (0..PUSH_CODE_CHARS).map(letter).collect::<String>().into()
    }
}

/// Whether a registration is one of a service elsewhere; without that, of none of them. Of a node,
/// if there is one.
fn is_at(it: &PushRegistration, service: Option<&str>, node: Option<&str>) -> bool {
    let (address, its_node) = match &it.route {
        PushRoute::Service(at) => (Some(&*at.address), &*at.node),
        PushRoute::Gateway { .. } | PushRoute::Miop { .. } => (None, &*it.name),
    };
    address == service && node.is_none_or(|node| node == its_node)
}

impl Rows {
    /// A verdict by which these are left, without those that are so.
    fn judged_without(
        self,
        inbox: TimelineId,
        is_so: impl Fn(&PushRegistration) -> bool,
    ) -> Verdict {
        let (rows, writes) = self.without(inbox, is_so);
        Verdict::Is(rows, writes)
    }

    /// These, without those that are so, and what makes them so.
    fn without(
        mut self,
        inbox: TimelineId,
        is_so: impl Fn(&PushRegistration) -> bool,
    ) -> (Rows, Vec<Write>) {
        let (gone, stay): (Vec<_>, Vec<_>) = self.registrations.into_iter().partition(is_so);
        let delete = |it: &PushRegistration| rows::delete(inbox, (Kind::Registration, &it.name));
        let writes = gone.iter().map(delete).collect();
        self.registrations = stay;
        (self, writes)
    }
}

/// Whether a way's answer means this registration.
fn names(registration: &PushRegistration, name: &str) -> bool {
    match &registration.route {
        PushRoute::Gateway { token, .. } => **token == *name,
        PushRoute::Miop { device, .. } => device.as_str() == name,
        PushRoute::Service(_) => *registration.name == *name,
    }
}
