//! `[access]`, `[access.token]` and `[access.http]`: authentication and authorization.
//! `[access.ldap]` is among the sections about other machines.
//!
//! `guard` defines the meaning of keys and rules, and `access` reads the files; this module only
//! names them. Secrets are never shown.

use std::path::PathBuf;

use super::outside::LdapSection;
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
        /// it; "" is none. A reload reads it again.
        @live password_file: Option<PathBuf> = None;
        /// File of rules in mosquitto's syntax, with %c and %u; "" is none. A reload reads it
        /// again. Without rules, every authenticated client may do everything.
        @live acl_file: Option<PathBuf> = None;
        /// Users who may do everything.
        @live superusers: Vec<String> = Vec::new(),
            list(64, "user names", |text| (1..=256).contains(&text.len()));
        /// Client identifiers that clients may choose: %u is the authenticated user, * at the end
        /// matches anything. ["%u", "%u:*"] ties client identifiers to users; a client with another
        /// one is refused (0x85; 0x02 for MQTT 3). Superusers are exempt, and so are clients whose
        /// identifier the server assigns. []: any, except those that belong to another user: the
        /// name of a user in the user database or the password file, alone or followed by a colon.
        /// ["*"]: any.
        @live client_ids: Vec<String> = Vec::new(),
            list(64, "patterns of client identifiers", |text| (1..=512).contains(&text.len()));
        /// Allow what no rule matches, if there are rules.
        @live allow_unmatched: bool = false;
        /// How the passwords of new users are hashed.
        @live hash: HashScheme = HashScheme::Pbkdf2;
        /// Cost of hashing one password. Choose light if thousands of devices reconnect at once.
        @live hash_cost: Cost = Cost::Normal;
        /// Iterations of the SCRAM keys that are stored for new users. 0: none are stored, and
        /// these users cannot log in by SCRAM.
        @live scram_iterations: u32 = 4_096, whole(0..=10_000_000, "rounds");
        /// Hashes that SCRAM offers and accepts: SCRAM-SHA-256, SCRAM-SHA-1. A client uses the
        /// strongest one it is offered; users that were imported with SHA-1 keys only need
        /// ["sha-1"]. New users get SHA-256 keys, and SHA-1 keys if it is listed here. []: SCRAM is
        /// not offered.
        scram_hashes: Vec<ScramHash> = vec![ScramHash::Sha256];
        /// Users that the API and `holdline user` may create. One more is refused.
        @live users_max: u32 = 1_000_000, whole(0..=100_000_000, "users");
        /// Of them, recently seen users whose rows are kept in memory, about 350 bytes each. Other
        /// rows are read from the log at login.
        @live users_cached_max: u32 = 5_000, whole(0..=100_000_000, "users");
        /// Passwords and tokens whose result is cached. Beyond, the oldest result is dropped.
        @live cache_count_max: u32 = 100_000, whole(0..=100_000_000, "checks");
        /// How long a successful result is cached; 0: not at all.
        @live cache_s: u32 = 600, whole(0..=86_400, "seconds");
        /// How long a failed result is cached; 0: not at all.
        @live cache_refused_s: u32 = 5, whole(0..=86_400, "seconds");
        /// Threads that hash passwords.
        threads: u16 = 2, whole(1..=64, "threads");
        /// Threads that query the services of [access.ldap] and [access.http] and fetch keys. Each
        /// keeps at most two connections to an LDAP server.
        ask_threads: u16 = 8, whole(1..=64, "threads");
        /// Clients that wait for these threads. One more is refused: server unavailable. Clients
        /// that logged in recently go first; the addresses of the others take turns.
        waiting_max: u32 = 10_000, whole(1..=1_000_000, "clients");
        /// Clients of one source (an IPv4 address, or an IPv6 /64) that wait for these threads. One
        /// more is refused: connection rate exceeded. Clients on this machine are not counted.
        waiting_a_source_max: u32 = 1_000, whole(1..=1_000_000, "clients");
        /// Failed logins of one source in a minute; 0: unlimited. Beyond, its clients are refused
        /// without a check (connection rate exceeded), except those that logged in from there
        /// within a week. Clients on this machine are not counted.
        @live failures_a_source_max: u32 = 300, whole(0..=10_000_000, "failures a minute");
        /// Sources and clients that are remembered for the two limits above. Beyond, the oldest are
        /// forgotten.
        @live sources_max: u32 = 100_000, whole(0..=100_000_000, "sources");
        /// `[access.token]`.
        @aside token: Token;
        /// `[access.ldap]`.
        @aside ldap: LdapSection;
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
        /// Files of public keys: PEM, or a JWK set if the name ends in .json. A reload reads them
        /// again.
        @live key_files: Vec<String> = Vec::new(), list(64, "paths", |text| !text.is_empty());
        /// URL that a JWK set is fetched from; "" is none. It is also fetched when a token names an
        /// unknown key, at most every ten seconds.
        jwks_url: String = String::new(), URL_OR_NONE, url;
        /// Time after which the JWK set is fetched again.
        jwks_refresh_s: u32 = 3_600, whole(10..=86_400, "seconds");
        /// Accepted signature algorithms; [] is all that the keys support.
        @live algorithms: Vec<String> = Vec::new(), choice(&ALGORITHMS);
        /// Required iss of tokens; "" is any.
        @live issuer: String = String::new(), SHORT;
        /// Required aud of tokens; "" is any.
        @live audience: String = String::new(), SHORT;
        /// Tolerated clock difference.
        @live leeway_s: u32 = 30, whole(0..=600, "seconds");
        /// Refuse tokens without exp.
        @live must_expire: bool = true;
        /// Claim that contains the user name; "" uses the name that the client gives, if equal has
        /// a claim with %u.
        @live user_claim: String = "sub".into(), SHORT;
        /// Claims with required values; %c is the client identifier, %u the user.
        @live equal: Vec<String> = Vec::new(), list(
            16,
            "of \"CLAIM=VALUE\", %c and %u in the value",
            |text| text.split_once('=').is_some_and(|(claim, _)| !claim.is_empty()),
        );
        /// Claim with the client's permissions; "" is none: the rules of [access] apply.
        @live acl_claim: String = "acl".into(), SHORT;
    }
}

impl Token {
    /// Whether tokens are accepted.
    pub fn is_set(&self) -> bool {
        !self.secret.reveal().is_empty() || !self.key_files.is_empty() || !self.jwks_url.is_empty()
    }
}

section! {
    /// `[access.http]`: an external service that decides about each client.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Http {
        /// URL that a query about each client is posted to, as JSON; "" is none.
        url: String = String::new(), URL_OR_NONE, url;
        /// Headers of these requests. Never printed.
        headers: HiddenList = HiddenList::default(),
            list(16, "of \"Name: value\"", is_header), secret;
        /// Timeout of the answer. After it, the client is refused: server unavailable.
        timeout_ms: u32 = 5_000, whole(10..=60_000, "milliseconds");
        /// How long a positive answer is cached; 0: not at all.
        cache_s: u32 = 0, whole(0..=86_400, "seconds");
    }
}

/// Texts that are never printed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct HiddenList(Vec<String>);

impl HiddenList {
    /// A list of these texts.
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
