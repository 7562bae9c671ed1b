//! Bases: given to other nodes, and copied from them.
//!
//! A base is made of a log at rest, handed out in chunks for as long as somebody asks, and copied
//! by a thread of its own: the list, then every chunk that is wanted, with its checksum. An
//! interrupted copy goes on where it stopped. The log is replaced when everything has come.

use super::slot::CopyJob;
use super::{Driver, Input, Serving};
use crate::own::{kept, own_log};
use crate::turn::ClusterNotice;
use crate::wire::{CopyAnswer, CopyAsk, CopyPart, LIST_PIECE};
use base::time::Instant;
use cluster::batch::LogEnd;
use cluster::port::{Ask, LogEvent};
use cluster::wire::beat::LogRole;
use model::id::NodeId;
use nats::{Nats, NatsError};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;
use store::data::{Base, BaseList, Copying};

/// A base that nobody asks for goes after so long.
const UNUSED: Duration = Duration::from_secs(60);

/// A stream is not purged while a base is copied, and so long after: whoever copied it goes on in
/// the stream behind it ...
const JOINS: Duration = Duration::from_secs(5);

/// ... up to this many bytes of the stream.
const JOINS_BYTES_MAX: u64 = 256 << 20;

/// Longest wait for a part of a base.
const PART: Duration = Duration::from_secs(3);

/// Parts that do not come, one after the other, until a copy is given up.
const MISSES_MAX: u32 = 20;

/// A base that is being made is asked for so often, for ten minutes.
const WAIT: Duration = Duration::from_millis(200);
const WAITS_MAX: u32 = 3_000;

/// Longest list, bytes: of a base of some 16 TB.
const LIST_BYTES_MAX: u64 = 256 << 20;

/// A base that is handed out.
pub(crate) struct Given {
    log: u16,
    /// The base; `None`: it is being made.
    base: Option<Arc<Base>>,
    list: Vec<u8>,
    /// Whether the list was handed out.
    is_listed: bool,
    used: Instant,
}

impl Given {
    /// Whether it is of no use to a node whose log ends here: it was copied before, and the stream
    /// has begun behind it meanwhile.
    fn is_stale(&self, end: (u32, u64)) -> bool {
        let at = self.base.as_ref().map(|base| &base.list().at);
        self.is_listed && at.is_some_and(|at| (at.epoch, at.index) <= end)
    }
}

/// A step of a copy, from its thread.
pub(crate) struct CopyEnd {
    log: u16,
    life: u32,
    from: NodeId,
    step: Result<CopyStep, String>,
}

enum CopyStep {
    Listed(Vec<u8>),
    Whole(Box<Copying>),
}

impl Driver {
    /// Another node asks for a part of a base.
    pub(super) fn give_copy(&mut self, ask: CopyAsk, reply: String) {
        let answer = self.part_of_base(ask);
        self.nats.say(reply, None, answer.write());
    }

    fn part_of_base(&mut self, ask: CopyAsk) -> CopyAnswer {
        let now = self.clock.now();
        if usize::from(ask.log) >= self.slots.len() {
            return CopyAnswer::No;
        }
        if let CopyPart::Newer { epoch, index } = ask.part {
            self.given.retain(|given| given.log != ask.log || !given.is_stale((epoch, index)));
        }
        if !self.given.iter().any(|given| given.log == ask.log) {
            match ask.part {
                CopyPart::Newer { .. } => return self.begin_base(ask.log, now),
                _ => return CopyAnswer::No, // of a base that went: it is asked for anew
            }
        }
        let given = self.given.iter_mut().find(|given| given.log == ask.log).expect("it is there");
        given.used = now;
        let Some(base) = &given.base else { return CopyAnswer::Wait };
        let from = match ask.part {
            CopyPart::Chunk { file, chunk } => {
                return match base.chunk(file, chunk) {
                    Ok(bytes) => CopyAnswer::Bytes { total: bytes.len() as u64, bytes },
                    Err(_) => CopyAnswer::No,
                };
            }
            CopyPart::List { from } => from,
            CopyPart::Newer { .. } => 0,
        };
        given.is_listed = true;
        let total = given.list.len() as u64;
        let from = from.min(total) as usize;
        let end = (from + LIST_PIECE).min(given.list.len());
        CopyAnswer::Bytes { total, bytes: given.list[from..end].to_vec() }
    }

    fn begin_base(&mut self, log: u16, now: Instant) -> CopyAnswer {
        let now_s = self.clock.now_s();
        match &self.serving {
            Serving::Open(logs) => {
                let (logs, to) = (Arc::clone(logs), self.to_self.clone());
                let make = move || {
                    let base = logs.base(log).map_err(|error| error.to_string());
                    drop(logs);
                    let _ = to.send(Input::Based { log, base });
                };
                let thread = Builder::new().name("holdline-base".into()).spawn(make);
                if thread.is_err() {
                    return CopyAnswer::No;
                }
            }
            Serving::Follows(_) => {
                let is_good = self.slots[usize::from(log)].copying.is_none();
                let Some(folder) = self.folder.as_mut().filter(|_| is_good) else {
                    return CopyAnswer::No;
                };
                let Ok(base) = folder.base(log, now_s) else { return CopyAnswer::No };
                let _ = self.to_self.send(Input::Based { log, base: Ok(Arc::new(base)) });
            }
            _ => return CopyAnswer::No,
        }
        let list = Vec::new();
        self.given.push(Given { log, base: None, list, is_listed: false, used: now });
        CopyAnswer::Wait
    }

    pub(super) fn based(&mut self, log: u16, base: Result<Arc<Base>, String>) {
        let now = self.clock.now();
        match base {
            Ok(base) => {
                let list = base.list().write();
                let given = self.given.iter_mut().find(|given| given.log == log);
                if let Some(given) = given {
                    (given.base, given.list, given.used) = (Some(base), list, now);
                }
            }
            Err(why) => {
                self.given.retain(|given| given.log != log);
                self.notice(ClusterNotice::Nats(format!("no copy of log {log}: {why}")));
            }
        }
    }

    /// Whether the stream of a log has to keep what is behind a base that is copied.
    pub(super) fn is_copied(&self, log: u16) -> bool {
        let now = self.clock.now();
        let is_used = |it: &Given| it.log == log && now.since(it.used) < JOINS;
        self.given.iter().any(is_used)
            && self.slots[usize::from(log)].stream_bytes < JOINS_BYTES_MAX
    }

    pub(super) fn drop_bases(&mut self, now: Instant) {
        // One that is being made has its thread to end it.
        self.given.retain(|it| it.base.is_none() || now.since(it.used) < UNUSED);
    }

    /// The machine of a log wants another node's.
    pub(super) fn begin_copy(&mut self, log: u16, asked: Option<(Ask, LogEnd)>, from: NodeId) {
        let before = self.engine(log).map(|engine| engine.acknowledged()).unwrap_or_default();
        let slot = &mut self.slots[usize::from(log)];
        let life = slot.life;
        let ask = asked.map(|(ask, _)| ask);
        let least = asked.map_or((0, 0), |(_, have)| have.progress());
        slot.copying = Some(CopyJob { ask, least, before });
        if ask.is_some() {
            let why = "it lacks what the stream has no more".to_owned();
            self.notice(ClusterNotice::CopiesAnew { log, why });
        }
        let (nats, subject) = (Arc::clone(&self.nats), self.names.copy(from));
        self.copy_thread((log, life, from), move || {
            copy_list(&nats, &subject, log, least).map(CopyStep::Listed)
        });
    }

    /// Copies a log that is of no use here from whoever leads it, or has most of it.
    pub(super) fn copy_wreck(&mut self, log: u16, now: Instant) {
        let me = self.me.node;
        let lately = |at: Instant| now.since(at) < Duration::from_secs(3);
        let peers = self
            .peers
            .logs(log)
            .filter(|(node, at, told)| *node != me && told.role.has_copy() && lately(*at));
        let best = peers
            .max_by_key(|(_, _, told)| (told.role == LogRole::Leading, told.epoch, told.index));
        if let Some((from, _, _)) = best {
            self.begin_copy(log, None, from);
        }
    }

    fn copy_thread(
        &mut self,
        (log, life, from): (u16, u32, NodeId),
        work: impl FnOnce() -> Result<CopyStep, String> + Send + 'static,
    ) {
        let to = self.to_self.clone();
        let run = move || {
            let step = work();
            let _ = to.send(Input::Copy(CopyEnd { log, life, from, step }));
        };
        if let Err(error) = Builder::new().name("holdline-copy".into()).spawn(run) {
            let step = Err(error.to_string());
            let _ = self.to_self.send(Input::Copy(CopyEnd { log, life, from, step }));
        }
    }

    pub(super) fn copy_went_on(&mut self, end: CopyEnd) {
        let CopyEnd { log, life, from, step } = end;
        let slot = &self.slots[usize::from(log)];
        let Some(job) = slot.copying.as_ref().filter(|_| slot.life == life) else { return };
        match step {
            Ok(CopyStep::Listed(list)) if ends_before(&list, job.least) => {
                self.copy_failed(log, "the other node's log ends before the one here".into());
            }
            Ok(CopyStep::Listed(list)) => self.copy_chunks((log, life, from), &list),
            Ok(CopyStep::Whole(copying)) => self.install(log, *copying),
            Err(why) => self.copy_failed(log, why),
        }
    }

    fn copy_chunks(&mut self, (log, life, from): (u16, u32, NodeId), list: &[u8]) {
        let Some(folder) = self.folder.as_mut() else { return };
        let copying = match folder.copy(log, list) {
            Ok(copying) => copying,
            Err(error) => return self.copy_failed(log, error.to_string()),
        };
        let (nats, subject) = (Arc::clone(&self.nats), self.names.copy(from));
        self.copy_thread((log, life, from), move || {
            let mut copying = Box::new(copying);
            copy_all(&nats, &subject, log, &mut copying).map(|()| CopyStep::Whole(copying))
        });
    }

    fn install(&mut self, log: u16, copying: Copying) {
        let bytes = copying.list().files.iter().map(|file| file.bytes).sum();
        let Some(folder) = self.folder.as_mut() else { return };
        let own = match folder.install(log, copying) {
            Ok(engine) => {
                let before = self.slots[usize::from(log)].copying.as_ref().map(|it| it.before);
                (own_log(engine), kept(engine, before.unwrap_or_default()))
            }
            Err(error) => {
                self.slots[usize::from(log)].copying = None;
                return self.open_failed(log, &error);
            }
        };
        self.notice(ClusterNotice::Copied { log, bytes });
        let slot = &mut self.slots[usize::from(log)];
        slot.wreck = None;
        match slot.copying.take().and_then(|job| job.ask) {
            Some(ask) => self.event(log, LogEvent::Copied { ask, log: Some(own) }),
            None => self.make_machine(log),
        }
    }

    /// The log is as it was, or still a wreck: it is tried again.
    fn copy_failed(&mut self, log: u16, why: String) {
        let job = self.slots[usize::from(log)].copying.take();
        self.notice(ClusterNotice::Nats(format!("log {log} could not be copied: {why}")));
        let Some(ask) = job.and_then(|job| job.ask) else { return };
        let Some(folder) = self.folder.as_mut() else { return };
        if folder.engine(log).is_none()
            && let Err(error) = folder.open(log, None)
        {
            return self.open_failed(log, &error);
        }
        self.event(log, LogEvent::Copied { ask, log: None });
    }
}

/// Asks for a part until it comes.
fn part(nats: &Nats, subject: &str, ask: CopyAsk) -> Result<(u64, Vec<u8>), String> {
    let (mut misses, mut waits) = (0, 0);
    loop {
        let answer = nats.ask(subject.to_owned(), ask.write(), PART);
        match answer.map(|bytes| CopyAnswer::read(&bytes)) {
            Ok(Some(CopyAnswer::Bytes { total, bytes })) => return Ok((total, bytes)),
            Ok(Some(CopyAnswer::Wait)) if waits < WAITS_MAX => {
                waits += 1;
                std::thread::sleep(WAIT);
            }
            Err(NatsError::Silent) if misses < MISSES_MAX => {
                misses += 1;
                // The other node may be away, which is told at once.
                std::thread::sleep(Duration::from_millis(500));
            }
            Ok(Some(CopyAnswer::Wait)) => return Err("it is not made".into()),
            Ok(Some(CopyAnswer::No)) => return Err("the other node has none".into()),
            Ok(None) => return Err("an answer that makes no sense".into()),
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Whether the base of a list ends before this.
fn ends_before(list: &[u8], least: (u32, u64)) -> bool {
    BaseList::read(list).is_none_or(|list| (list.at.epoch, list.at.index) < least)
}

/// The list of a base, of one that ends behind what is here if there is one.
fn copy_list(
    nats: &Nats,
    subject: &str,
    log: u16,
    (epoch, index): (u32, u64),
) -> Result<Vec<u8>, String> {
    let mut list = Vec::new();
    loop {
        let ask = match list.len() as u64 {
            0 => CopyPart::Newer { epoch, index },
            from => CopyPart::List { from },
        };
        let (total, bytes) = part(nats, subject, CopyAsk { log, part: ask })?;
        list.extend_from_slice(&bytes);
        let length = list.len() as u64;
        if total > LIST_BYTES_MAX || length > total || (bytes.is_empty() && length < total) {
            return Err("a list that makes no sense".into());
        }
        if length == total {
            return match BaseList::read(&list) {
                Some(_) => Ok(list),
                None => Err("a list that changed on its way".into()),
            };
        }
    }
}

fn copy_all(nats: &Nats, subject: &str, log: u16, copying: &mut Copying) -> Result<(), String> {
    let mut damaged = 0;
    while let Some((file, chunk)) = { copying.wanted().next() } {
        let ask = CopyAsk { log, part: CopyPart::Chunk { file, chunk } };
        let (_, bytes) = part(nats, subject, ask)?;
        match copying.put(file, chunk, &bytes) {
            Ok(true) => {}
            Ok(false) if damaged < MISSES_MAX => damaged += 1,
            Ok(false) => return Err("chunks that changed on their way".into()),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}
