//! Principals of sessions: user, account and rules, held once for all sessions that share them.
//!
//! Number 0 is the principal of all sessions without a user, with every right. A number lives while
//! a session has it.

use model::ports::access::{Act, Grant, GrantedAccount, Reach, Rules, Who};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A user with its rules.
#[derive(Clone, Default, Debug)]
pub(crate) struct Principal {
    pub user: Option<Arc<str>>,
    pub rules: Option<Arc<dyn Rules>>,
    /// Its account as it was granted; absent: none of the book.
    pub account: Option<GrantedAccount>,
}

/// Key by which principals are shared: name, account, and the address of the rules.
type Shape = (Option<Arc<str>>, Option<GrantedAccount>, usize);

struct Held {
    principal: Principal,
    count: u64,
}

/// All principals of a shard.
pub(crate) struct Principals {
    held: Vec<Held>,
    free: Vec<u32>,
    numbers: BTreeMap<Shape, u32>,
}

impl Default for Principals {
    fn default() -> Principals {
        let everybody = Held { principal: Principal::default(), count: 1 };
        let numbers = BTreeMap::from([((None, None, 0), 0)]);
        Principals { held: vec![everybody], free: Vec::new(), numbers }
    }
}

impl Principals {
    /// The number of the principal with this grant, counted once more.
    pub fn hold(&mut self, grant: &Grant) -> u32 {
        let principal = Principal::of(grant);
        let number =
            *self.numbers.entry(principal.shape()).or_insert_with(|| match self.free.pop() {
                Some(number) => number,
                None => {
                    self.held.push(Held { principal: Principal::default(), count: 0 });
                    (self.held.len() - 1) as u32
                }
            });
        let held = &mut self.held[number as usize];
        if held.count == 0 {
            held.principal = principal;
        }
        held.count += 1;
        number
    }

    /// Counts one more session without a user.
    pub fn hold_everybody(&mut self) {
        self.held[0].count += 1;
    }

    /// Counts one session fewer with this number; true if the number is free now, and may be given
    /// again.
    pub fn let_go(&mut self, number: u32) -> bool {
        let held = &mut self.held[number as usize];
        held.count -= 1;
        if held.count == 0 {
            self.numbers.remove(&std::mem::take(&mut held.principal).shape());
            self.free.push(number);
        }
        held.count == 0
    }

    pub fn at(&self, number: u32) -> &Principal {
        &self.held[number as usize].principal
    }

    /// Number of sessions with a number, except 0.
    pub fn holders(&self) -> u64 {
        self.held.iter().map(|held| held.count).sum::<u64>() - 1
    }
}

impl Principal {
    /// The principal of this grant.
    pub fn of(grant: &Grant) -> Principal {
        let Grant { user, rules, account, .. } = grant.clone();
        Principal { user, rules, account }
    }

    /// The number of its account.
    pub fn uid(&self) -> Option<u64> {
        self.account.map(|account| account.uid)
    }

    /// Whether a client with this grant may resume a session of this principal: the same name, and
    /// the same account. A session that was made before the name had an account belongs to that
    /// account.
    pub fn is_same(&self, grant: &Grant) -> bool {
        let uid = grant.account.map(|account| account.uid);
        self.user == grant.user && self.uid().is_none_or(|held| uid == Some(held))
    }

    fn shape(&self) -> Shape {
        (self.user.clone(), self.account, address(self.rules.as_ref()))
    }

    /// Whether it may do this.
    pub fn may(&self, client_id: &str, act: Act, topic: &str) -> bool {
        let who = Who { client_id, user: self.user.as_deref() };
        self.rules.as_ref().is_none_or(|rules| rules.may(&who, act, topic))
    }

    /// How far a filter reaches.
    pub fn reach(&self, client_id: &str, filter: &str) -> Reach {
        let who = Who { client_id, user: self.user.as_deref() };
        self.rules.as_ref().map_or(Reach::All, |rules| rules.reach(&who, filter))
    }
}

fn address(rules: Option<&Arc<dyn Rules>>) -> usize {
    rules.map_or(0, |rules| Arc::as_ptr(rules).cast::<()>() as usize)
}
