//! The book at access control: accounts that are put, taken out, and looked up.
//!
//! Memory has the known accounts and their rights (`people.rs`); the rest of an account is read
//! when its client connects, and cached for a while. Invariant: data of an account that were read
//! or cached before an order ended its sessions admit no client.

use super::{AccessControl, Admission, Denial, Errands, GrantedAccount, RENEWING};
use crate::accounts::Account;
use crate::book::{EVERYBODY, RowMark, UserEntry};
use crate::cache::CacheKey;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Times that an account is read which changes while it is read.
const READS_MAX: u32 = 4;

/// Account that was looked up.
#[derive(Default)]
pub(super) struct Person {
    pub(super) account: Account,
    /// Of the book.
    pub(super) granted: Option<GrantedAccount>,
}

impl AccessControl {
    /// Sets the number of shards, each of whose services reports what it has [renewed].
    ///
    /// [renewed]: model::ports::access::Access::renewed
    pub fn serve(&self, shards: u16) {
        let mut renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        *renewed = vec![[0; RENEWING.len()]; usize::from(shards)];
    }

    /// An account as its row has it at a start; [`Self::restored`] when it was the last.
    pub fn restore(&self, name: &str, mark: RowMark) {
        self.people_mut().restore(name, mark);
    }

    /// All accounts were restored.
    pub fn restored(&self) {
        let mut people = self.people_mut();
        people.compile();
        self.rise();
    }

    /// Whether one more account's sessions may be ended now. False: too many were, and shards still
    /// look at theirs.
    pub fn may_end(&self) -> bool {
        let renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        let renewed = renewed.iter().flatten().copied().min().unwrap_or(u64::MAX);
        let mut people = self.people_mut();
        let may = people.may_end(renewed);
        if may == Some(true) {
            self.forgotten.fetch_add(1, Ordering::AcqRel);
        }
        may.is_some()
    }

    /// Changes or adds an account of the book, which is on stable storage. `ends`: sessions that
    /// began before have ended.
    pub fn put(&self, name: &str, entry: UserEntry, ends: bool) {
        let mut people = self.people_mut();
        let at = self.rise();
        people.put(name, &entry, ends, at);
        if name != EVERYBODY {
            self.remember(name, Arc::new(entry), people.settings.users_cached_max);
        }
    }

    /// Changes or adds several, as [`Self::put`] does one.
    pub fn put_all(&self, entries: Vec<(String, UserEntry, bool)>) {
        let mut people = self.people_mut();
        let at = self.rise();
        for (name, entry, ends) in entries {
            people.put(&name, &entry, ends, at);
            self.remember(&name, Arc::new(entry), people.settings.users_cached_max);
        }
    }

    /// Removes an account, which was deleted from stable storage. False if it did not exist.
    pub fn remove(&self, name: &str) -> bool {
        let mut people = self.people_mut();
        let at = self.rise();
        people.remove(name, at)
    }

    /// How many accounts the book has.
    pub fn count(&self) -> usize {
        self.people().count()
    }

    /// Whether the book has an account of this name, or one whose name has the same hash.
    pub fn may_have(&self, name: &str) -> bool {
        self.people().standing(name).is_some()
    }

    /// Whether a name is taken by an account, or has rules of its own: such a name cannot be
    /// registered.
    pub fn is_spoken_for(&self, name: &str) -> bool {
        let people = self.people();
        let has_lines =
            || people.files.acl.as_ref().is_some_and(|acl| acl.own(Some(name)).is_some());
        people.is_user(name) || people.is_named(name) || has_lines()
    }

    /// Whether this user administers the server: the configuration names it, or it is a superuser.
    pub fn administers(&self, name: &str) -> bool {
        let people = self.people();
        people.is_named(name) || people.standing_anywhere(name).is_super
    }

    /// Sets whether the book is complete. Until it is, the owner of an unknown name is undecided: a
    /// client with such a name has to retry.
    pub fn set_whole(&self, is_whole: bool) {
        let people = self.people_mut();
        let was_whole = self.is_whole.swap(is_whole, Ordering::AcqRel);
        // Removed users are known from now on: sessions and accounts are checked again.
        if is_whole && !was_whole {
            self.rise();
        }
        drop(people);
    }

    /// Whether the book is all there.
    pub(super) fn has_all(&self) -> bool {
        self.is_whole.load(Ordering::Acquire)
    }

    /// A user of the password file, as that has it.
    pub fn filed(&self, name: &str) -> Option<Account> {
        self.people().files.accounts.user(name).cloned()
    }

    /// The account of this name in the book, or else in the file. A prohibition in either holds.
    /// `Err` is the answer for now.
    pub(super) fn person(
        &self,
        name: &str,
        errands: &mut dyn Errands,
    ) -> Result<Option<Person>, Admission> {
        let filed = |account: Option<&Account>| {
            account.map(|account| Person { account: account.clone(), granted: None })
        };
        if self.people().standing(name).is_none() {
            let found = filed(self.people().files.accounts.user(name));
            let is_known = found.is_some() || self.has_all();
            return is_known.then_some(found).ok_or(Admission::Refused(Denial::Unavailable));
        }
        let entry = self.entry(name, errands)?;
        let people = self.people();
        let in_file = people.files.accounts.user(name);
        let Some(entry) = entry else { return Ok(filed(in_file)) };
        let mut account = entry.account.clone();
        if account.kept.hash.is_none()
            && let Some(in_file) = in_file
        {
            account.kept = in_file.kept.clone();
        }
        // What it was remembered with may be older.
        let standing = people.standing_anywhere(name);
        (account.is_super, account.is_disabled) = (standing.is_super, standing.is_disabled);
        Ok(Some(Person { account, granted: Some(entry.granted()) }))
    }

    /// An account, remembered or read.
    pub(super) fn entry(
        &self,
        name: &str,
        errands: &mut dyn Errands,
    ) -> Result<Option<Arc<UserEntry>>, Admission> {
        let remembered = self.entries().find(0, &self.entry_key(name));
        let holds = |entry: &UserEntry| self.people().holds(name, Some(entry.granted()));
        if let Some(entry) = remembered.filter(|entry| holds(entry)) {
            return Ok(Some(entry));
        }
        for _ in 0..READS_MAX {
            let before = self.forgotten.load(Ordering::Acquire);
            let entry = match errands.entry(name) {
                None => return Err(Admission::Later),
                Some(Err(_)) => break,
                Some(Ok(None)) => return Ok(None),
                Some(Ok(Some(entry))) => Arc::new(entry),
            };
            // No writer changes the account from here until it is cached.
            let people = self.people();
            if people.standing(name).is_none() {
                return Ok(None);
            }
            if people.holds(name, Some(entry.granted()))
                && self.forgotten.load(Ordering::Acquire) == before
            {
                self.remember(name, entry.clone(), people.settings.users_cached_max);
                return Ok(Some(entry));
            }
        }
        Err(Admission::Refused(Denial::Unavailable))
    }

    fn remember(&self, name: &str, entry: Arc<UserEntry>, count_max: u32) {
        self.entries().put(count_max, self.entry_key(name), u32::MAX, entry);
    }

    fn entry_key(&self, name: &str) -> CacheKey {
        self.key(&[b"entry", name.as_bytes()])
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NOW_S, access_control, hashing_thread, put, question, word};
    use super::*;
    use crate::http::{NoVerdict, ServiceVerdict};
    use crate::settings::Settings;
    use crate::{NotRead, PeopleFiles};
    use model::id::ShardId;
    use model::ports::access::{Access, LdapVerdict, NameOwner};
    use model::service::ServiceKind;

    /// A thread that reads rows one after the other, and counts them.
    struct Reader {
        rows: Vec<Result<Option<UserEntry>, NotRead>>,
        reads: usize,
    }

    impl Reader {
        fn of(rows: Vec<Result<Option<UserEntry>, NotRead>>) -> Reader {
            Reader { rows, reads: 0 }
        }
    }

    impl Errands for Reader {
        fn may_hash(&self) -> bool {
            true
        }

        fn ask(&mut self, _: &str) -> Option<Result<ServiceVerdict, NoVerdict>> {
            None
        }

        fn look_up(&mut self, _: &str, _: &[u8]) -> Option<Result<LdapVerdict, NoVerdict>> {
            None
        }

        fn fetch_keys(&mut self) -> Option<bool> {
            None
        }

        fn entry(&mut self, _: &str) -> Option<Result<Option<UserEntry>, NotRead>> {
            self.reads += 1;
            Some(self.rows[(self.reads - 1).min(self.rows.len() - 1)].clone())
        }
    }

    /// `ann` with this epoch and plain password.
    fn ann(epoch: u64, password: &str) -> UserEntry {
        let hash = crate::passwords::StoredHash::parse(&format!("$plain${password}"));
        let mut entry = UserEntry { epoch, ..UserEntry::new(7) };
        entry.account.kept.hash = Some(hash.expect("a hash"));
        entry
    }

    fn restored(settings: Settings) -> AccessControl {
        let access_control = AccessControl::new(settings, PeopleFiles::default(), [1; 32]);
        access_control.restore("ann", ann(1, "old").mark());
        access_control.restored();
        access_control
    }

    fn granted(admission: Admission) -> Option<GrantedAccount> {
        match admission {
            Admission::Granted(grant, _) => grant.account,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_account_is_read_when_somebody_comes_and_remembered() {
        let access_control = restored(Settings::default());
        let asked = question(Some("ann"), Some("old"));
        assert_eq!(word(access_control.admit(NOW_S, &asked)), "later");
        let mut thread = Reader::of(vec![Ok(Some(ann(1, "old")))]);
        let first = access_control.resolve(NOW_S, &asked, &mut thread);
        assert_eq!(granted(first), Some(GrantedAccount { uid: 7, epoch: 1 }));
        assert_eq!((word(access_control.admit(NOW_S, &asked)), thread.reads), ("ann".into(), 1));
        let nobody = question(Some("bob"), Some("old"));
        assert_eq!(word(access_control.admit(NOW_S, &nobody)), "BadCredentials", "not looked for");
        // One that nothing is remembered of is read each time.
        let access_control = restored(Settings { users_cached_max: 0, ..Settings::default() });
        access_control.resolve(NOW_S, &asked, &mut thread);
        assert_eq!(word(access_control.admit(NOW_S, &asked)), "later");
    }

    #[test]
    fn a_log_that_does_not_answer_is_no_wrong_password() {
        let access_control = restored(Settings::default());
        let asked = question(Some("ann"), Some("guess"));
        let mut thread = Reader::of(vec![Err(NotRead)]);
        assert_eq!(word(access_control.resolve(NOW_S, &asked, &mut thread)), "Unavailable");
        let mut thread = Reader::of(vec![Ok(None)]);
        assert_eq!(word(access_control.resolve(NOW_S, &asked, &mut thread)), "BadCredentials");
    }

    #[test]
    fn a_book_that_is_not_all_there_calls_nobody_a_stranger() {
        let access_control = restored(Settings::default());
        let mut thread = Reader::of(vec![Ok(Some(ann(1, "old")))]);
        let mut come = |name, password| {
            let asked = question(Some(name), Some(password));
            word(access_control.resolve(NOW_S, &asked, &mut thread))
        };
        assert_eq!(come("bob", "x"), "BadCredentials");
        access_control.set_whole(false);
        assert_eq!((come("bob", "x"), come("ann", "old")), ("Unavailable".into(), "ann".into()));
        assert_eq!(come("ann", "guess"), "BadCredentials", "she is there");
        access_control.set_whole(true);
        assert_eq!(come("bob", "x"), "BadCredentials");
    }

    #[test]
    fn an_account_is_removed_when_its_name_is_nobodys_or_anothers() {
        let access_control = restored(Settings::default());
        let removed = |name, uid| access_control.is_removed(name, uid);
        let NameOwner::Account(uid) = access_control.owner("ann") else {
            panic!("ann has an account");
        };
        assert!(!removed("ann", uid) && removed("ann", uid + 1) && removed("bob", uid));
        access_control.set_whole(false);
        assert!(!removed("bob", uid), "bob's account may be there, and is not known yet");
        assert!(removed("ann", uid + 1), "the name is another's for certain");
        access_control.set_whole(true);
        access_control.remove("ann");
        assert!(removed("ann", uid));
    }

    #[test]
    fn a_row_that_was_changed_while_it_was_read_is_read_again() {
        let access_control = restored(Settings { users_cached_max: 0, ..Settings::default() });
        access_control.put("ann", ann(2, "new"), true);
        let old = || Ok(Some(ann(1, "old")));
        let asked = question(Some("ann"), Some("old"));
        // Once for the password; nobody gets in by what was read first.
        let mut thread = Reader::of(vec![old(), Ok(Some(ann(2, "new")))]);
        let answer = access_control.resolve(NOW_S, &asked, &mut thread);
        assert_eq!((word(answer), thread.reads), ("BadCredentials".into(), 2));
        let mut thread = Reader::of(vec![old()]);
        assert_eq!(word(access_control.resolve(NOW_S, &asked, &mut thread)), "Unavailable");
    }

    #[test]
    fn a_raised_epoch_ends_older_sessions_and_what_was_remembered() {
        let access_control = access_control(Settings::default(), None);
        let asked = |password| question(Some("eve"), Some(password));
        put(&access_control, "eve", Some("old"), |_| {});
        let come =
            |password| access_control.resolve(NOW_S, &asked(password), &mut hashing_thread());
        let first = granted(come("old"));
        assert!(access_control.holds("eve", first) && first.is_some());
        put(&access_control, "eve", None, |order| order.is_super = Some(true));
        assert!(access_control.holds("eve", first), "this is no reason to end");
        put(&access_control, "eve", Some("new"), |_| {});
        assert!(!access_control.holds("eve", first));
        assert_eq!(word(come("old")), "BadCredentials");
        let second = granted(come("new"));
        assert!(access_control.holds("eve", second));
        assert!(access_control.remove("eve") && !access_control.holds("eve", second));
        put(&access_control, "eve", Some("new"), |_| {});
        let third = granted(come("new"));
        assert!(access_control.holds("eve", third) && !access_control.holds("eve", second));
        assert_ne!(third.map(|held| held.uid), second.map(|held| held.uid));
        // Who came before there was an account ends with its sessions, and no sooner.
        assert!(access_control.holds("bob", None));
        put(&access_control, "bob", Some("x"), |_| {});
        assert!(access_control.holds("bob", None));
        put(&access_control, "bob", Some("y"), |_| {});
        assert!(!access_control.holds("bob", None));
        access_control.remove("bob");
        assert!(access_control.holds("bob", None), "it is the file's again");
    }

    #[test]
    fn what_all_shards_have_looked_at_is_forgotten() {
        let access_control = access_control(Settings::default(), None);
        access_control.serve(2);
        assert!(access_control.may_end());
        access_control.renewed((ServiceKind::Topics, ShardId(0)), 5);
        access_control.renewed((ServiceKind::Chat, ShardId(1)), 6);
        access_control.renewed((ServiceKind::Topics, ShardId(9)), 5);
        access_control.renewed((ServiceKind::Push, ShardId(0)), 5);
        assert_eq!(*access_control.renewed.lock().expect("nobody panics"), [[5, 0], [0, 6]]);
        assert_eq!(access_control.forgotten.load(Ordering::Relaxed), 0);
    }
}
