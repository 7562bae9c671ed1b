//! Answers of the hub about pushes for devices of accounts.
//!
//! The hub answers on a shard's thread, which must not block on a mailbox: a thread takes over the
//! answers from there. Invariant: each is passed on once.

use super::NotifiedReply;
use model::ports::control;
use model::ports::notifications::Notified;
use model::ports::pushes::PushAnswer;
use model::push::{Outcome, Rejection};
use std::sync::{Condvar, Mutex, PoisonError};

/// Answers of the hub, on their way to those who wait: a shard that answers waits for no mailbox.
#[derive(Default)]
pub(super) struct HubAnswers {
    waiting: Mutex<(Vec<(NotifiedReply, Notified)>, bool)>,
    came: Condvar,
}

impl HubAnswers {
    pub(super) fn put(&self, reply: NotifiedReply, what: Notified) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.0.push((reply, what));
        drop(waiting);
        self.came.notify_one();
    }

    pub(super) fn run(&self) {
        loop {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            while waiting.0.is_empty() && !waiting.1 {
                waiting = self.came.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            let (all, is_over) = (std::mem::take(&mut waiting.0), waiting.1);
            drop(waiting);
            all.into_iter().for_each(|(reply, what)| reply(what));
            if is_over {
                return;
            }
        }
    }

    pub(super) fn end(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.came.notify_all();
    }
}

/// Meaning of the hub's answer.
pub(super) fn of_hub(answer: control::Answer) -> Notified {
    let control::Answer::Push(answer) = answer else { return Notified::Later { rest_ms: 0 } };
    let outcomes = match answer {
        PushAnswer::Pushed { outcomes, .. } => outcomes,
        PushAnswer::UnknownProduct => return Notified::Refused,
        _ => return Notified::Later { rest_ms: 0 },
    };
    let of = |outcome: &Outcome| match outcome {
        Outcome::Rejected(Rejection::Busy | Rejection::StoreFull | Rejection::StoreFailed) => 2,
        Outcome::Rejected(Rejection::UnknownDevice) => 1,
        _ => 0,
    };
    if outcomes.iter().any(|(_, outcome)| of(outcome) == 2) {
        return Notified::Later { rest_ms: 0 };
    }
    let gone = outcomes.iter().filter(|(_, outcome)| of(outcome) == 1);
    Notified::Taken { gone: gone.map(|(device, _)| device.as_str().into()).collect() }
}
