//! Access control: every method of authentication, tried in the listener's order.
//!
//! The same code serves a shard, which may not block, and a thread that may: a slow step is an
//! errand ([`Errands`]), and a caller that may not run it gets `Later`. It reads no file, calls no
//! service and reads no clock. Invariants: a method that is sure decides, one that does not know
//! the client passes on, and a client that no method decides about is refused, unless the listener
//! admits everyone; a disabled user stays out, whatever it proves.

use crate::access_control::known::Standing;
use crate::bans::{BanList, BanQuery};
use crate::book::UserEntry;
use crate::cache::{Cache, CacheKey, mac};
use crate::encodings;
use crate::http::{self, NoVerdict, ServiceVerdict};
use crate::people::{People, PeopleFiles};
use crate::rules::UserRules;
use crate::settings::{ListenerPolicy, Method, Settings};
use crate::sources::{Known, Sources};
use crate::token::{self, Keys};
use base::hash::HashKey;
use model::id::ShardId;
use model::ports::access::{
    Access, Admission, Grant, GrantedAccount, LdapVerdict, NameOwner, Question, Rules, Who,
};
use model::ports::bans::BanAct;
use model::service::ServiceKind;
use model::session::Denial;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
};

mod book;
pub(crate) mod decoys;
mod exchange;
pub(crate) mod known;
mod ldap;
mod password;

/// Services whose sessions have rights that are renewed.
const RENEWING: [ServiceKind; 2] = [ServiceKind::Topics, ServiceKind::Chat];

/// Seconds between two fetches of keys because of tokens whose key is not known.
const FETCH_S: u32 = 10;

/// Different claims whose rules are kept to be shared.
const CLAIMS_MAX: u32 = 4_096;

/// Slow work, for other threads.
pub trait Errands {
    /// A password may be hashed here.
    fn may_hash(&self) -> bool;

    /// Asks the service with this body; `None`: not here.
    fn ask(&mut self, question: &str) -> Option<Result<ServiceVerdict, NoVerdict>>;

    /// Asks the LDAP server about a name and a password; `None`: not here.
    fn look_up(&mut self, user: &str, password: &[u8]) -> Option<Result<LdapVerdict, NoVerdict>>;

    /// Fetches the keys of tokens and has them put in by [`AccessControl::learn`]. True: it did;
    /// `None`: not here.
    fn fetch_keys(&mut self) -> Option<bool>;

    /// Reads an account of the book from its log, if it is there. `None`: not here.
    fn entry(&mut self, name: &str) -> Option<Result<Option<UserEntry>, NotRead>>;
}

/// The log does not answer: the result is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotRead;

/// Witness of failed logins. Must not block.
pub trait LoginWitness: Send + Sync {
    /// Name, password, token or proof of this login were wrong.
    fn failed(&self, now_s: u32, question: &Question);
}

/// Errands that are refused whenever they would take time.
struct AtOnce;

impl Errands for AtOnce {
    fn may_hash(&self) -> bool {
        false
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
        None
    }
}

/// Access control: who comes in, and what they may do.
pub struct AccessControl {
    /// Drawn when the process began.
    seed: [u8; 32],
    sources: Sources,
    bans: Arc<BanList>,
    /// Receiver of failed logins.
    witness: OnceLock<Weak<dyn LoginWitness>>,
    people: RwLock<People>,
    /// Keys that were fetched, beside those of files.
    fetched: RwLock<Arc<Keys>>,
    /// When they were last fetched, or tried to be.
    fetched_s: AtomicU32,
    version: AtomicU64,
    /// By shard, the version up to which it has looked at all its sessions.
    renewed: Mutex<Vec<[u64; RENEWING.len()]>>,
    /// How often ended sessions were forgotten.
    forgotten: AtomicU64,
    /// Accounts that were read of late.
    entries: Mutex<Cache<Arc<UserEntry>>>,
    checks: Mutex<Cache<bool>>,
    verdicts: Mutex<Cache<ServiceVerdict>>,
    /// Right passwords by the LDAP server.
    looked_up: Mutex<Cache<(Box<str>, bool)>>,
    /// Permissions from tokens of recent logins.
    claims: Mutex<Cache<Arc<UserRules>>>,
    /// Exchanges that were begun.
    exchanges: AtomicU64,
    /// The book is complete: a name that it does not have has no account.
    is_whole: AtomicBool,
    remembered: AtomicU64,
}

/// Answer of a method.
enum Step {
    /// The method does not know this client.
    Next,
    Done(Admission),
}

/// Proof of a client's identity.
#[derive(Default)]
struct Proof {
    user: Option<Box<str>>,
    is_super: bool,
    /// Rules that came with the proof.
    rules: Option<Arc<UserRules>>,
    until_s: u32,
    /// Whether the proof is a password.
    by_password: bool,
    /// The last word of an exchange.
    data: Option<Box<[u8]>>,
}

impl AccessControl {
    /// With what was read from files, and an empty book. `seed` is random and new.
    pub fn new(settings: Settings, files: PeopleFiles, seed: [u8; 32]) -> AccessControl {
        let word = |at: usize| seed[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let key = HashKey::new(word(0), word(8));
        AccessControl {
            seed,
            sources: Sources::new(settings.sources, seed),
            bans: Arc::default(),
            witness: OnceLock::new(),
            people: RwLock::new(People::new(settings, files, key)),
            fetched: RwLock::default(),
            fetched_s: AtomicU32::new(0),
            version: AtomicU64::new(1),
            renewed: Mutex::default(),
            forgotten: AtomicU64::new(0),
            entries: Mutex::new(Cache::new()),
            checks: Mutex::new(Cache::new()),
            verdicts: Mutex::new(Cache::new()),
            looked_up: Mutex::new(Cache::new()),
            claims: Mutex::new(Cache::new()),
            exchanges: AtomicU64::new(0),
            is_whole: AtomicBool::new(true),
            remembered: AtomicU64::new(0),
        }
    }

    /// New settings and files; the book stays.
    pub fn replace(&self, settings: Settings, files: PeopleFiles) {
        self.sources.replace(settings.sources);
        let mut people = self.people_mut();
        people.replace(settings, files);
        *self.entries() = Cache::new();
        self.rise();
        drop(people);
        *self.verdicts() = Cache::new();
        *self.looked_up() = Cache::new();
    }

    /// The answer to a question, with errands.
    pub fn resolve(&self, now_s: u32, question: &Question, errands: &mut dyn Errands) -> Admission {
        let before = self.forgotten.load(Ordering::Acquire);
        let mut admission = self.decide(now_s, question, errands);
        if self.forgotten.load(Ordering::Acquire) != before {
            // It may have begun with what was changed since, and nobody would know any more.
            admission = self.decide(now_s, question, errands);
        }
        self.sources.answered(now_s, question, &admission);
        if matches!(admission, Admission::Refused(Denial::BadCredentials))
            && let Some(witness) = self.witness.get().and_then(Weak::upgrade)
        {
            witness.failed(now_s, question);
        }
        admission
    }

    /// Bans in force. One list of the process.
    pub fn bans(&self) -> Arc<BanList> {
        self.bans.clone()
    }

    /// Sets the witness of failed logins, which somebody else must hold: it may hold this.
    pub fn heed(&self, witness: Weak<dyn LoginWitness>) {
        // A second one is as good as the first.
        let _ = self.witness.set(witness);
    }

    /// Sessions are looked at again, for some may be banned. Gives the version by which they are.
    pub fn look_again(&self) -> u64 {
        let _people = self.people_mut();
        self.rise()
    }

    /// Whether all sessions have been looked at since this version.
    pub fn has_looked(&self, version: u64) -> bool {
        let renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        renewed.iter().flatten().all(|looked| *looked >= version)
    }

    /// The client and the user that somebody says it is, as bans name them: devices of accounts
    /// are called alike, and are banned by their users.
    fn is_refused(&self, now_s: u32, question: &Question, user: Option<&str>) -> bool {
        let has_client = question.protocol.starts_with("mqtt");
        let client = has_client.then_some(&*question.client_id);
        let whom = BanQuery { address: Some(question.peer.ip()), client, user };
        self.bans.bans(now_s, &whom, BanAct::Refuses)
    }

    /// How well the client is known.
    pub fn known(&self, now_s: u32, question: &Question) -> Known {
        self.sources.known(now_s, question)
    }

    fn decide(&self, now_s: u32, question: &Question, errands: &mut dyn Errands) -> Admission {
        match self.prove(now_s, question, errands) {
            // Who it is shows at the end, where a certificate or a token says so.
            Admission::Granted(Grant { user: Some(user), .. }, _)
                if question.user.as_deref() != Some(&*user)
                    && self.is_refused(now_s, question, Some(&user)) =>
            {
                Admission::Refused(Denial::Banned)
            }
            admission => admission,
        }
    }

    fn prove(&self, now_s: u32, question: &Question, errands: &mut dyn Errands) -> Admission {
        if let Some((method, data)) = &question.method {
            return self.exchange(now_s, question, (method, data), errands);
        }
        let door = self.people().door(question.door).clone();
        for method in &door.methods {
            let step = match method {
                Method::Certificate => self.by_certificate(question, errands),
                Method::Passwords => self.by_password(now_s, question, errands),
                Method::Scram | Method::Anonymous => Step::Next,
                Method::Token => self.by_token(now_s, question, errands),
                Method::Ldap => self.by_ldap(now_s, question, errands),
                Method::Http => self.by_service(now_s, question, errands),
            };
            if let Step::Done(admission) = step {
                return admission;
            }
        }
        self.unproved(&door, question, errands)
    }

    /// Keys of tokens that were fetched.
    pub fn learn(&self, keys: Keys) {
        *self.fetched.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.people().settings.clone()
    }

    /// Checks that were not made, because they had been made a short while before.
    pub fn remembered(&self) -> u64 {
        self.remembered.load(Ordering::Relaxed)
    }

    fn by_certificate(&self, question: &Question, errands: &mut dyn Errands) -> Step {
        match question.certificate.as_deref() {
            Some(identity) if !identity.is_empty() => {
                let proof = Proof { user: Some(identity.into()), ..Proof::default() };
                Step::Done(self.let_in(proof, errands))
            }
            _ => Step::Next,
        }
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
        Step::Done(self.let_in(Proof { user, rules, until_s, ..Proof::default() }, errands))
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
                    // Only what lets somebody in is remembered, and nothing that has an end: what
                    // is left of its time would not be known when it is found.
                    let lasts = matches!(verdict, ServiceVerdict::Allow { expires_s: None, .. });
                    if lasts && cache_s > 0 {
                        let until_s = now_s.saturating_add(cache_s);
                        self.keep(&settings, self.verdicts(), (key, until_s, verdict.clone()));
                    }
                    verdict
                }
            },
        };
        match verdict {
            ServiceVerdict::Ignore => Step::Next,
            ServiceVerdict::Deny => Step::Done(Admission::Refused(Denial::BadCredentials)),
            ServiceVerdict::Allow { is_super, rules, expires_s } => {
                let until_s = expires_s.map_or(0, |seconds| now_s.saturating_add(seconds));
                let user = named(question).map(Box::from);
                let proof = Proof { user, is_super, rules, until_s, ..Proof::default() };
                Step::Done(self.let_in(proof, errands))
            }
        }
    }

    /// Keeps a verdict that was given under these settings: its key, its end in Unix seconds, and
    /// the verdict. A reload that has replaced the settings has emptied the cache, or will when it
    /// gets the cache: a verdict of a server that is no longer asked never stays.
    fn keep<V: Clone>(
        &self,
        settings: &Arc<Settings>,
        mut cache: MutexGuard<'_, Cache<V>>,
        (key, until_s, verdict): (CacheKey, u32, V),
    ) {
        if Arc::ptr_eq(settings, &self.settings()) {
            cache.put(settings.cache.count_max, key, until_s, verdict);
        }
    }

    /// Admission of a client that no proof was decisive for.
    fn unproved(
        &self,
        door: &ListenerPolicy,
        question: &Question,
        errands: &mut dyn Errands,
    ) -> Admission {
        if !door.anonymous.admits(question.near) {
            let brought = named(question).is_some() || question.password.is_some();
            let why = if brought { Denial::BadCredentials } else { Denial::NotAuthorized };
            return Admission::Refused(why);
        }
        match named(question) {
            None => self.let_in(Proof::default(), errands),
            Some(user) if door.believe_names => {
                self.let_in(Proof { user: Some(user.into()), ..Proof::default() }, errands)
            }
            Some(_) => Admission::Refused(Denial::BadCredentials),
        }
    }

    fn let_in(&self, proof: Proof, errands: &mut dyn Errands) -> Admission {
        let person = proof.user.as_deref().map(|user| self.person(user, errands)).transpose();
        let person = match person {
            Ok(person) => person.flatten().unwrap_or_default(),
            Err(not_yet) => return not_yet,
        };
        if person.account.is_disabled {
            return Admission::Refused(Denial::NotAuthorized);
        }
        let people = self.people();
        let user = proof.user.as_deref();
        let is_super = person.account.is_super
            || proof.is_super
            || user.is_some_and(|user| people.is_super(user));
        let rules = match proof.rules {
            _ if is_super => None,
            Some(rules) => Some(rules as Arc<dyn Rules>),
            None => people.rules(user),
        };
        let user = proof.user.map(Arc::from);
        let Proof { until_s, by_password, .. } = proof;
        let grant = Grant { user, rules, until_s, account: person.granted, by_password };
        Admission::Granted(grant, proof.data)
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

    /// Another version from now on, for whoever holds `people` to change them: so nobody who sees
    /// it sees them as they were before.
    fn rise(&self) -> u64 {
        self.version.fetch_add(1, Ordering::Release) + 1
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

    fn entries(&self) -> MutexGuard<'_, Cache<Arc<UserEntry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn verdicts(&self) -> MutexGuard<'_, Cache<ServiceVerdict>> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn looked_up(&self) -> MutexGuard<'_, Cache<(Box<str>, bool)>> {
        self.looked_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fetched(&self) -> Arc<Keys> {
        self.fetched.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Access for AccessControl {
    fn admit(&self, now_s: u32, question: &Question) -> Admission {
        if self.is_refused(now_s, question, named(question)) {
            return Admission::Refused(Denial::Banned);
        }
        if !self.sources.may_try(now_s, question) {
            return Admission::Refused(Denial::Rate);
        }
        self.resolve(now_s, question, &mut AtOnce)
    }

    fn renew(&self, who: &Who<'_>) -> Option<Grant> {
        let people = self.people();
        let granted = |rules| {
            let user = who.user.map(Arc::from);
            Some(Grant { user, rules, ..Grant::OPEN })
        };
        let Some(user) = who.user else { return granted(people.rules(None)) };
        let is_known = people.is_user(user);
        let Standing { is_super, is_disabled, .. } = people.standing_anywhere(user);
        if is_disabled || !is_known && people.is_gone(user) {
            let nothing = UserRules::new(Vec::new(), false);
            let rules: Option<Arc<dyn Rules>> = Some(Arc::new(nothing));
            return granted(rules).map(|grant| Grant { until_s: 1, ..grant });
        }
        if is_super {
            return granted(None);
        }
        // Whoever is known by its proof alone may have come with rules of its own, and here nobody
        // knows which: they hold until it comes again.
        if !is_known && people.proofs_bring_rules() {
            return None;
        }
        granted(people.rules(Some(user)))
    }

    fn rules(&self, encoded: &[u8]) -> Option<Arc<dyn Rules>> {
        encodings::decode(encoded)
    }

    fn owner(&self, user: &str) -> NameOwner {
        self.people().owner(user)
    }

    fn may_be(&self, who: &Who<'_>) -> bool {
        let people = self.people();
        let is_super = |user| people.standing_anywhere(user).is_super;
        people.may_be(who) || who.user.is_some_and(is_super)
    }

    fn takes_passwords(&self, door: u8) -> bool {
        let people = self.people();
        let methods = &people.door(door).methods;
        methods.contains(&Method::Passwords)
            || methods.contains(&Method::Scram) && !people.settings.scram_hashes.is_empty()
    }

    fn holds(&self, user: &str, account: Option<GrantedAccount>) -> bool {
        self.people().holds(user, account)
    }

    fn is_banned(&self, now_s: u32, who: &Who<'_>, address: Option<IpAddr>, act: BanAct) -> bool {
        let client = Some(who.client_id).filter(|id| !id.is_empty());
        let whom = BanQuery { address, client, user: who.user };
        self.bans.bans(now_s, &whom, act)
    }

    fn is_removed(&self, user: &str, uid: u64) -> bool {
        match self.people().owner(user) {
            NameOwner::Account(owner) => owner != uid,
            NameOwner::File | NameOwner::Unknown => self.has_all(),
        }
    }

    fn renewed(&self, (service, shard): (ServiceKind, ShardId), version: u64) {
        let Some(at) = RENEWING.iter().position(|kind| *kind == service) else { return };
        let mut renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_shard) = renewed.get_mut(usize::from(shard.0)) {
            of_shard[at] = version;
        }
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
