//! The tokens that open the API: the file's, which opens everything, and those made at run time.
//!
//! A token is shown when it is made and never again: what is kept is a hash of it, for it is too
//! long to be guessed from one. Each has a name, scopes, perhaps products it is bound to, perhaps
//! an end. It knows no routes. Invariants: what was revoked opens nothing from the answer on, and
//! what was made is on stable storage before it is shown.

pub(crate) mod scope;

use crate::roles::ConsoleRole;
use base::hex;
use hmac::{Hmac, KeyInit, Mac};
use model::id::ProductKey;
use model::ports::tokens::TokenRows;
use model::{event, tell};
use scope::{Scope, Scopes};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use tokio::sync::watch;

/// Name of the file's token.
pub(crate) const FILES: &str = "api.token";

/// Prefix of every token, so that one that leaked is recognised.
const PREFIX: &str = "hlt_";

/// A token, but for itself.
pub(crate) struct Token {
    pub(crate) name: String,
    pub(crate) scopes: Scopes,
    /// Products that the token may be used for; empty: all.
    pub(crate) products: Vec<ProductKey>,
    pub(crate) made_ms: u64,
    /// Creator of the token.
    pub(crate) made_by: String,
    /// From then on it opens nothing.
    pub(crate) expires_ms: Option<u64>,
    /// Role of the console user for whom the token stands; `None` for a token of the API.
    pub(crate) role: Option<ConsoleRole>,
    /// When it last opened something since the start; 0: never.
    pub(crate) used_ms: AtomicU64,
    hash: [u8; 32],
    over: watch::Sender<bool>,
}

/// A token as it is wanted.
pub(crate) struct TokenOrder {
    pub(crate) name: String,
    pub(crate) scopes: Scopes,
    pub(crate) products: Vec<ProductKey>,
    pub(crate) expires_ms: Option<u64>,
}

/// Why a token opens nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wrong {
    /// The request has no token.
    Missing,
    /// No token has this key.
    Unknown,
    /// No user with a role has this name and this password.
    NoSuchUser,
    /// The token has expired.
    Expired,
    /// The console session of this cookie has ended.
    SessionOver,
    /// A cookie came with a request that the console did not make.
    CrossOrigin,
}

/// Reason why no token was made or revoked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TokenFault {
    /// A token of this name exists.
    Taken,
    /// The limit of tokens is reached.
    Full,
    /// The store did not take it.
    NotKept,
}

/// As it is kept.
#[derive(Serialize, Deserialize)]
struct Row {
    hash: String,
    scopes: Vec<String>,
    #[serde(default)]
    products: Vec<String>,
    made_ms: u64,
    #[serde(default)]
    made_by: String,
    expires_ms: Option<u64>,
}

impl Token {
    fn new(order: TokenOrder, hash: [u8; 32], made_ms: u64, made_by: String) -> Arc<Token> {
        let TokenOrder { name, scopes, products, expires_ms } = order;
        let (used_ms, over) = (AtomicU64::new(0), watch::Sender::new(false));
        Arc::new(Token {
            name,
            scopes,
            products,
            made_ms,
            made_by,
            expires_ms,
            role: None,
            used_ms,
            hash,
            over,
        })
    }

    /// Token of a console user with this role. It is internal: no client can present it.
    pub(crate) fn of_user(name: String, role: ConsoleRole) -> Token {
        Token {
            name,
            scopes: role.scopes(),
            products: Vec::new(),
            made_ms: 0,
            made_by: String::new(),
            expires_ms: None,
            role: Some(role),
            used_ms: AtomicU64::new(0),
            hash: [0; 32],
            over: watch::Sender::new(false),
        }
    }

    fn row(&self) -> Vec<u8> {
        let row = Row {
            hash: hex::encode(&self.hash),
            scopes: self.scopes.names().into_iter().map(String::from).collect(),
            products: self.products.iter().map(|key| key.as_str().to_owned()).collect(),
            made_ms: self.made_ms,
            made_by: self.made_by.clone(),
            expires_ms: self.expires_ms,
        };
        serde_json::to_vec(&row).expect("texts and numbers are JSON")
    }

    fn of_row(name: String, row: &[u8]) -> Option<Arc<Token>> {
        let row: Row = serde_json::from_slice(row).ok()?;
        let scopes = Scopes::of(row.scopes.iter().map(String::as_str)).ok()?;
        let products = row.products.iter().map(|key| ProductKey::parse(key).ok());
        let order = TokenOrder {
            name,
            scopes,
            products: products.collect::<Option<_>>()?,
            expires_ms: row.expires_ms,
        };
        let hash = hex::decode_array(&row.hash)?;
        Some(Token::new(order, hash, row.made_ms, row.made_by))
    }

    /// Whether the token has expired.
    pub(crate) fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_ms.is_some_and(|end| end <= now_ms)
    }

    /// Whether the token may be used for this product.
    pub(crate) fn is_for(&self, product: &str) -> bool {
        self.products.is_empty() || self.products.iter().any(|key| key.as_str() == product)
    }

    /// Whether the token is revoked.
    pub(crate) fn is_revoked(&self) -> bool {
        *self.over.borrow()
    }

    /// Becomes true when it is revoked.
    pub(crate) fn over(&self) -> watch::Receiver<bool> {
        self.over.subscribe()
    }
}

/// The file's token as a MAC: comparing MACs takes the same time whatever a stranger sends.
struct Lock {
    key: [u8; 32],
    mac: [u8; 32],
}

impl Lock {
    fn new(key: [u8; 32], token: &str) -> Lock {
        let mac = Lock::mac(&key, token).finalize().into_bytes().into();
        Lock { key, mac }
    }

    fn opens(&self, token: &str) -> bool {
        Lock::mac(&self.key, token).verify_slice(&self.mac).is_ok()
    }

    fn mac(key: &[u8; 32], token: &str) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        mac.chain_update(token)
    }
}

/// All tokens.
pub(crate) struct Tokens {
    key: [u8; 32],
    /// The file's.
    first: RwLock<(Lock, Arc<Token>)>,
    rows: Arc<dyn TokenRows>,
    max: AtomicUsize,
    /// Held while a token is created or revoked.
    changing: Mutex<()>,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    by_name: BTreeMap<String, Arc<Token>>,
    by_hash: HashMap<[u8; 32], Arc<Token>>,
}

impl Known {
    fn put(&mut self, token: Arc<Token>) {
        self.by_hash.insert(token.hash, Arc::clone(&token));
        self.by_name.insert(token.name.clone(), token);
    }
}

impl Tokens {
    /// With the file's token and those that were kept. `key` is random.
    pub(crate) fn new(
        (key, token): ([u8; 32], &str),
        rows: Arc<dyn TokenRows>,
        max: usize,
    ) -> Tokens {
        let mut known = Known::default();
        for (name, row) in rows.all() {
            match Token::of_row(name.clone(), &row) {
                Some(token) => known.put(token),
                None => tell!(event::API_TOKEN_UNREADABLE, name),
            }
        }
        Tokens {
            key,
            first: RwLock::new(Tokens::first(key, token)),
            rows,
            max: AtomicUsize::new(max),
            changing: Mutex::default(),
            known: RwLock::new(known),
        }
    }

    fn first(key: [u8; 32], token: &str) -> (Lock, Arc<Token>) {
        let order = TokenOrder {
            name: FILES.into(),
            scopes: Scopes::ALL,
            products: Vec::new(),
            expires_ms: None,
        };
        (Lock::new(key, token), Token::new(order, [0; 32], 0, String::new()))
    }

    /// Sets the most tokens beside the file's. Existing tokens stay.
    pub(crate) fn set_max(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Sets the token of the file: the old one becomes invalid, and its open streams end. False if
    /// it is the same token.
    pub(crate) fn set_first(&self, token: &str) -> bool {
        let mut first = self.first.write().unwrap_or_else(PoisonError::into_inner);
        if token.is_empty() || first.0.opens(token) {
            return false;
        }
        let old = std::mem::replace(&mut *first, Tokens::first(self.key, token));
        old.1.over.send_replace(true);
        true
    }

    /// The file's token, if this text is it.
    fn first_of(&self, text: &str) -> Option<Arc<Token>> {
        let first = self.first.read().unwrap_or_else(PoisonError::into_inner);
        first.0.opens(text).then(|| Arc::clone(&first.1))
    }

    /// The token that this text is.
    pub(crate) fn find(&self, text: Option<&str>, now_ms: u64) -> Result<Arc<Token>, Wrong> {
        let text = text.filter(|text| !text.is_empty()).ok_or(Wrong::Missing)?;
        let found = match self.first_of(text) {
            Some(first) => first,
            None => {
                let hash: [u8; 32] = Sha256::digest(text).into();
                self.known().by_hash.get(&hash).cloned().ok_or(Wrong::Unknown)?
            }
        };
        if found.is_expired(now_ms) {
            return Err(Wrong::Expired);
        }
        found.used_ms.store(now_ms, Ordering::Relaxed);
        Ok(found)
    }

    /// Makes one, from random bytes; gives it with the text that is shown this once. Blocks.
    pub(crate) fn make(
        &self,
        order: TokenOrder,
        (now_ms, by): (u64, &str),
        random: [u8; 24],
    ) -> Result<(Arc<Token>, String), TokenFault> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.known();
        if order.name == FILES || known.by_name.contains_key(&order.name) {
            return Err(TokenFault::Taken);
        }
        if known.by_name.len() >= self.max.load(Ordering::Relaxed) {
            return Err(TokenFault::Full);
        }
        drop(known);
        let text = format!("{PREFIX}{}", hex::encode(&random));
        let token = Token::new(order, Sha256::digest(&text).into(), now_ms, by.into());
        let kept = self.rows.put(&token.name, token.row());
        kept.map_err(|_| TokenFault::NotKept)?;
        self.known.write().unwrap_or_else(PoisonError::into_inner).put(Arc::clone(&token));
        Ok((token, text))
    }

    /// Revokes a token, and ends its open streams. False if it does not exist. Blocks.
    pub(crate) fn revoke(&self, name: &str) -> Result<bool, TokenFault> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(token) = self.one(name) else { return Ok(false) };
        self.rows.remove(name).map_err(|_| TokenFault::NotKept)?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.by_name.remove(name);
        known.by_hash.remove(&token.hash);
        drop(known);
        token.over.send_replace(true);
        Ok(true)
    }

    /// The token with this name, except the file's.
    pub(crate) fn one(&self, name: &str) -> Option<Arc<Token>> {
        self.known().by_name.get(name).cloned()
    }

    /// Tokens whose names come after this one, in the order of their names.
    pub(crate) fn list(&self, after: Option<&str>, count: usize) -> Vec<Arc<Token>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let known = self.known();
        let behind = known.by_name.range::<str, _>((from, Bound::Unbounded));
        behind.take(count).map(|(_, token)| Arc::clone(token)).collect()
    }

    /// Locks what is known. Nothing panics half way through a change of it.
    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a token may be made for products: what is about no product would be out of its reach.
pub(crate) fn is_bindable(scopes: Scopes) -> bool {
    let unbound = [Scope::Metrics, Scope::Publish, Scope::Users, Scope::Admin];
    !unbound.into_iter().any(|scope| scopes.has(scope))
}
