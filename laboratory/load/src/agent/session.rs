//! An agent at work for one coordinator.
//!
//! Two threads: this one hears, and answers pings at once, since a clock cannot wait; the other
//! works, in the order of what was said. Each order has its moment, so that all agents do it
//! together. However the session ends, the clients do too.

use super::SILENCE;
use super::serve::Hands;
use super::wire::{Receiver, Sender};
use super::words::{Call, Reply};
use lab::generator::{LoadGenerator, Look};
use lab::order::Order;
use lab::run::Counts;
use lab::series::Reading;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Words that wait for the working thread, at most; more is a coordinator that does not wait.
const WAITING_MAX: usize = 256;
/// From one reading of this machine's counters to the next, at least, microseconds.
const FIGURES_EVERY_US: u64 = 900_000;
/// An order's moment is at most so far ahead; what lies further is done at once.
const DUE_MAX: Duration = Duration::from_secs(2);

/// Works until the coordinator leaves or is lost; says why it ended.
pub(super) fn work(
    hands: &Arc<dyn Hands>,
    seed: u64,
    sender: Arc<Sender>,
    receiver: &mut Receiver,
) -> String {
    let (orders, waiting) = mpsc::sync_channel(WAITING_MAX);
    let worker = {
        let (hands, sender) = (Arc::clone(hands), Arc::clone(&sender));
        let work = move || Work::new(hands, sender).run(seed, waiting);
        thread::Builder::new().name("agent-work".to_owned()).spawn(work)
    };
    let worker = match worker {
        Ok(worker) => worker,
        Err(error) => return format!("cannot start a thread: {error}"),
    };
    let end = hear(hands, &sender, receiver, &orders);
    drop(orders);
    sender.end();
    match worker.join() {
        Ok(()) => end,
        Err(_) => format!("{end}; the working thread panicked"),
    }
}

fn hear(
    hands: &Arc<dyn Hands>,
    sender: &Sender,
    receiver: &mut Receiver,
    orders: &mpsc::SyncSender<Call>,
) -> String {
    loop {
        let call = match receiver.next(SILENCE) {
            Ok(Some(Call::Leave)) => return "the coordinator left".to_owned(),
            Ok(Some(call)) => call,
            Ok(None) => return "connection closed".to_owned(),
            Err(why) => {
                // What cannot be told to it is told here.
                let _ = sender.send(&Reply::Sorry { why: why.clone() });
                return why;
            }
        };
        let heard_us = hands.wall_us();
        let answered = match call {
            Call::Ping { asked_us } => {
                sender.send(&Reply::Pong { asked_us, heard_us, told_us: hands.wall_us() })
            }
            call => orders.try_send(call).map_err(|_| {
                let why = format!("more than {WAITING_MAX} orders are queued");
                let _ = sender.send(&Reply::Sorry { why: why.clone() });
                why
            }),
        };
        if let Err(why) = answered {
            return why;
        }
    }
}

/// The working thread's own.
struct Work {
    hands: Arc<dyn Hands>,
    sender: Arc<Sender>,
    /// How far this clock is ahead of the coordinator's.
    ahead_us: i64,
    /// Counts sent so far of each group; of timings only the growth is sent.
    sent: BTreeMap<String, Counts>,
    /// When this machine's figures were read last, and what they were.
    figures: Option<(u64, Reading)>,
}

impl Work {
    fn new(hands: Arc<dyn Hands>, sender: Arc<Sender>) -> Work {
        Work { hands, sender, ahead_us: 0, sent: BTreeMap::new(), figures: None }
    }

    fn run(mut self, seed: u64, waiting: mpsc::Receiver<Call>) {
        let mut generator = self.hands.generator(seed);
        for call in waiting {
            let answer = match call {
                Call::Order { number, due_us, order } => {
                    self.wait_until(due_us);
                    let done = match &mut generator {
                        Some(generator) => generator.order(&order),
                        None => Err("it only observes".to_owned()),
                    };
                    Reply::Done { number, error: done.err() }
                }
                Call::Look { number } => {
                    Reply::Seen { number, look: Box::new(self.look(generator.as_mut())) }
                }
                Call::Examine { number, need } => {
                    Reply::Fitness { number, rows: self.hands.examine(&need) }
                }
                Call::Clock { ahead_us } => {
                    self.ahead_us = ahead_us;
                    self.hands.ahead(ahead_us);
                    continue;
                }
                Call::Prove { .. } | Call::Ping { .. } | Call::Leave => continue,
            };
            if self.sender.send(&answer).is_err() {
                // The hearing thread finds out why.
                self.sender.end();
                break;
            }
        }
        if let Some(generator) = &mut generator {
            // Nobody is there any more to hear why it could not stop; dropping it ends all.
            let _ = generator.order(&Order::Stop);
        }
    }

    /// Sleeps until the coordinator's clock says so.
    fn wait_until(&self, due_us: u64) {
        let here_us = self.hands.wall_us().saturating_add_signed(-self.ahead_us);
        let left = Duration::from_micros(due_us.saturating_sub(here_us));
        if left <= DUE_MAX {
            thread::sleep(left);
        }
    }

    fn look(&mut self, generator: Option<&mut Box<dyn LoadGenerator>>) -> Look {
        let mut look = generator.map_or(Look::default(), |generator| generator.look());
        look.reading.extend(self.figures());
        look.reading = finite(&look.reading);
        for (name, counts) in &mut look.groups {
            counts.figures.retain(|_, value| value.is_finite());
            let sent = self.sent.insert(name.clone(), counts.clone()).unwrap_or_default();
            counts.timings = counts.timings.since(&sent.timings);
        }
        look
    }

    /// This machine's figures, which are not read more often than a series has rows.
    fn figures(&mut self) -> Reading {
        let now_us = self.hands.wall_us();
        match &self.figures {
            Some((at_us, figures)) if now_us.abs_diff(*at_us) < FIGURES_EVERY_US => figures.clone(),
            _ => {
                let figures = self.hands.figures();
                self.figures = Some((now_us, figures.clone()));
                figures
            }
        }
    }
}

/// JSON has no word for what is not a number.
fn finite(reading: &Reading) -> Reading {
    let mut kept = Reading::default();
    let known = reading.iter().filter(|(_, value)| value.is_finite());
    known.for_each(|(column, value)| kept.set(column.clone(), *value));
    kept
}
