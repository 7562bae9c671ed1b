//! Owners of names: an account book that tests write.

use model::id::ShardId;
use model::ports::access::{Access, Admission, Grant, GrantedAccount, NameOwner, Question, Who};
use model::service::ServiceKind;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

#[derive(Default)]
pub struct Names {
    owners: Mutex<BTreeMap<String, NameOwner>>,
    version: AtomicU64,
}

impl Names {
    /// Gives a name to an owner, or to none, from now on.
    pub fn give(&self, name: &str, owner: NameOwner) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.insert(name.into(), owner);
        self.version.fetch_add(1, Ordering::Relaxed);
    }
}

impl Access for Names {
    fn admit(&self, _: u32, question: &Question) -> Admission {
        let user = question.user.as_deref();
        let uid = |user| match self.owner(user) {
            NameOwner::Account(uid) => Some(uid),
            _ => None,
        };
        let account = user.and_then(uid).map(|uid| GrantedAccount { uid, epoch: 1 });
        Admission::Granted(Grant { user: user.map(Into::into), account, ..Grant::OPEN }, None)
    }

    fn renew(&self, _: &Who<'_>) -> Option<Grant> {
        None
    }

    fn owner(&self, user: &str) -> NameOwner {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.get(user).copied().unwrap_or(NameOwner::Unknown)
    }

    fn is_removed(&self, user: &str, uid: u64) -> bool {
        self.owner(user) != NameOwner::Account(uid)
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    fn renewed(&self, _: (ServiceKind, ShardId), _: u64) {}
}
