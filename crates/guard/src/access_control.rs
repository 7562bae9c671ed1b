//! Access control: every proof there is, tried in the order of the listener.
//!
//! One walk serves a shard, which may not wait, and a thread that may: what takes its time is an
//! errand ([`Errands`]), and a walk that comes to one it may not run says `Later`. It reads no
//! file, asks nobody and tells no time. Invariants: a method that is sure decides, one that knows
//! nothing passes on, and what no method decides is refused, unless the listener lets anybody in;
//! a user who is disabled stays out, whatever it proves.

use crate::book::UserEntry;
use crate::cache::{Cache, CacheKey};
use crate::http::{self, NoVerdict, ServiceVerdict};
use crate::passwords::StoredHash;
use crate::people::{People, PeopleFiles};
use crate::rules::UserRules;
use crate::scram::mac;
use crate::settings::{ListenerPolicy, Method, Settings};
use crate::sources::{Known, Sources};
use crate::token::{self, Keys};
use model::ports::access::{Access, Admission, Grant, Question, Rules, Who};
use model::ports::users::UserOrder;
use model::session::Denial;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

mod exchange;

/// Seconds between two fetches of keys because of tokens whose key is not known.
const FETCH_S: u32 = 10;

/// Different claims whose rules are kept to be shared.
const CLAIMS_MAX: u32 = 4_096;

/// What takes its time.
pub trait Errands {
    /// A password may be hashed here.
    fn may_hash(&self) -> bool;

    /// Asks the service with this body; `None`: not here.
    fn ask(&mut self, question: &str) -> Option<Result<ServiceVerdict, NoVerdict>>;

    /// Fetches the keys of tokens and has them put in by [`AccessControl::learn`]. True: it did;
    /// `None`: not here.
    fn fetch_keys(&mut self) -> Option<bool>;
}

/// Nothing that takes its time.
struct AtOnce;

impl Errands for AtOnce {
    fn may_hash(&self) -> bool {
        false
    }

    fn ask(&mut self, _: &str) -> Option<Result<ServiceVerdict, NoVerdict>> {
        None
    }

    fn fetch_keys(&mut self) -> Option<bool> {
        None
    }
}

/// Access control: who comes in, and what they may do.
pub struct AccessControl {
    /// Drawn when the process began.
    seed: [u8; 32],
    sources: Sources,
    people: RwLock<People>,
    /// Keys that were fetched, beside those of files.
    fetched: RwLock<Arc<Keys>>,
    /// When they were last fetched, or tried to be.
    fetched_s: AtomicU32,
    version: AtomicU64,
    checks: Mutex<Cache<bool>>,
    verdicts: Mutex<Cache<ServiceVerdict>>,
    /// What tokens said of late that their clients may do.
    claims: Mutex<Cache<Arc<UserRules>>>,
    /// Exchanges that were begun.
    exchanges: AtomicU64,
    remembered: AtomicU64,
}

/// What a method has to say.
enum Step {
    /// It knows nothing of this.
    Next,
    Done(Admission),
}

/// Somebody has proved who it is.
#[derive(Default)]
struct Proof {
    user: Option<Box<str>>,
    is_super: bool,
    /// Rules that came with the proof.
    rules: Option<Arc<UserRules>>,
    until_s: u32,
    /// The last word of an exchange.
    data: Option<Box<[u8]>>,
}

impl AccessControl {
    /// With what was read from files, and an empty book. `seed` is random and new.
    pub fn new(settings: Settings, files: PeopleFiles, seed: [u8; 32]) -> AccessControl {
        AccessControl {
            seed,
            sources: Sources::new(settings.sources, seed),
            people: RwLock::new(People::new(settings, files)),
            fetched: RwLock::default(),
            fetched_s: AtomicU32::new(0),
            version: AtomicU64::new(1),
            checks: Mutex::new(Cache::new()),
            verdicts: Mutex::new(Cache::new()),
            claims: Mutex::new(Cache::new()),
            exchanges: AtomicU64::new(0),
            remembered: AtomicU64::new(0),
        }
    }

    /// New settings and files; the book stays.
    pub fn replace(&self, settings: Settings, files: PeopleFiles) {
        self.sources.replace(settings.sources);
        self.people_mut().replace(settings, files);
        *self.verdicts() = Cache::new();
        self.rose();
    }

    /// The answer to a question, with errands.
    pub fn resolve(&self, now_s: u32, question: &Question, errands: &mut dyn Errands) -> Admission {
        let admission = self.decide(now_s, question, errands);
        self.sources.answered(now_s, question, &admission);
        admission
    }

    /// How well whoever asks is known.
    pub fn known(&self, now_s: u32, question: &Question) -> Known {
        self.sources.known(now_s, question)
    }

    fn decide(&self, now_s: u32, question: &Question, errands: &mut dyn Errands) -> Admission {
        if let Some((method, data)) = &question.method {
            return self.exchange(now_s, question, (method, data), errands);
        }
        let door = self.people().door(question.door).clone();
        for method in &door.methods {
            let step = match method {
                Method::Certificate => self.by_certificate(question),
                Method::Passwords => self.by_password(now_s, question, errands),
                Method::Scram => Step::Next,
                Method::Token => self.by_token(now_s, question, errands),
                Method::Http => self.by_service(now_s, question, errands),
            };
            if let Step::Done(admission) = step {
                return admission;
            }
        }
        self.unproved(&door, question)
    }

    /// Keys of tokens that were fetched.
    pub fn learn(&self, keys: Keys) {
        *self.fetched.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// Changes or adds a user of the book, which is on stable storage.
    pub fn put(&self, name: &str, entry: UserEntry) {
        self.people_mut().put(name, entry);
        self.rose();
    }

    /// Removes one, which is gone from stable storage. False: there was none.
    pub fn remove(&self, name: &str) -> bool {
        let was_there = self.people_mut().remove(name);
        self.rose();
        was_there
    }

    /// A user of the book.
    pub fn entry(&self, name: &str) -> Option<UserEntry> {
        self.people().book().get(name).cloned()
    }

    /// Users of the book after `after`, in the order of their names.
    pub fn entries(&self, after: Option<&str>, count: usize) -> Vec<(Box<str>, UserEntry)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        let people = self.people();
        let entries = people.book().range::<str, _>((from, Unbounded)).take(count);
        entries.map(|(name, entry)| (name.clone(), entry.clone())).collect()
    }

    /// How many users the book has.
    pub fn entry_count(&self) -> usize {
        self.people().book().len()
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.people().settings.clone()
    }

    /// Checks that were not made, because they had been made a short while before.
    pub fn remembered(&self) -> u64 {
        self.remembered.load(Ordering::Relaxed)
    }

    fn by_certificate(&self, question: &Question) -> Step {
        match question.certificate.as_deref() {
            Some(identity) if !identity.is_empty() => {
                Step::Done(self.let_in(Proof { user: Some(identity.into()), ..Proof::default() }))
            }
            _ => Step::Next,
        }
    }

    fn by_password(&self, now_s: u32, question: &Question, errands: &dyn Errands) -> Step {
        let Some(user) = named(question) else { return Step::Next };
        let people = self.people();
        let Some(account) = people.account(user) else { return Step::Next };
        let (Some(hash), cache) = (account.kept.hash, people.settings.cache) else {
            return Step::Next;
        };
        drop(people);
        let password = question.password.as_deref().unwrap_or_default();
        if account.is_disabled {
            return Step::Done(Admission::Refused(Denial::NotAuthorized));
        }
        if password.is_empty() || password.len() > UserOrder::PASSWORD_BYTES_MAX {
            return Step::Done(Admission::Refused(Denial::BadCredentials));
        }
        let is_right = if hash.is_slow() {
            let key = self.check_key(user, password, &hash);
            let known = self.checks().find(now_s, &key);
            match known {
                Some(is_right) => {
                    self.remembered.fetch_add(1, Ordering::Relaxed);
                    is_right
                }
                None if !errands.may_hash() => return Step::Done(Admission::Later),
                None => {
                    let is_right = hash.is_of(password);
                    let seconds = if is_right { cache.positive_s } else { cache.negative_s };
                    let until_s = now_s.saturating_add(seconds);
                    self.checks().put(cache.count_max, key, until_s, is_right);
                    is_right
                }
            }
        } else {
            hash.is_of(password)
        };
        Step::Done(match is_right {
            true => self.let_in(Proof { user: Some(user.into()), ..Proof::default() }),
            false => Admission::Refused(Denial::BadCredentials),
        })
    }

    fn by_token(&self, now_s: u32, question: &Question, errands: &mut dyn Errands) -> Step {
        let settings = self.settings();
        let Some(policy) = &settings.token else { return Step::Next };
        let text = question.password.as_deref().and_then(|text| std::str::from_utf8(text).ok());
        let Some(signed) = text.and_then(token::Signed::read) else { return Step::Next };
        let refused = || Step::Done(Admission::Refused(Denial::BadCredentials));
        let mut verified = self.verify(policy, &signed);
        if verified == Err(token::TokenFault::NoKey) && policy.fetches_keys {
            let before_s = self.fetched_s.load(Ordering::Relaxed);
            if before_s == 0 || now_s >= before_s.saturating_add(FETCH_S) {
                match errands.fetch_keys() {
                    None => return Step::Done(Admission::Later),
                    Some(_) => self.fetched_s.store(now_s.max(1), Ordering::Relaxed),
                }
                verified = self.verify(policy, &signed);
            }
            if verified == Err(token::TokenFault::NoKey) && self.fetched().is_empty() {
                return Step::Done(Admission::Refused(Denial::Unavailable));
            }
        }
        if verified.is_err() {
            return refused();
        }
        let who = Who { client_id: &question.client_id, user: named(question) };
        let Ok(claims) = signed.claims(policy, now_s, &who) else { return refused() };
        let rules = match &claims.acl {
            None => None,
            Some(claim) => match self.claimed(claim) {
                Some(rules) => Some(rules),
                None => return refused(),
            },
        };
        let (user, until_s) = (claims.user, claims.until_s);
        Step::Done(self.let_in(Proof { user, rules, until_s, ..Proof::default() }))
    }

    /// The rules that a claim says, shared by all whose tokens say the same.
    fn claimed(&self, claim: &serde_json::Value) -> Option<Arc<UserRules>> {
        let key = self.key(&[b"claim", claim.to_string().as_bytes()]);
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rules) = claims.find(0, &key) {
            return Some(rules);
        }
        let rules = Arc::new(token::acl(claim)?);
        claims.put(CLAIMS_MAX, key, u32::MAX, rules.clone());
        Some(rules)
    }

    fn verify(
        &self,
        policy: &token::TokenPolicy,
        signed: &token::Signed<'_>,
    ) -> Result<(), token::TokenFault> {
        let (files, fetched) = (self.people().files.clone(), self.fetched());
        signed.verify(policy, &[&files.keys, &fetched])
    }

    fn by_service(&self, now_s: u32, question: &Question, errands: &mut dyn Errands) -> Step {
        let settings = self.settings();
        let Some(cache_s) = settings.http_cache_s else { return Step::Next };
        let key = self.verdict_key(question);
        let known = self.verdicts().find(now_s, &key);
        let verdict = match known {
            Some(verdict) => {
                self.remembered.fetch_add(1, Ordering::Relaxed);
                verdict
            }
            None => match errands.ask(&http::question(question)) {
                None => return Step::Done(Admission::Later),
                Some(Err(NoVerdict(_))) => {
                    return Step::Done(Admission::Refused(Denial::Unavailable));
                }
                Some(Ok(verdict)) => {
                    self.remember_verdict(now_s, cache_s, key, &verdict);
                    verdict
                }
            },
        };
        match verdict {
            ServiceVerdict::Ignore => Step::Next,
            ServiceVerdict::Deny => Step::Done(Admission::Refused(Denial::BadCredentials)),
            ServiceVerdict::Allow { is_super, rules, expires_s } => {
                Step::Done(self.let_in(Proof {
                    user: named(question).map(Box::from),
                    is_super,
                    rules,
                    until_s: expires_s.map_or(0, |seconds| now_s.saturating_add(seconds)),
                    data: None,
                }))
            }
        }
    }

    /// Only what lets somebody in is remembered, and never longer than it holds: what is left of
    /// its time is not known when it is found again, so a verdict with an end is not kept.
    fn remember_verdict(&self, now_s: u32, cache_s: u32, key: CacheKey, verdict: &ServiceVerdict) {
        if cache_s > 0 && matches!(verdict, ServiceVerdict::Allow { expires_s: None, .. }) {
            let count_max = self.settings().cache.count_max;
            let until_s = now_s.saturating_add(cache_s);
            self.verdicts().put(count_max, key, until_s, verdict.clone());
        }
    }

    /// Nobody has decided.
    fn unproved(&self, door: &ListenerPolicy, question: &Question) -> Admission {
        if !door.anonymous.admits(question.near) {
            let brought = named(question).is_some() || question.password.is_some();
            let why = if brought { Denial::BadCredentials } else { Denial::NotAuthorized };
            return Admission::Refused(why);
        }
        match named(question) {
            None => self.let_in(Proof::default()),
            Some(user) if door.believe_names => {
                self.let_in(Proof { user: Some(user.into()), ..Proof::default() })
            }
            Some(_) => Admission::Refused(Denial::BadCredentials),
        }
    }

    fn let_in(&self, proof: Proof) -> Admission {
        let people = self.people();
        let account = proof.user.as_deref().and_then(|user| people.account(user));
        let (is_super, is_disabled) =
            account.map_or((false, false), |account| (account.is_super, account.is_disabled));
        if is_disabled {
            return Admission::Refused(Denial::NotAuthorized);
        }
        let user = proof.user.as_deref();
        let is_super = is_super || proof.is_super || user.is_some_and(|user| people.is_super(user));
        let rules = match proof.rules {
            _ if is_super => None,
            Some(rules) => Some(rules as Arc<dyn Rules>),
            None => people.rules(user),
        };
        let user = proof.user.map(Arc::from);
        Admission::Granted(Grant { user, rules, until_s: proof.until_s }, proof.data)
    }

    fn check_key(&self, user: &str, password: &[u8], hash: &StoredHash) -> CacheKey {
        let length = (user.len() as u64).to_be_bytes();
        let password_length = (password.len() as u64).to_be_bytes();
        let text = hash.text();
        self.key(&[b"check", &length, user.as_bytes(), &password_length, password, text.as_bytes()])
    }

    fn verdict_key(&self, question: &Question) -> CacheKey {
        // Whatever the service is asked, but for the port, which is another one each time.
        let mut same = question.clone();
        same.peer.set_port(0);
        self.key(&[b"verdict", http::question(&same).as_bytes()])
    }

    fn key(&self, parts: &[&[u8]]) -> CacheKey {
        let whole = mac(&self.seed, parts);
        whole[..16].try_into().expect("it has 32 bytes")
    }

    fn rose(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    // Nothing panics half way through a change.
    fn people(&self) -> RwLockReadGuard<'_, People> {
        self.people.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn people_mut(&self) -> RwLockWriteGuard<'_, People> {
        self.people.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn checks(&self) -> MutexGuard<'_, Cache<bool>> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn verdicts(&self) -> MutexGuard<'_, Cache<ServiceVerdict>> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fetched(&self) -> Arc<Keys> {
        self.fetched.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Access for AccessControl {
    fn admit(&self, now_s: u32, question: &Question) -> Admission {
        if !self.sources.may_try(now_s, question) {
            return Admission::Refused(Denial::Rate);
        }
        self.resolve(now_s, question, &mut AtOnce)
    }

    fn renew(&self, who: &Who<'_>) -> Option<Grant> {
        let people = self.people();
        let granted = |rules| {
            let user = who.user.map(Arc::from);
            Some(Grant { user, rules, until_s: 0 })
        };
        let Some(user) = who.user else { return granted(people.rules(None)) };
        let account = people.account(user);
        let is_disabled = account.as_ref().is_some_and(|account| account.is_disabled);
        if is_disabled || account.is_none() && people.is_gone(user) {
            let nothing = UserRules::new(Vec::new(), false);
            let rules: Option<Arc<dyn Rules>> = Some(Arc::new(nothing));
            return granted(rules).map(|grant| Grant { until_s: 1, ..grant });
        }
        let is_super = account.as_ref().is_some_and(|account| account.is_super);
        if is_super || people.is_super(user) {
            return granted(None);
        }
        // Whoever is known by its proof alone may have come with rules of its own, and here nobody
        // knows which: they hold until it comes again.
        if account.is_none() && people.proofs_bring_rules() {
            return None;
        }
        granted(people.rules(Some(user)))
    }

    fn may_be(&self, who: &Who<'_>) -> bool {
        let people = self.people();
        if people.may_be(who) {
            return true;
        }
        let is_super = |user| {
            people.is_super(user) || people.account(user).is_some_and(|account| account.is_super)
        };
        who.user.is_some_and(is_super)
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
}

/// The name that was given; an empty one is none.
fn named(question: &Question) -> Option<&str> {
    question.user.as_deref().filter(|user| !user.is_empty())
}

#[cfg(test)]
mod bent;
#[cfg(test)]
mod tests;
