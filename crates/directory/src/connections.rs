//! Connections to all masters, and calls over them: grouped by master, sent to all before the first
//! reply is awaited, repeated where a cluster says that something is elsewhere.
//!
//! After any fault the connection is dropped; after a call that failed all of them are, and the
//! course is forgotten. A call that finds a connection closed that was open before is made once
//! more, within its time: a server may close those that were idle. Every call made here may be
//! carried out twice.

use crate::clock::Deadline;
use crate::course::{Course, Wires};
use crate::reply::{self, refusal};
use crate::script::Script;
use crate::settings::{Access, Settings};
use crate::slots::{redirection, slot};
use crate::url::{HostPort, RedisKind};
use crate::wire::{Wire, pack};
use model::ports::presence::directory::DirectoryError;
use redis::{ServerErrorKind, Value};
use std::collections::{BTreeMap, BTreeSet};

/// How often parts of one call are sent to somebody else before it is given up.
const ROUNDS_MAX: usize = 8;

/// A command about one key.
pub(crate) struct RedisCommand {
    slot: u16,
    packed: Vec<u8>,
    script: Option<&'static Script>,
}

impl RedisCommand {
    /// A command that goes where this key is.
    pub(crate) fn new<A: AsRef<[u8]>>(key: &str, command: &[A]) -> RedisCommand {
        let mut packed = Vec::new();
        pack(&mut packed, command);
        RedisCommand { slot: slot(key.as_bytes()), packed, script: None }
    }

    /// A script's call with its one key.
    pub(crate) fn script<A: AsRef<[u8]>>(
        script: &'static Script,
        key: &str,
        args: &[A],
    ) -> RedisCommand {
        let head: [&[u8]; 4] = [b"EVALSHA", script.name.as_bytes(), b"1", key.as_bytes()];
        let command: Vec<&[u8]> = head.into_iter().chain(args.iter().map(AsRef::as_ref)).collect();
        RedisCommand { script: Some(script), ..RedisCommand::new(key, &command) }
    }
}

/// Connections to all masters.
pub(crate) struct RedisConnections {
    access: Access,
    course: Course,
    wires: Wires,
}

/// Reply to a command.
pub(crate) type Reply = Result<Value, DirectoryError>;

/// An order on its way, and where a node said to ask for it this once.
struct Step {
    order: usize,
    asked: Option<HostPort>,
}

type Groups = BTreeMap<HostPort, Vec<Step>>;

/// A round of a call: what is to be done, what came of it, and what has to be repeated.
struct Call<'a> {
    orders: &'a [RedisCommand],
    replies: &'a mut [Reply],
    again: Vec<Step>,
}

impl Call<'_> {
    fn fail(&mut self, steps: impl IntoIterator<Item = Step>, fault: &DirectoryError) {
        steps.into_iter().for_each(|step| self.replies[step.order] = Err(fault.clone()));
    }
}

impl RedisConnections {
    /// Connects to nobody yet.
    pub(crate) fn new(settings: &Settings) -> Result<RedisConnections, String> {
        let (target, access) = Access::of(settings)?;
        let course = Course::new(target, &access);
        Ok(RedisConnections { access, course, wires: Wires::new() })
    }

    /// Which Redis it is.
    pub(crate) fn kind(&self) -> RedisKind {
        self.course.kind()
    }

    /// Bytes sent and received, before encryption.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        self.access.traffic.read()
    }

    /// Carries orders out. Replies in their order; none is an error.
    pub(crate) fn call(&mut self, orders: &[RedisCommand]) -> Result<Vec<Value>, DirectoryError> {
        self.within(|fleet, deadline| fleet.run(orders, deadline))
    }

    /// Several calls within the time of one.
    pub(crate) fn within<T>(
        &mut self,
        work: impl Fn(&mut RedisConnections, Deadline) -> Result<T, DirectoryError>,
    ) -> Result<T, DirectoryError> {
        let deadline = Deadline::after(self.access.timeout_ms);
        let is_used = !self.wires.is_empty();
        let learned = |fleet: &mut RedisConnections| {
            fleet.course.learn(&fleet.access, &mut fleet.wires, deadline)?;
            work(fleet, deadline)
        };
        let mut result = learned(self);
        if is_used && matches!(result, Err(DirectoryError::Unreachable(_))) {
            self.forget();
            result = learned(self);
        }
        if result.is_err() {
            self.forget();
        }
        result
    }

    /// Looks whether masters and slots are still what they were, and drops connections to others.
    pub(crate) fn review(&mut self, deadline: Deadline) {
        self.course.review(&self.access, &mut self.wires, deadline);
        let course = &self.course;
        self.wires.retain(|place, _| course.has(place));
    }

    /// A key for each master, by the lowest numbers that lead there; `alone` where there is one.
    pub(crate) fn key_each(&self, alone: &str) -> Vec<String> {
        match self.course.kind() {
            RedisKind::Standalone | RedisKind::Sentinel => vec![alone.to_string()],
            RedisKind::Cluster => self.course.map().one_each(|number| format!("{alone}:{number}")),
        }
    }

    /// Carries orders out, until then. Replies in their order; none is an error.
    pub(crate) fn run(
        &mut self,
        orders: &[RedisCommand],
        deadline: Deadline,
    ) -> Result<Vec<Value>, DirectoryError> {
        self.attempt(orders, deadline).into_iter().collect()
    }

    /// Carries out what can be. The others of a master that does not answer are heard all the same,
    /// and the next call looks for a better map.
    pub(crate) fn attempt(&mut self, orders: &[RedisCommand], deadline: Deadline) -> Vec<Reply> {
        let mut replies: Vec<Reply> = orders.iter().map(|_| Err(DirectoryError::Slow)).collect();
        let mut steps: Vec<Step> =
            (0..orders.len()).map(|order| Step { order, asked: None }).collect();
        for _ in 0..ROUNDS_MAX {
            let mut call = Call { orders, replies: &mut replies, again: Vec::new() };
            let groups = self.send(steps, &mut call, deadline);
            let count = groups.len();
            for (at, (place, group)) in groups.into_iter().enumerate() {
                // Whoever was waited for in vain has not kept the others from answering.
                let deadline = if at + 1 == count { deadline } else { deadline.most() };
                self.receive(&place, group, &mut call, deadline);
            }
            steps = call.again;
            if steps.is_empty() {
                return replies;
            }
            // What is repeated keeps its order.
            steps.sort_by_key(|step| step.order);
        }
        for step in steps {
            let why = format!("a key is still redirected after {ROUNDS_MAX} rounds");
            replies[step.order] = Err(DirectoryError::Refused(why));
        }
        replies
    }

    fn forget(&mut self) {
        self.wires.clear();
        self.course.forget();
    }

    /// Sends each master its part. Those that could be sent to.
    fn send(&mut self, steps: Vec<Step>, call: &mut Call, deadline: Deadline) -> Groups {
        let mut groups = Groups::new();
        for step in steps {
            let slot = call.orders[step.order].slot;
            let place = step.asked.clone().map_or_else(|| self.course.place(slot), Ok);
            match place {
                Ok(place) => groups.entry(place).or_default().push(step),
                Err(fault) => call.fail([step], &fault),
            }
        }
        let count = groups.len();
        let mut sent = Groups::new();
        for (at, (place, group)) in groups.into_iter().enumerate() {
            let mut packed = Vec::new();
            for step in &group {
                if step.asked.is_some() {
                    pack(&mut packed, &[b"ASKING"]);
                }
                packed.extend_from_slice(&call.orders[step.order].packed);
            }
            // Where there are several, time is left to hear those that were sent to.
            let parts = if count == 1 { 1 } else { 2 * count - at };
            let deadline = deadline.share(parts);
            match self.wire(&place, deadline).and_then(|wire| wire.send(&packed, deadline)) {
                Ok(()) => drop(sent.insert(place, group)),
                Err(fault) => {
                    self.lose(&place);
                    call.fail(group, &fault);
                }
            }
        }
        sent
    }

    /// Takes the replies of one master.
    fn receive(&mut self, place: &HostPort, group: Vec<Step>, call: &mut Call, deadline: Deadline) {
        let mut wire = self.wires.remove(place).expect("it was sent to");
        wire.wait(deadline);
        let mut unknown = Vec::new();
        let mut group = group.into_iter();
        let failed = group.by_ref().find_map(|step| {
            let order = step.order;
            let fault = self.hear(&mut wire, step, call, &mut unknown).err()?;
            call.replies[order] = Err(fault.clone());
            Some(fault)
        });
        let failed = failed.or_else(|| teach(&mut wire, &unknown, call.orders, deadline).err());
        match failed {
            None => {
                call.again.append(&mut unknown);
                self.wires.insert(place.clone(), wire);
            }
            Some(fault) => {
                self.lose(place);
                call.fail(group.chain(unknown), &fault);
            }
        }
    }

    /// Takes one reply. A fault is one of the connection.
    fn hear(
        &mut self,
        wire: &mut Wire,
        step: Step,
        call: &mut Call,
        unknown: &mut Vec<Step>,
    ) -> Result<(), DirectoryError> {
        let asking = if step.asked.is_some() { wire.receive()? } else { Value::Okay };
        let reply = wire.receive()?;
        let (Value::ServerError(error), Value::Okay) = (&reply, &asking) else {
            call.replies[step.order] = reply::done(asking).and_then(|_| reply::done(reply));
            return Ok(());
        };
        match (error.kind(), call.orders[step.order].script) {
            (Some(ServerErrorKind::Moved), _) => {
                let (slot, to) = redirection(error.details(), wire.place())?;
                self.course.moved(slot, to)?;
                call.again.push(Step { asked: None, ..step });
            }
            (Some(ServerErrorKind::Ask), _) => {
                let (_, to) = redirection(error.details(), wire.place())?;
                call.again.push(Step { asked: Some(to), ..step });
            }
            (Some(ServerErrorKind::NoScript), Some(_)) => unknown.push(step),
            _ => {
                self.course.doubt();
                call.replies[step.order] = Err(refusal(error));
            }
        }
        Ok(())
    }

    /// Drops the connection there, and doubts what was known.
    fn lose(&mut self, place: &HostPort) {
        self.wires.remove(place);
        self.course.doubt();
    }

    /// The connection there, made where there is none.
    fn wire(&mut self, place: &HostPort, deadline: Deadline) -> Result<&mut Wire, DirectoryError> {
        if !self.wires.contains_key(place) {
            let mut wire = Wire::open(place, &self.access, deadline)?;
            if self.course.kind() == RedisKind::Sentinel {
                is_master(&mut wire, deadline)?;
            }
            self.wires.insert(place.clone(), wire);
        }
        Ok(self.wires.get_mut(place).expect("it is there now"))
    }
}

/// Gives a server the scripts that it did not know.
fn teach(
    wire: &mut Wire,
    unknown: &[Step],
    orders: &[RedisCommand],
    deadline: Deadline,
) -> Result<(), DirectoryError> {
    let scripts = unknown.iter().filter_map(|step| orders[step.order].script);
    let texts: BTreeSet<&str> = scripts.map(|script| script.text).collect();
    for text in texts {
        reply::done(wire.ask(&[b"SCRIPT", b"LOAD", text.as_bytes()], deadline)?)?;
    }
    Ok(())
}

/// Fails unless the server is a master: a Sentinel's answer may be out of date, and only a master
/// is written to.
fn is_master(wire: &mut Wire, deadline: Deadline) -> Result<(), DirectoryError> {
    let role = reply::list(wire.ask(&[b"ROLE"], deadline)?)?;
    let role = reply::text(role.into_iter().next().unwrap_or_default())?;
    if role == "master" {
        return Ok(());
    }
    let place = wire.place();
    Err(DirectoryError::Unreachable(format!(
        "{place}: Sentinel names it as master, but it is a {role}"
    )))
}
