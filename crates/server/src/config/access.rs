//! `[access]`, `[access.token]` and `[access.http]`: who may come in and do what.
//!
//! What keys and rules mean is `guard`'s part, and the files are read by `access`; here they are
//! only named. Secrets are never shown.

use std::path::PathBuf;

use super::sections::is_url;
use base::section;
use base::setting::{Field, Hidden, Kind, Value, choice, list, text, whole};
use guard::passwords::{Cost, HashScheme};
use guard::scram::ScramHash;

section! {
    /// `[access]`: users and rules.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct AccessSection {
        /// File of users and their passwords, as mosquitto_passwd or `holdline user passwd` writes
        /// it; "" is none. Read again by a reload.
        @live password_file: Option<PathBuf> = None;
        /// File of rules in mosquitto's syntax, with %c and %u; "" is none. Read again by a reload.
        /// Without rules whoever is in may do everything.
        @live acl_file: Option<PathBuf> = None;
        /// Users who may do everything.
        @live superusers: Vec<String> = Vec::new(),
            list(64, "user names", |text| (1..=256).contains(&text.len()));
        /// Client identifiers that may be chosen: %u is the user who was proved, * at the end
        /// anything. ["%u", "%u:*"] binds them to users; a client with another one is refused
        /// (0x85; 0x02 for MQTT 3). Superusers, and clients that are given one, are above this. []
        /// is any that is not another user's: the name of a user of the book or the password file,
        /// alone or with a colon behind it, is that user's. ["*"] is any.
        @live client_ids: Vec<String> = Vec::new(),
            list(64, "patterns of client identifiers", |text| (1..=512).contains(&text.len()));
        /// Whether what no rule speaks of is allowed, where there are rules.
        @live allow_unmatched: bool = false;
        /// How the passwords of new users are kept.
        @live hash: HashScheme = HashScheme::Pbkdf2;
        /// How much work one password is. A server that thousands of devices come back to at once
        /// wants light.
        @live hash_cost: Cost = Cost::Normal;
        /// Rounds of the keys for SCRAM that are kept for new users; 0 keeps none, and these users
        /// cannot use it.
        @live scram_iterations: u32 = 4_096, whole(0..=10_000_000, "rounds");
        /// Hashes that SCRAM is offered with, and taken: SCRAM-SHA-256, SCRAM-SHA-1. A client takes
        /// the best that it is offered, and users who came with keys of SHA-1 alone have no others:
        /// with them it is ["sha-1"]. New users get keys of SHA-256, and of SHA-1 where it stands
        /// here. [] offers none.
        scram_hashes: Vec<ScramHash> = vec![ScramHash::Sha256];
        /// Users that the API and `holdline user` may make. One more is refused.
        @live users_max: u32 = 1_000_000, whole(0..=100_000_000, "users");
        /// Of them, those whose rows are remembered when they came in lately, some 350 bytes each.
        /// Any other is read from its log when it comes.
        @live users_cached_max: u32 = 5_000, whole(0..=100_000_000, "users");
        /// Passwords and tokens whose check is remembered. Beyond, the oldest is forgotten.
        @live cache_count_max: u32 = 100_000, whole(0..=100_000_000, "checks");
        /// How long a good one is remembered; 0 is not at all.
        @live cache_s: u32 = 600, whole(0..=86_400, "seconds");
        /// How long a bad one is remembered; 0 is not at all.
        @live cache_refused_s: u32 = 5, whole(0..=86_400, "seconds");
        /// Threads that hash passwords.
        threads: u16 = 2, whole(1..=64, "threads");
        /// Threads that ask the service of [access.http] and fetch keys.
        ask_threads: u16 = 8, whole(1..=64, "threads");
        /// Clients that wait for either. One more is refused: server unavailable. Those who came in
        /// lately are looked at first, and the others' addresses take turns.
        waiting_max: u32 = 10_000, whole(1..=1_000_000, "clients");
        /// Clients of one source (an IPv4 address, or a /64 of IPv6) that wait for either. One more
        /// is refused: connection rate exceeded. Who is of this machine is not counted.
        waiting_a_source_max: u32 = 1_000, whole(1..=1_000_000, "clients");
        /// Wrong names and passwords of one source in a minute; 0 is any. Beyond, its clients are
        /// refused without a look, but for those that came in from there within a week: connection
        /// rate exceeded. Who is of this machine is not counted.
        @live failures_a_source_max: u32 = 300, whole(0..=10_000_000, "failures a minute");
        /// Sources and clients that are remembered, for those two. Beyond, the oldest are
        /// forgotten.
        @live sources_max: u32 = 100_000, whole(0..=100_000_000, "sources");
        /// `[access.token]`.
        @aside token: Token;
        /// `[access.http]`.
        @aside http: Http;
    }
}

section! {
    /// `[access.token]`: JSON Web Tokens as passwords.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Token {
        /// Secret of tokens signed with HS256, HS384 or HS512; "" is none. Never printed.
        @live secret: Hidden = Hidden::default(),
            text("a text of at least 32 bytes that is no PEM, or empty", is_token_secret), secret;
        /// Public keys: PEM, or a JWK set whose name ends in .json. Read again by a reload.
        @live key_files: Vec<String> = Vec::new(), list(64, "paths", |text| !text.is_empty());
        /// Where a JWK set is fetched; "" is nowhere. Also when a token names a key that is not
        /// known, at most every ten seconds.
        jwks_url: String = String::new(), URL_OR_NONE, url;
        /// Time after which it is fetched again.
        jwks_refresh_s: u32 = 3_600, whole(10..=86_400, "seconds");
        /// How tokens may be signed; [] is however the keys allow.
        @live algorithms: Vec<String> = Vec::new(), choice(&ALGORITHMS);
        /// The iss that tokens must have; "" is any.
        @live issuer: String = String::new(), SHORT;
        /// The aud that tokens must have; "" is any.
        @live audience: String = String::new(), SHORT;
        /// By how much the clocks of others may differ.
        @live leeway_s: u32 = 30, whole(0..=600, "seconds");
        /// Whether a token without exp is refused.
        @live must_expire: bool = true;
        /// The claim whose value is the user; "" is the name that the client gives, if equal has a
        /// claim with %u.
        @live user_claim: String = "sub".into(), SHORT;
        /// Claims that must have a value; %c is the client identifier, %u the user.
        @live equal: Vec<String> = Vec::new(), list(
            16,
            "of \"CLAIM=VALUE\", %c and %u in the value",
            |text| text.split_once('=').is_some_and(|(claim, _)| !claim.is_empty()),
        );
        /// The claim with what the client may do; "" is none, and the rules of [access] hold.
        @live acl_claim: String = "acl".into(), SHORT;
    }
}

impl Token {
    /// Whether tokens are taken at all.
    pub fn is_set(&self) -> bool {
        !self.secret.reveal().is_empty() || !self.key_files.is_empty() || !self.jwks_url.is_empty()
    }
}

section! {
    /// `[access.http]`: a service that is asked about each client.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Http {
        /// Where a question about each client is posted as JSON; "" is nowhere.
        url: String = String::new(), URL_OR_NONE, url;
        /// What is sent with it. Never printed.
        headers: HiddenList = HiddenList::default(),
            list(16, "of \"Name: value\"", is_header), secret;
        /// How long the answer may take. Then the client is refused: server unavailable.
        timeout_ms: u32 = 5_000, whole(10..=60_000, "milliseconds");
        /// How long an answer that lets in is remembered; 0 is not at all.
        cache_s: u32 = 0, whole(0..=86_400, "seconds");
    }
}

/// Texts that are never printed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct HiddenList(Vec<String>);

impl HiddenList {
    /// These texts.
    pub fn of(texts: Vec<String>) -> HiddenList {
        HiddenList(texts)
    }

    /// The texts themselves.
    pub fn reveal(&self) -> &[String] {
        &self.0
    }
}

impl std::fmt::Debug for HiddenList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({} hidden)", self.0.len())
    }
}

impl Field for HiddenList {
    fn show(&self) -> Value {
        Value::List(self.0.clone())
    }

    fn take(value: &Value) -> Option<Self> {
        Field::take(value).map(HiddenList)
    }
}

/// Signatures of tokens, as RFC 7518 names them.
const ALGORITHMS: [&str; 12] = [
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256",
    "ES384", "EdDSA",
];

const SHORT: Kind = text("a text of at most 1024 bytes", |text| text.len() <= 1_024);

pub(super) const URL_OR_NONE: Kind =
    text("an http:// or https:// address, or empty for none", |text| {
        text.is_empty() || is_url(text)
    });

fn is_token_secret(text: &str) -> bool {
    text.is_empty() || (32..=1_024).contains(&text.len()) && !text.starts_with("-----BEGIN")
}

fn is_header(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let named =
        text.split_once(':').is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(plain));
    named && text.len() <= 4_096 && !text.contains(['\r', '\n', '\0'])
}
