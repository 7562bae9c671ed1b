//! The application's belief about one value of a device, from the answers that it got.
//!
//! Orders about a device are carried out in the order in which they were asked. One that was
//! refused changed nothing, unless the log had failed: then nobody knows, as of one that had no
//! answer when the server died.

use model::id::DeviceId;
use model::ports::control::Answer;
use model::ports::pushes::PushAnswer;
use std::fmt::Debug;

/// Possible values of one thing.
#[derive(Clone, Debug)]
pub(super) struct Belief<T> {
    /// Value that was answered, or seen.
    certain: Option<T>,
    /// Asked for, by the question's number.
    open: Vec<(u64, T)>,
    /// Refused by the store since something was certain.
    refused: Vec<T>,
    /// Perhaps done.
    possible: Vec<T>,
}

impl<T> Default for Belief<T> {
    fn default() -> Self {
        Belief { certain: None, open: Vec::new(), refused: Vec::new(), possible: Vec::new() }
    }
}

impl<T: Clone + PartialEq + Debug + Default> Belief<T> {
    /// Notes a request for this value.
    pub fn ask(&mut self, number: u64, value: T) {
        self.open.push((number, value));
    }

    /// The answer to a question.
    pub fn told(&mut self, number: u64, answer: &Answer) {
        let Some(at) = self.open.iter().position(|(open, _)| *open == number) else { return };
        match answer {
            Answer::Push(PushAnswer::Done(true)) => {
                self.certain = self.open.drain(..=at).next_back().map(|(_, value)| value);
                self.refused.clear();
                self.possible.clear();
            }
            Answer::Push(PushAnswer::StoreFailed) => self.refused.push(self.open.remove(at).1),
            _ => drop(self.open.remove(at)),
        }
    }

    /// The server dies: whatever is asked may have been done or not, and so may what was refused
    /// by a log that had `failed`.
    pub fn doubt(&mut self, failed: bool) {
        self.possible.extend(self.open.drain(..).map(|(_, value)| value));
        let refused = self.refused.drain(..);
        self.possible.extend(refused.filter(|_| failed));
    }

    /// Whether it is certainly so.
    pub fn is(&self, value: &T) -> bool {
        self.certain.as_ref() == Some(value) && self.possible.is_empty() && self.open.is_empty()
    }

    /// The value is seen, or there is no record of the device. Panics when that cannot be.
    pub fn see(&mut self, device: &DeviceId, value: Option<T>) {
        let seen = value.unwrap_or_default();
        let usual = self.certain.clone().unwrap_or_default();
        let mut may_be = self.possible.iter().chain(self.open.iter().map(|(_, value)| value));
        let fits = seen == usual || may_be.any(|value| *value == seen);
        assert!(fits, "{device} has {seen:?} where the application believes {self:?}");
        self.possible.clear();
        self.certain = Some(seen);
    }
}
