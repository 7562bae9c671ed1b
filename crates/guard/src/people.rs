//! All known users and their rights: files and the book, compiled.
//!
//! Of the book it has who is there, what they are and the rules of those who have some; passwords
//! are in the rows. A user with lines of its own has rules of its own; all other users share one
//! set, and those without a name another. Rules are, in order: the user's in the book, everybody's
//! in the book, the user's in the file, the file's patterns. As soon as there is one rule anywhere,
//! what no rule speaks of is forbidden (or not, if the operator says so); without any rule
//! everything is allowed. It proves nothing and tells no time. Invariant: what it has of an account
//! is never older than the account's row that was last answered for.

use crate::access_control::decoys::{KeyKind, KeyKinds};
use crate::access_control::known::{Known, KnownNames, Standing};
use crate::accounts::Accounts;
use crate::acl::AclFile;
use crate::book::{EVERYBODY, RowMark, UserEntry};
use crate::rules::{List, UserRules};
use crate::scram::ScramHash;
use crate::settings::{ListenerPolicy, Method, Settings};
use crate::token::Keys;
use base::hash::HashKey;
use model::ports::access::{GrantedAccount, NameOwner, Rules, Who};
use std::collections::HashMap;
use std::sync::Arc;

/// Names of removed users that are remembered until their sessions were renewed.
const GONE_MAX: usize = 65_536;

/// Accounts whose sessions were ended by order, that are remembered before those are looked for
/// whose sessions all shards have looked at again.
const ENDED_MAX: usize = 65_536;

/// The number of no account.
const NOBODY: u64 = 0;

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

/// All known users and their rights.
pub(crate) struct People {
    pub(crate) settings: Arc<Settings>,
    pub(crate) files: Arc<PeopleFiles>,
    known: KnownNames,
    /// Kinds of keys, in the book and in the file.
    kinds: KeyKinds,
    kinds_in_file: KeyKinds,
    /// Accounts of the book with rules of their own.
    ruled: HashMap<Box<str>, Arc<List>>,
    /// Rules of everybody in the book.
    everybody: Option<Arc<List>>,
    /// Accounts whose older sessions were ended, by the hash of their names.
    ended: HashMap<u64, Ended>,
    /// Users with lines of their own.
    compiled: HashMap<Box<str>, Arc<UserRules>>,
    /// The others; absent: they may do everything.
    strangers: Option<Arc<UserRules>>,
    anonymous: Option<Arc<UserRules>>,
    /// Removed users, with the count of changes at which they were removed.
    gone: HashMap<Box<str>, u64>,
    changes: u64,
}

/// Sessions that an order left to an account: those that were granted this or later.
struct Ended {
    /// [`NOBODY`]: the account is gone.
    account: GrantedAccount,
    /// The version of the rules from then on.
    at: u64,
}

impl People {
    pub(crate) fn new(settings: Settings, files: PeopleFiles, key: HashKey) -> People {
        let mut people = People {
            settings: Arc::new(settings),
            files: Arc::new(files),
            known: KnownNames::new(key),
            kinds: KeyKinds::default(),
            kinds_in_file: KeyKinds::default(),
            ruled: HashMap::new(),
            everybody: None,
            ended: HashMap::new(),
            compiled: HashMap::new(),
            strangers: None,
            anonymous: None,
            gone: HashMap::new(),
            changes: 0,
        };
        people.count_file();
        people.compile();
        people
    }

    /// New settings and files.
    pub(crate) fn replace(&mut self, settings: Settings, files: PeopleFiles) {
        let before = std::mem::replace(&mut self.files, Arc::new(files));
        self.settings = Arc::new(settings);
        self.changes += 1;
        let lost = before.accounts.names().filter(|name| !self.is_user(name));
        let lost: Vec<Box<str>> = lost.map(Box::from).collect();
        lost.into_iter().for_each(|name| self.went(name));
        self.count_file();
        self.compile();
    }

    /// The kinds of keys that the file has.
    fn count_file(&mut self) {
        let mut kinds = KeyKinds::default();
        let keys = self.files.accounts.iter().flat_map(|account| account.kept.scram.iter());
        keys.for_each(|keys| kinds.add(KeyKind::of(keys)));
        self.kinds_in_file = kinds;
    }

    /// A decoy for the keys of a name that has none; `drawn` is random and fixed for the name.
    /// `None`: nobody has keys of this hash.
    pub(crate) fn decoy(&self, hash: ScramHash, drawn: u64) -> Option<KeyKind> {
        self.kinds.draw(&self.kinds_in_file, hash, drawn)
    }

    /// An account of the book as its row has it at a start. The rules are compiled when all are
    /// there.
    pub(crate) fn restore(&mut self, name: &str, mark: RowMark) {
        match name == EVERYBODY {
            true => self.everybody = mark.rules,
            false => {
                self.known.put(name, Known { uid: mark.uid, standing: mark.standing });
                mark.kinds.into_iter().for_each(|kind| self.kinds.add(kind));
                self.ruled.extend(mark.rules.map(|rules| (name.into(), rules)));
            }
        }
    }

    /// An account of the book, new or changed. `ends`: its older sessions are over, from the
    /// version `at` on.
    pub(crate) fn put(&mut self, name: &str, entry: &UserEntry, ends: bool, at: u64) {
        self.changes += 1;
        let had_rules = self.has_rules();
        let RowMark { uid, standing, rules, kinds } = entry.mark();
        if name == EVERYBODY {
            self.everybody = rules;
            return self.compile();
        }
        self.known.put(name, Known { uid, standing });
        kinds.into_iter().for_each(|kind| self.kinds.add(kind));
        self.gone.remove(name);
        match rules {
            Some(rules) => _ = self.ruled.insert(name.into(), rules),
            None => _ = self.ruled.remove(name),
        }
        let hash = self.known.hash(name);
        if ends || self.ended.contains_key(&hash) {
            self.ended.insert(hash, Ended { account: entry.granted(), at });
        }
        self.changed(name, had_rules);
    }

    /// False: there was none. `at`: the version from then on.
    pub(crate) fn remove(&mut self, name: &str, at: u64) -> bool {
        self.changes += 1;
        let had_rules = self.has_rules();
        if name == EVERYBODY {
            let was_there = self.everybody.take().is_some();
            self.compile();
            return was_there;
        }
        if self.known.remove(name).is_none() {
            return false;
        }
        self.ruled.remove(name);
        let account = GrantedAccount { uid: NOBODY, epoch: 0 };
        self.ended.insert(self.known.hash(name), Ended { account, at });
        self.changed(name, had_rules);
        if !self.is_user(name) {
            self.went(name.into());
        }
        true
    }

    /// Account of the book.
    pub(crate) fn standing(&self, name: &str) -> Option<Standing> {
        self.known.find(name).map(|known| known.standing)
    }

    /// User of this name.
    pub(crate) fn owner(&self, name: &str) -> NameOwner {
        match self.known.find(name) {
            Some(known) => NameOwner::Account(known.uid),
            None if self.files.accounts.user(name).is_some() => NameOwner::File,
            None => NameOwner::Unknown,
        }
    }

    /// User as the book, the file and the settings together define it.
    pub(crate) fn standing_anywhere(&self, name: &str) -> Standing {
        let mut standing = self.standing(name).unwrap_or_default();
        let filed = self.files.accounts.user(name);
        standing.is_super |= filed.is_some_and(|account| account.is_super) || self.is_super(name);
        standing.is_disabled |= filed.is_some_and(|account| account.is_disabled);
        standing
    }

    /// How many accounts the book has.
    pub(crate) fn count(&self) -> usize {
        self.known.len()
    }

    /// Whether a session that was granted this goes on ([`Access::holds`]).
    ///
    /// [`Access::holds`]: model::ports::access::Access::holds
    pub(crate) fn holds(&self, name: &str, account: Option<GrantedAccount>) -> bool {
        let known = self.known.find(name);
        let ended = self.ended.get(&self.known.hash(name)).map(|ended| ended.account);
        match (account, ended) {
            (Some(held), _) if known.is_none_or(|known| known.uid != held.uid) => false,
            (Some(held), Some(ended)) => held.epoch >= ended.epoch,
            // It was not there when the session began, and an order has come since.
            (None, Some(_)) => known.is_none(),
            (_, None) => true,
        }
    }

    /// Whether one more account's sessions may be ended: what is remembered of others is forgotten
    /// if all shards have renewed their sessions since, by the version at which they began. True
    /// within: some were forgotten.
    pub(crate) fn may_end(&mut self, renewed: u64) -> Option<bool> {
        if self.ended.len() < ENDED_MAX {
            return Some(false);
        }
        self.ended.retain(|_, ended| ended.at > renewed);
        (self.ended.len() < ENDED_MAX).then_some(true)
    }

    /// Whether the book or the file has a user.
    pub(crate) fn is_user(&self, name: &str) -> bool {
        self.owner(name) != NameOwner::Unknown
    }

    /// Whether the operator says that somebody may do everything.
    pub(crate) fn is_super(&self, name: &str) -> bool {
        self.settings.superusers.iter().any(|other| other == name)
    }

    /// Whether the configuration gives this name more than a user has.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.is_super(name) || self.settings.administrators.contains(name)
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
        let begin = client_id.split_once(':').map(|(begin, _)| begin);
        self.is_user(client_id) || begin.is_some_and(|begin| self.is_user(begin))
    }

    /// Permissions of a user who is no superuser.
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

    /// Whether a token, LDAP or a service may say what its user may do.
    pub(crate) fn proofs_bring_rules(&self) -> bool {
        let token = self.settings.token.as_ref();
        self.settings.http_cache_s.is_some()
            || self.settings.ldap.is_some_and(|ldap| ldap.gives_super)
            || token.is_some_and(|token| !token.acl_claim.is_empty())
    }

    pub(crate) fn door(&self, number: u8) -> &ListenerPolicy {
        self.settings.doors.get(usize::from(number)).unwrap_or(&CLOSED)
    }

    /// Whether there is a rule anywhere.
    fn has_rules(&self) -> bool {
        self.files.acl.is_some() || self.everybody.is_some() || !self.ruled.is_empty()
    }

    /// Compiles the rules of a changed account; those of others only if rules now exist and did
    /// not, or the other way round.
    fn changed(&mut self, name: &str, had_rules: bool) {
        self.compile_user(name);
        if self.has_rules() != had_rules {
            self.compile_others();
        }
    }

    /// All rules anew.
    pub(crate) fn compile(&mut self) {
        let filed = self.files.acl.iter().flat_map(AclFile::users).map(Box::from);
        let names: Vec<Box<str>> = self.ruled.keys().cloned().chain(filed).collect();
        self.compiled.clear();
        names.iter().for_each(|name| self.compile_user(name));
        self.compile_others();
    }

    fn compile_user(&mut self, name: &str) {
        let booked = self.ruled.get(name).cloned();
        let filed = self.files.acl.as_ref().and_then(|acl| acl.own(Some(name)).cloned());
        if booked.is_none() && filed.is_none() {
            self.compiled.remove(name);
            return;
        }
        let rules = self.join(booked, filed);
        self.compiled.insert(name.into(), Arc::new(rules));
    }

    fn compile_others(&mut self) {
        let acl = self.files.acl.as_ref();
        let has_rules = self.has_rules();
        let unnamed = acl.and_then(|acl| acl.own(None).cloned());
        self.strangers = has_rules.then(|| Arc::new(self.join(None, None)));
        self.anonymous = has_rules.then(|| Arc::new(self.join(None, unnamed)));
    }

    fn join(&self, booked: Option<Arc<List>>, filed: Option<Arc<List>>) -> UserRules {
        let everybody = self.everybody.clone();
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
    let proves = |method| {
        matches!(method, Method::Certificate | Method::Token | Method::Ldap | Method::Http)
    };
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
        let settings = Settings { doors: vec![door], ..Settings::default() };
        People::new(settings, PeopleFiles::default(), HashKey::new(1, 2))
    }

    #[test]
    fn ended_sessions_are_remembered_until_every_shard_has_looked_at_its_own() {
        let mut people = people();
        for number in 0..ENDED_MAX as u64 {
            let entry = UserEntry { epoch: 2, ..UserEntry::new(number + 1) };
            assert_eq!(people.may_end(u64::MAX), Some(false));
            people.put(&number.to_string(), &entry, true, number + 1);
        }
        let held = |epoch| Some(GrantedAccount { uid: 1, epoch });
        assert!(!people.holds("0", held(1)) && people.holds("0", held(2)));
        assert_eq!(people.may_end(0), None, "nobody has looked yet");
        assert!(!people.holds("0", held(1)));
        assert_eq!(people.may_end(1), Some(true), "those of the first are over everywhere");
        assert_eq!(people.ended.len(), ENDED_MAX - 1);
        assert!(!people.holds("1", held(1)));
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
