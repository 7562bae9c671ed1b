//! Requests about an account's push registrations and quiet hours, carried out one after another.
//!
//! ```text
//! request ─► queue ─► rows are read ─► judged ─► a row is written ─► answered
//!                                        ├─► other accounts give the device up (yields.rs)
//!                                        └─► a code is pushed to the device ─► answered
//! ```
//! A MIOP device is bound by a code that is pushed to it: a client that knows the code controls
//! both. The code is a keyed hash of account, device and time, so it is not stored. Invariants: an
//! answered request is on stable storage; memory counts the registrations of each account that has
//! any, and of no others.

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
use model::ports::requests::PortRequest;
use model::timeline::TimelineId;
use std::collections::VecDeque;
use std::time::Duration;

/// Requests of one account that may wait. A further one is answered as busy.
const LINE_MAX: usize = 64;

/// A code is valid for at least this long, and at most twice as long, seconds.
const CODE_S: u64 = 600;

/// Pause between two codes for one account.
const CODE_PAUSE: Duration = Duration::from_secs(5);

/// Accounts with recent codes that are remembered. A further one is answered as busy.
const CODES_MAX: usize = 4_096;

/// Tasks that wait for the rows of an account.
#[derive(Default)]
pub(crate) struct Line {
    pub(super) waiting: VecDeque<PushChore>,
    /// Step of the first task.
    pub(super) step: Step,
}

/// Step of a task.
#[derive(Default)]
pub(super) enum Step {
    #[default]
    Reading,
    /// Other accounts are to give up the device, under the number of the claim; then these rows are
    /// written.
    Claiming(u64, Box<Rows>, Vec<Write>),
    /// These rows hold when the log has answered this many writes; true: one has failed.
    Writing(Box<Rows>, u32, bool),
    Coding,
}

/// A task for the registrations of an account.
pub(crate) enum PushChore {
    /// A request of this account's device with this name.
    Wish(Requester, Box<(AccountAddress, Box<str>)>, Box<PushWish>),
    /// Removal of the registration with this token or name, which is gone for good.
    Gone(Way, Box<str>),
    /// Removal of all registrations, since the account does not exist any more.
    Clear,
    /// Removal of the device with this route, which another account claims.
    Yield(Box<PushRoute>, (ShardId, u64)),
}

/// Result of judging a request.
enum Verdict {
    Is(Rows, Vec<Write>),
    /// The rows and writes, after other accounts have given up the device.
    Claims(Rows, Vec<Write>, PushRoute),
    Told(ChatDelivery),
    Code(PushRoute),
    Not(ChatFault),
}

impl Chat {
    /// Handles a device's request about its account's push registrations.
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

    /// Queues a task for the registrations of an account.
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

    /// Removes all registrations of an account that is being erased.
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

    /// Handles the log's answer for the first task of an account.
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

    /// Writes the rows of a task.
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
        // A device is registered once, also under a new name.
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

    /// Handles the end of a task's writes.
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

    /// Ends the first task, and begins the next.
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
            // The next push finds such a registration again.
            PushChore::Gone(..) | PushChore::Clear => return,
        };
        fx.counters.count(ChatCounter::PushWishesFailed);
        let failed = ChatDelivery::Failed { number: wait.number, why };
        self.answer_session((wait.conn, wait.session), failed, fx);
    }

    /// Pushes a code to a device that is to be bound.
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
        let order = Box::new(NotificationOrder { targets, what });
        fx.port_requests.push((post, PortRequest::Notify(order)));
    }

    /// Handles the result of pushing a code.
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
            Notified::Later { .. } | Notified::Resting { .. } | Notified::Failing => {
                Err(ChatFault::Busy)
            }
            Notified::Taken { .. } | Notified::Refused => Err(ChatFault::UnknownDevice),
        };
        self.chore_over(inbox, result, fx);
    }

    fn is_code(&self, now: Now, inbox: TimelineId, route: &PushRoute, code: &str) -> bool {
        let at = u64::from(now.unix_s());
        let of = |at| self.code_of((inbox, route), at);
        [at, at.saturating_sub(CODE_S)].into_iter().any(|at| *of(at) == *code)
    }

    /// The code that binds a device to an account at this time, of letters and digits that are not
    /// easily confused.
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

/// Whether a registration is at an external service, and at this node if one is given; without a
/// service: whether it is at none.
fn is_at(it: &PushRegistration, service: Option<&str>, node: Option<&str>) -> bool {
    let (address, its_node) = match &it.route {
        PushRoute::Service(at) => (Some(&*at.address), &*at.node),
        PushRoute::Gateway { .. } | PushRoute::Miop { .. } => (None, &*it.name),
    };
    address == service && node.is_none_or(|node| node == its_node)
}

impl Rows {
    /// A verdict by which these rows stay, without the registrations that match.
    fn judged_without(
        self,
        inbox: TimelineId,
        is_so: impl Fn(&PushRegistration) -> bool,
    ) -> Verdict {
        let (rows, writes) = self.without(inbox, is_so);
        Verdict::Is(rows, writes)
    }

    /// The rows without the registrations that match, and the writes that delete those.
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

/// Whether a carrier's answer means this registration.
fn names(registration: &PushRegistration, name: &str) -> bool {
    match &registration.route {
        PushRoute::Gateway { token, .. } => **token == *name,
        PushRoute::Miop { device, .. } => device.as_str() == name,
        PushRoute::Service(_) => *registration.name == *name,
    }
}
