//! Everybody who is known, and what they may do: files and the book, compiled.
//!
//! Whoever has lines of its own has rules of its own; all others share one set, and those without
//! a name another. Rules are, in order: the user's in the book, everybody's in the book, the
//! user's in the file, the file's patterns. As soon as there is one rule anywhere, what no rule
//! speaks of is forbidden (or not, if the operator says so); without any rule everything is
//! allowed. It proves nothing and tells no time.

use crate::accounts::{Account, Accounts};
use crate::acl::AclFile;
use crate::book::{EVERYBODY, UserEntry};
use crate::rules::{List, UserRules};
use crate::settings::{ListenerPolicy, Method, Settings};
use crate::token::Keys;
use model::ports::access::{Rules, Who};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Names of removed users that are remembered until their sessions were renewed.
const GONE_MAX: usize = 65_536;

/// Client identifiers that are a user's own, if the operator says nothing of them.
const OWN: [&str; 2] = ["%u", "%u:*"];

/// Users and rules that were read from files.
#[derive(Debug, Default)]
pub struct PeopleFiles {
    /// Users and passwords.
    pub accounts: Accounts,
    /// Rules; absent: there is no such file.
    pub acl: Option<AclFile>,
    /// Keys of tokens.
    pub keys: Keys,
}

/// A listener of which nothing is said.
static CLOSED: ListenerPolicy = ListenerPolicy::CLOSED;

/// Rules as they are granted; `None`: everything.
pub(crate) type Granted = Option<Arc<dyn Rules>>;

/// Everybody who is known.
pub(crate) struct People {
    pub(crate) settings: Arc<Settings>,
    pub(crate) files: Arc<PeopleFiles>,
    book: BTreeMap<Box<str>, UserEntry>,
    /// Entries of the book with rules.
    ruled: usize,
    /// Who has lines of its own.
    compiled: HashMap<Box<str>, Arc<UserRules>>,
    /// The others; absent: they may do everything.
    strangers: Option<Arc<UserRules>>,
    anonymous: Option<Arc<UserRules>>,
    /// Who was removed, and when, by the count of changes.
    gone: HashMap<Box<str>, u64>,
    changes: u64,
}

impl People {
    pub(crate) fn new(settings: Settings, files: PeopleFiles) -> People {
        let mut people = People {
            settings: Arc::new(settings),
            files: Arc::new(files),
            book: BTreeMap::new(),
            ruled: 0,
            compiled: HashMap::new(),
            strangers: None,
            anonymous: None,
            gone: HashMap::new(),
            changes: 0,
        };
        people.compile();
        people
    }

    /// New settings and files.
    pub(crate) fn replace(&mut self, settings: Settings, files: PeopleFiles) {
        let before = std::mem::replace(&mut self.files, Arc::new(files));
        self.settings = Arc::new(settings);
        self.changes += 1;
        let lost = before.accounts.names().filter(|name| self.account(name).is_none());
        let lost: Vec<Box<str>> = lost.map(Box::from).collect();
        lost.into_iter().for_each(|name| self.went(name));
        self.compile();
    }

    /// An entry of the book, new or changed.
    pub(crate) fn put(&mut self, name: &str, entry: UserEntry) {
        let is_ruled = entry.rules.is_some();
        let before = self.book.insert(name.into(), entry);
        self.gone.remove(name);
        self.changed(name, before, is_ruled);
    }

    /// False: there was none.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let Some(before) = self.book.remove(name) else { return false };
        self.changed(name, Some(before), false);
        if self.account(name).is_none() {
            self.went(name.into());
        }
        true
    }

    /// The book.
    pub(crate) fn book(&self) -> &BTreeMap<Box<str>, UserEntry> {
        &self.book
    }

    /// Who somebody is by the book, and otherwise by the file. Whatever either forbids holds.
    pub(crate) fn account(&self, name: &str) -> Option<Account> {
        let (booked, filed) = (self.book.get(name), self.files.accounts.user(name));
        let Some(entry) = booked.filter(|_| name != EVERYBODY) else { return filed.cloned() };
        let mut account = entry.account.clone();
        if let Some(filed) = filed {
            if account.kept.hash.is_none() {
                account.kept = filed.kept.clone();
            }
            account.is_disabled |= filed.is_disabled;
            account.is_super |= filed.is_super;
        }
        Some(account)
    }

    /// Whether the operator says that somebody may do everything.
    pub(crate) fn is_super(&self, name: &str) -> bool {
        self.settings.superusers.iter().any(|other| other == name)
    }

    /// Whether somebody may have this client identifier: by the patterns, or without any unless it
    /// is another user's.
    pub(crate) fn may_be(&self, who: &Who<'_>) -> bool {
        let patterns = &self.settings.client_ids;
        match patterns.is_empty() {
            true => {
                OWN.iter().any(|pattern| names(pattern, who)) || !self.is_a_users(who.client_id)
            }
            false => patterns.iter().any(|pattern| names(pattern, who)),
        }
    }

    /// Whether a client identifier is the name of a user of the book or the file, or what stands in
    /// front of its first colon is.
    fn is_a_users(&self, client_id: &str) -> bool {
        let known = |name| {
            name != EVERYBODY
                && (self.book.contains_key(name) || self.files.accounts.user(name).is_some())
        };
        let begin = client_id.split_once(':').map(|(begin, _)| begin);
        known(client_id) || begin.is_some_and(known)
    }

    /// What somebody may do who is not above rules.
    pub(crate) fn rules(&self, user: Option<&str>) -> Granted {
        let rules = match user {
            Some(name) => self.compiled.get(name).or(self.strangers.as_ref()),
            None => self.anonymous.as_ref(),
        };
        rules.map(|rules| rules.clone() as Arc<dyn Rules>)
    }

    /// Whether a name that is not known was known and is so no more.
    pub(crate) fn is_gone(&self, name: &str) -> bool {
        self.gone.contains_key(name) || !self.settings.doors.iter().any(lets_strangers_in)
    }

    /// Whether a token or a service may say what its user may do.
    pub(crate) fn proofs_bring_rules(&self) -> bool {
        let token = self.settings.token.as_ref();
        self.settings.http_cache_s.is_some()
            || token.is_some_and(|token| !token.acl_claim.is_empty())
    }

    pub(crate) fn door(&self, number: u8) -> &ListenerPolicy {
        self.settings.doors.get(usize::from(number)).unwrap_or(&CLOSED)
    }

    fn changed(&mut self, name: &str, before: Option<UserEntry>, is_ruled: bool) {
        self.changes += 1;
        let was_ruled = before.is_some_and(|entry| entry.rules.is_some());
        self.ruled = self.ruled - usize::from(was_ruled) + usize::from(is_ruled);
        // What concerns others too is rare; the rest of the book is not gone through.
        match name == EVERYBODY && (was_ruled || is_ruled) {
            true => self.compile(),
            false => {
                self.compile_user(name);
                self.compile_others();
            }
        }
    }

    fn compile(&mut self) {
        let booked = self.book.iter().filter(|(_, entry)| entry.rules.is_some());
        let filed = self.files.acl.iter().flat_map(AclFile::users).map(Box::from);
        let names: Vec<Box<str>> = booked.map(|(name, _)| name.clone()).chain(filed).collect();
        self.compiled.clear();
        names.iter().for_each(|name| self.compile_user(name));
        self.compile_others();
    }

    fn compile_user(&mut self, name: &str) {
        let booked = self.book.get(name).and_then(|entry| entry.rules.clone());
        let filed = self.files.acl.as_ref().and_then(|acl| acl.own(Some(name)).cloned());
        if name == EVERYBODY || booked.is_none() && filed.is_none() {
            self.compiled.remove(name);
            return;
        }
        let rules = self.join(booked, filed);
        self.compiled.insert(name.into(), Arc::new(rules));
    }

    fn compile_others(&mut self) {
        let acl = self.files.acl.as_ref();
        let has_rules = acl.is_some() || self.ruled > 0;
        let unnamed = acl.and_then(|acl| acl.own(None).cloned());
        self.strangers = has_rules.then(|| Arc::new(self.join(None, None)));
        self.anonymous = has_rules.then(|| Arc::new(self.join(None, unnamed)));
    }

    fn join(&self, booked: Option<Arc<List>>, filed: Option<Arc<List>>) -> UserRules {
        let everybody = self.book.get(EVERYBODY).and_then(|entry| entry.rules.clone());
        let patterns = self.files.acl.as_ref().and_then(|acl| acl.patterns().cloned());
        let lists = [booked, everybody, filed, patterns].into_iter().flatten();
        UserRules::new(lists.collect(), self.settings.allow_unmatched)
    }

    /// Remembers that somebody is no more. The oldest half is forgotten when there are too many:
    /// by then their sessions were renewed.
    fn went(&mut self, name: Box<str>) {
        if self.gone.len() >= GONE_MAX {
            let mut when: Vec<u64> = self.gone.values().copied().collect();
            when.sort_unstable();
            let middle = when[when.len() / 2];
            self.gone.retain(|_, at| *at > middle);
        }
        self.gone.insert(name, self.changes);
    }
}

/// Whether somebody may come in by a name that neither the book nor a file knows.
fn lets_strangers_in(door: &ListenerPolicy) -> bool {
    let proves = |method| matches!(method, Method::Certificate | Method::Token | Method::Http);
    door.believe_names || door.methods.iter().copied().any(proves)
}

/// Whether a pattern of client identifiers is about this one. Nobody's name is not a name.
fn names(pattern: &str, who: &Who<'_>) -> bool {
    let (pattern, is_open) = match pattern.strip_suffix('*') {
        Some(begin) => (begin, true),
        None => (pattern, false),
    };
    let mut rest = who.client_id;
    for (at, part) in pattern.split("%u").enumerate() {
        if at > 0 {
            match who.user.and_then(|user| rest.strip_prefix(user)) {
                Some(behind) => rest = behind,
                None => return false,
            }
        }
        match rest.strip_prefix(part) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
    is_open || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn people() -> People {
        let door = ListenerPolicy { believe_names: true, ..ListenerPolicy::default() };
        People::new(Settings { doors: vec![door], ..Settings::default() }, PeopleFiles::default())
    }

    #[test]
    fn as_many_who_went_are_known_as_may_be_and_the_older_half_makes_room() {
        let mut people = people();
        let name = |number: usize| -> Box<str> { number.to_string().into() };
        let go = |people: &mut People, number| {
            people.changes += 1;
            people.went(name(number));
        };
        (0..GONE_MAX).for_each(|number| go(&mut people, number));
        assert_eq!(people.gone.len(), GONE_MAX);
        assert!(people.is_gone("0") && !people.is_gone("x"));
        go(&mut people, GONE_MAX);
        assert_eq!(people.gone.len(), GONE_MAX / 2);
        assert!(!people.is_gone(&name(GONE_MAX / 2)) && people.is_gone(&name(GONE_MAX / 2 + 1)));
        assert!(people.is_gone(&name(GONE_MAX)));
    }

    #[test]
    fn an_identifier_may_be_the_users_own_and_nothing_longer() {
        let is = |pattern: &str, client_id: &str, user| names(pattern, &Who { client_id, user });
        let ann = Some("ann");
        assert!(is("%u", "ann", ann) && is("%u-*", "ann-1", ann) && is("%u-*", "ann-", ann));
        assert!(is("x-%u-%u", "x-ann-ann", ann) && is("free", "free", None) && is("*", "", None));
        for (pattern, client_id, user) in [
            ("%u", "anna", ann),
            ("%u", "an", ann),
            ("%u-*", "ann", ann),
            ("%u-*", "bob-1", ann),
            ("x-%u-%u", "x-ann-bob", ann),
            ("%u*", "x", None),
            ("free", "freedom", None),
            ("", "x", None),
        ] {
            assert!(!is(pattern, client_id, user), "{pattern} {client_id}");
        }
    }
}
