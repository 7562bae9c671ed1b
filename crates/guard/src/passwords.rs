//! Passwords as they are kept: hashed, each kind with its own mark.
//!
//! ```text
//! $7$ROUNDS$SALT$HASH                     PBKDF2-SHA512, ours and mosquitto_passwd's
//! $6$SALT$HASH                            SHA-512 of password and salt, mosquitto_passwd's of old
//! $argon2id$v=19$m=…,t=…,p=…$SALT$HASH    Argon2id, ours and mosquitto_passwd's
//! $scram-sha-256$ROUNDS$SALT$STORED$SERVER, and $scram-sha-1$…
//! $plain$PASSWORD
//! ```
//! It knows no users and draws no random numbers: salts are given. Invariant: nothing here prints
//! a password or a hash by `Debug`.

use crate::cache::mac;
use crate::scram::{ITERATIONS_MAX, ITERATIONS_MIN, KeysByHash, ScramHash, ScramKeys};
use argon2::{Algorithm, Argon2, Params, Version};
use argon2::{PasswordHash, PasswordHasher, PasswordVerifier};
use base::words;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, Engine};
use model::ports::users::UserOrder;
use ring::pbkdf2;
use sha2::{Digest, Sha512};
use std::num::NonZeroU32;
use subtle::ConstantTimeEq;

/// Memory that one check may take, KiB.
const ARGON2_KIB_MAX: u32 = 1 << 20;

/// How often it may go over it.
const ARGON2_PASSES_MAX: u32 = 64;

/// Bytes of a new salt.
pub(crate) const SALT_BYTES: usize = 16;

/// Bytes of a new salt under PBKDF2: mosquitto 2.0 reads no other.
const PBKDF2_SALT_BYTES: usize = 12;

words! {
    /// How new passwords are hashed.
    #[derive(Hash)]
    pub enum HashScheme {
        /// PBKDF2 with HMAC-SHA-512, as mosquitto_passwd writes it: cheap in memory.
        Pbkdf2 = "pbkdf2",
        /// Argon2id: costs much memory, for an attacker too.
        Argon2id = "argon2id",
    }
}

words! {
    /// Cost of a check for the server.
    #[derive(Hash)]
    pub enum Cost {
        /// For passwords that are long and random, as devices have them: 1,000 rounds, or 4 MiB
        /// once.
        Light = "light",
        /// 20,000 rounds, or 19 MiB twice.
        Normal = "normal",
        /// For passwords that people choose: 210,000 rounds, or 64 MiB three times.
        Strong = "strong",
    }
}

impl Cost {
    fn rounds(self) -> NonZeroU32 {
        let rounds = match self {
            Cost::Light => 1_000,
            Cost::Normal => 20_000,
            Cost::Strong => 210_000,
        };
        NonZeroU32::new(rounds).expect("none of them is zero")
    }

    fn argon2(self) -> Argon2<'static> {
        let (kib, passes) = match self {
            Cost::Light => (4 * 1024, 1),
            Cost::Normal => (19 * 1024, 2),
            Cost::Strong => (64 * 1024, 3),
        };
        let params = Params::new(kib, passes, 1, None).expect("they are within Argon2's bounds");
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
    }
}

/// How new passwords are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hashing {
    /// The scheme.
    pub scheme: HashScheme,
    /// Its cost.
    pub cost: Cost,
    /// Rounds of the SCRAM keys that are kept besides, at least [`ITERATIONS_MIN`]; 0: none are,
    /// and the user cannot authenticate by SCRAM. They are only as hard to guess from as their
    /// rounds make them, whatever the other hash costs.
    pub scram_iterations: u32,
    /// Whether SHA-1 keys are stored beside SHA-256 keys.
    pub scram_sha_1: bool,
}

impl Default for Hashing {
    /// The default hash, which mosquitto reads too.
    fn default() -> Self {
        Hashing {
            scheme: HashScheme::Pbkdf2,
            cost: Cost::Normal,
            scram_iterations: 0,
            scram_sha_1: false,
        }
    }
}

impl Hashing {
    /// A new password as it is kept. Slow. The salts are made of `random`.
    pub fn hash(&self, password: &[u8], random: [u8; 32]) -> Kept {
        let salt = &random[..SALT_BYTES];
        let hash = match self.scheme {
            HashScheme::Pbkdf2 => {
                let (rounds, mut hash) = (self.cost.rounds(), vec![0; 64]);
                let salt = &salt[..PBKDF2_SALT_BYTES];
                pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA512, rounds, salt, password, &mut hash);
                StoredHash::Pbkdf2 { rounds, salt: salt.into(), hash: hash.into() }
            }
            HashScheme::Argon2id => {
                let salt = BASE64_STANDARD_NO_PAD.encode(salt);
                let salt = argon2::password_hash::Salt::from_b64(&salt).expect("it is base64");
                let hash = self.cost.argon2().hash_password(password, salt);
                let hash = hash.expect("password and salt are within Argon2's bounds");
                StoredHash::Argon2id(hash.to_string().into())
            }
        };
        Kept { hash: Some(hash), scram: self.keys(password, random) }
    }

    /// Keys of a new password, each with a salt of its own: one does not reveal the other, because
    /// half of their inputs is never shown.
    fn keys(&self, password: &[u8], random: [u8; 32]) -> KeysByHash {
        let mut all = KeysByHash::default();
        if self.scram_iterations == 0 {
            return all;
        }
        let rounds = self.scram_iterations.clamp(ITERATIONS_MIN, ITERATIONS_MAX);
        let salt = &random[SALT_BYTES..];
        all.put(ScramKeys::derive(ScramHash::Sha256, password, salt, rounds));
        if self.scram_sha_1 {
            let salt = &mac(&random, &[ScramHash::Sha1.method().as_bytes()])[..SALT_BYTES];
            all.put(ScramKeys::derive(ScramHash::Sha1, password, salt, rounds));
        }
        all
    }
}

/// All that is kept of a password.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Stored form of a password, for checks.
    pub hash: Option<StoredHash>,
    /// Stored keys, for exchanges.
    pub scram: KeysByHash,
}

/// Hash that a password is checked with.
#[derive(Clone, PartialEq, Eq)]
pub enum StoredHash {
    /// `$6$`.
    Sha512 {
        /// Put behind the password.
        salt: Box<[u8]>,
        /// 64 bytes.
        hash: Box<[u8]>,
    },
    /// `$7$`.
    Pbkdf2 {
        /// How often.
        rounds: NonZeroU32,
        /// Salt, at most [`UserOrder::SALT_BYTES_MAX`].
        salt: Box<[u8]>,
        /// 64 bytes.
        hash: Box<[u8]>,
    },
    /// `$argon2id$`, whole.
    Argon2id(Box<str>),
    /// `$scram-sha-256$` or `$scram-sha-1$`.
    Scram(ScramKeys),
    /// `$plain$`.
    Plain(Box<str>),
}

impl StoredHash {
    /// Parses a stored hash; the error says why it is none.
    pub fn parse(text: &str) -> Result<StoredHash, &'static str> {
        let (kind, rest) = text.strip_prefix('$').and_then(|text| text.split_once('$')).ok_or(
            "not a hashed password: hash it with `mosquitto_passwd -U` or `holdline user \
             passwd`",
        )?;
        match kind {
            "6" => sha512(rest).ok_or("not $6$SALT$HASH with 64 bytes of hash, in base64"),
            "7" => pbkdf2(rest).ok_or("not $7$ROUNDS$SALT$HASH with 64 bytes of hash, in base64"),
            "argon2id" => argon2id(text),
            "plain" if rest.is_empty() => Err("$plain$ must be followed by a password"),
            "plain" => Ok(StoredHash::Plain(rest.into())),
            kind => scram(kind, rest),
        }
    }

    /// As it is kept.
    pub fn text(&self) -> String {
        let base64 = |bytes| BASE64_STANDARD.encode::<&[u8]>(bytes);
        match self {
            StoredHash::Sha512 { salt, hash } => format!("$6${}${}", base64(salt), base64(hash)),
            StoredHash::Pbkdf2 { rounds, salt, hash } => {
                format!("$7${rounds}${}${}", base64(salt), base64(hash))
            }
            StoredHash::Argon2id(text) => text.to_string(),
            StoredHash::Scram(keys) => format!("${}${}", keys.hash.mark(), keys.text()),
            StoredHash::Plain(password) => format!("$plain${password}"),
        }
    }

    /// Whether a check is for a thread that may take its time.
    pub fn is_slow(&self) -> bool {
        !matches!(self, StoredHash::Sha512 { .. } | StoredHash::Plain(_))
    }

    /// Whether it is this password's.
    pub fn is_of(&self, password: &[u8]) -> bool {
        match self {
            StoredHash::Sha512 { salt, hash } => {
                let own = Sha512::new().chain_update(password).chain_update(salt).finalize();
                bool::from(own.as_slice().ct_eq(hash))
            }
            StoredHash::Pbkdf2 { rounds, salt, hash } => {
                pbkdf2::verify(pbkdf2::PBKDF2_HMAC_SHA512, *rounds, salt, password, hash).is_ok()
            }
            StoredHash::Argon2id(text) => PasswordHash::new(text)
                .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok()),
            StoredHash::Scram(keys) => keys.is_of(password),
            StoredHash::Plain(plain) => bool::from(plain.as_bytes().ct_eq(password)),
        }
    }
}

impl std::fmt::Debug for StoredHash {
    /// Without what it is.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            StoredHash::Sha512 { .. } => "6",
            StoredHash::Pbkdf2 { .. } => "7",
            StoredHash::Argon2id(_) => "argon2id",
            StoredHash::Scram(keys) => keys.hash.mark(),
            StoredHash::Plain(_) => "plain",
        };
        write!(f, "Hash(${kind}$…)")
    }
}

/// A line of a password file, for a new password. Slow. The error says why there is none.
pub fn line(
    user: &str,
    password: &str,
    hashing: &Hashing,
    random: [u8; 32],
) -> Result<String, String> {
    check_name(user)?;
    if password.is_empty() || password.len() > UserOrder::PASSWORD_BYTES_MAX {
        let most = UserOrder::PASSWORD_BYTES_MAX;
        return Err(format!("a password must have 1 to {most} bytes"));
    }
    let kept = hashing.hash(password.as_bytes(), random);
    let mut line = format!("{user}:{}", kept.hash.expect("one was made").text());
    for keys in kept.scram.iter() {
        line += " ";
        line += &StoredHash::Scram(keys.clone()).text();
    }
    Ok(line)
}

/// Checks a user's name; the error says why it is not allowed.
pub fn check_name(user: &str) -> Result<(), String> {
    let most = UserOrder::NAME_BYTES_MAX;
    let rules = [
        (!user.is_empty() && user.len() <= most, "must have 1 to 256 bytes"),
        (!user.contains(':'), "must not contain a colon"),
        (!user.chars().any(char::is_control), "must not contain control characters"),
        (
            !user.starts_with('#') && user.trim() == user,
            "must not start with # or have spaces \
                                                         around it",
        ),
        (user != "*", "must not be *, which stands for everybody"),
    ];
    match rules.into_iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err(format!("the name of a user {rule}")),
        None => Ok(()),
    }
}

fn sha512(text: &str) -> Option<StoredHash> {
    let (salt, hash) = text.split_once('$')?;
    let hash: [u8; 64] = BASE64_STANDARD.decode(hash).ok()?.try_into().ok()?;
    let salt = decoded_salt(salt)?;
    Some(StoredHash::Sha512 { salt, hash: hash.into() })
}

/// A salt, unless it is too long for a row of the book.
fn decoded_salt(text: &str) -> Option<Box<[u8]>> {
    let salt = BASE64_STANDARD.decode(text).ok()?;
    (salt.len() <= UserOrder::SALT_BYTES_MAX).then(|| salt.into())
}

fn pbkdf2(text: &str) -> Option<StoredHash> {
    let (rounds, rest) = text.split_once('$')?;
    let (salt, hash) = rest.split_once('$')?;
    let rounds: NonZeroU32 =
        rounds.parse().ok().filter(|r: &NonZeroU32| r.get() <= ITERATIONS_MAX)?;
    let hash: [u8; 64] = BASE64_STANDARD.decode(hash).ok()?.try_into().ok()?;
    let salt = decoded_salt(salt)?;
    Some(StoredHash::Pbkdf2 { rounds, salt, hash: hash.into() })
}

fn scram(mark: &str, text: &str) -> Result<StoredHash, &'static str> {
    let hash = ScramHash::ALL.into_iter().find(|hash| hash.mark() == mark).ok_or(
        "unknown kind of hash, expected one of $7$, $6$, $argon2id$, $scram-sha-256$, \
         $scram-sha-1$ and $plain$ are",
    )?;
    let keys = ScramKeys::parse(hash, text).map(StoredHash::Scram);
    keys.ok_or(
        "not ROUNDS$SALT$STORED$SERVER behind that, in base64, with keys as long as the hash",
    )
}

fn argon2id(text: &str) -> Result<StoredHash, &'static str> {
    let wrong = "not $argon2id$v=19$m=…,t=…,p=…$SALT$HASH";
    let hash = PasswordHash::new(text).map_err(|_| wrong)?;
    let params = Params::try_from(&hash).map_err(|_| wrong)?;
    if hash.salt.is_none() || hash.hash.is_none() {
        return Err(wrong);
    }
    if params.m_cost() > ARGON2_KIB_MAX || params.t_cost() > ARGON2_PASSES_MAX {
        return Err("verifying this hash would take more than 1 GiB or 64 passes");
    }
    Ok(StoredHash::Argon2id(text.into()))
}

#[cfg(test)]
mod tests;
