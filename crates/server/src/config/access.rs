//! `[access]`, `[access.token]` and `[access.http]`: who may come in and do what.
//!
//! What keys and rules mean is `guard`'s part, and the files are read by `access`; here they are
//! only named. Secrets are never shown.

use std::path::PathBuf;

use super::key::{Field, Hidden, Key, Kind, Reload, Section, Value, Words, key, words};
use super::sections::{PATH_OR_NONE, is_url};

/// `[access]`: users and rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessSection {
    /// File of users and passwords.
    pub password_file: Option<PathBuf>,
    /// File of rules.
    pub acl_file: Option<PathBuf>,
    /// Users who may do everything.
    pub superusers: Vec<String>,
    /// Client identifiers that may be chosen; none: any that is not another user's.
    pub client_ids: Vec<String>,
    /// What no rule speaks of is allowed, where there are rules.
    pub allow_unmatched: bool,
    /// How new passwords are kept.
    pub hash: HashSetting,
    /// How much work they are.
    pub hash_cost: HashCost,
    /// Rounds of SCRAM's keys; 0: none are kept.
    pub scram_iterations: u32,
    /// Users of the book.
    pub users_max: u32,
    /// Checks that are remembered.
    pub cache_count_max: u32,
    /// Seconds that a good one is.
    pub cache_s: u32,
    /// Seconds that a bad one is.
    pub cache_refused_s: u32,
    /// Threads that hash.
    pub threads: u16,
    /// Threads that ask others.
    pub ask_threads: u16,
    /// Questions that wait for them.
    pub waiting_max: u32,
    /// Those of one source.
    pub waiting_a_source_max: u32,
    /// Failures of one source in a minute.
    pub failures_a_source_max: u32,
    /// Sources that are remembered.
    pub sources_max: u32,
    /// `[access.token]`.
    pub token: Token,
    /// `[access.http]`.
    pub http: Http,
}

/// Algorithm by which passwords are hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HashSetting {
    /// PBKDF2 with SHA-512.
    Pbkdf2,
    /// Argon2id.
    Argon2id,
}
words!(HashSetting { Pbkdf2 = "pbkdf2", Argon2id = "argon2id" });

/// Cost of a hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HashCost {
    /// Little: for many small devices.
    Light,
    /// Usual.
    Normal,
    /// Much.
    Strong,
}
words!(HashCost { Light = "light", Normal = "normal", Strong = "strong" });

impl Section for AccessSection {
    const KEYS: &'static [Key<Self>] = &[
        key!(
            password_file,
            PATH_OR_NONE,
            Live,
            "File of users and their passwords, as mosquitto_passwd or `holdline user passwd` \
             writes it; \"\" is none. Read again by a reload."
        ),
        key!(
            acl_file,
            PATH_OR_NONE,
            Live,
            "File of rules in mosquitto's syntax, with %c and %u; \"\" is none. Read again by a \
             reload. Without rules whoever is in may do everything."
        ),
        key!(
            superusers,
            Kind::List {
                what: "user names",
                max: 64,
                fits: |text| (1..=256).contains(&text.len())
            },
            Live,
            "Users who may do everything."
        ),
        key!(
            client_ids,
            Kind::List {
                what: "patterns of client identifiers",
                max: 64,
                fits: |text| (1..=512).contains(&text.len())
            },
            Live,
            "Client identifiers that may be chosen: %u is the user who was proved, * at the end \
             anything. [\"%u\", \"%u:*\"] binds them to users; a client with another one is \
             refused (0x85; 0x02 for MQTT 3). Superusers, and clients that are given one, are \
             above this. [] is any that is not another user's: the name of a user of the book or \
             the password file, alone or with a colon behind it, is that user's. [\"*\"] is any."
        ),
        key!(
            allow_unmatched,
            Kind::Bool,
            Live,
            "Whether what no rule speaks of is allowed, where there are rules."
        ),
        key!(
            hash,
            Kind::Word(HashSetting::WORDS),
            Live,
            "How the passwords of new users are kept."
        ),
        key!(
            hash_cost,
            Kind::Word(HashCost::WORDS),
            Live,
            "How much work one password is. A server that thousands of devices come back to at \
             once wants light."
        ),
        key!(
            scram_iterations,
            Kind::whole(0, 10_000_000, "rounds"),
            Live,
            "Rounds of the keys for SCRAM-SHA-256 that are kept for new users; 0 keeps none, and \
             these users cannot use it."
        ),
        key!(
            users_max,
            Kind::whole(0, 100_000_000, "users"),
            Live,
            "Users that the API and `holdline user` may make. One more is refused."
        ),
        key!(
            cache_count_max,
            Kind::whole(0, 100_000_000, "checks"),
            Live,
            "Passwords and tokens whose check is remembered. Beyond, the oldest is forgotten."
        ),
        key!(
            cache_s,
            Kind::whole(0, 86_400, "seconds"),
            Live,
            "How long a good one is remembered; 0 is not at all."
        ),
        key!(
            cache_refused_s,
            Kind::whole(0, 86_400, "seconds"),
            Live,
            "How long a bad one is remembered; 0 is not at all."
        ),
        key!(threads, Kind::whole(1, 64, "threads"), Restart, "Threads that hash passwords."),
        key!(
            ask_threads,
            Kind::whole(1, 64, "threads"),
            Restart,
            "Threads that ask the service of [access.http] and fetch keys."
        ),
        key!(
            waiting_max,
            Kind::whole(1, 1_000_000, "clients"),
            Restart,
            "Clients that wait for either. One more is refused: server unavailable. Those who came \
             in lately are looked at first, and the others' addresses take turns."
        ),
        key!(
            waiting_a_source_max,
            Kind::whole(1, 1_000_000, "clients"),
            Restart,
            "Clients of one source (an IPv4 address, or a /64 of IPv6) that wait for either. One \
             more is refused: connection rate exceeded. Who is of this machine is not counted."
        ),
        key!(
            failures_a_source_max,
            Kind::whole(0, 10_000_000, "failures a minute"),
            Live,
            "Wrong names and passwords of one source in a minute; 0 is any. Beyond, its clients \
             are refused without a look, but for those that came in from there within a week: \
             connection rate exceeded. Who is of this machine is not counted."
        ),
        key!(
            sources_max,
            Kind::whole(0, 100_000_000, "sources"),
            Live,
            "Sources and clients that are remembered, for those two. Beyond, the oldest are \
             forgotten."
        ),
    ];

    fn blank(_: &str) -> Result<Self, String> {
        Ok(AccessSection {
            password_file: None,
            acl_file: None,
            superusers: Vec::new(),
            client_ids: Vec::new(),
            allow_unmatched: false,
            hash: HashSetting::Pbkdf2,
            hash_cost: HashCost::Normal,
            scram_iterations: 4_096,
            users_max: 1_000_000,
            cache_count_max: 100_000,
            cache_s: 600,
            cache_refused_s: 5,
            threads: 2,
            ask_threads: 8,
            waiting_max: 10_000,
            waiting_a_source_max: 1_000,
            failures_a_source_max: 300,
            sources_max: 100_000,
            token: Token::blank("")?,
            http: Http::blank("")?,
        })
    }
}

/// `[access.token]`: JSON Web Tokens as passwords.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// The secret of those that are signed with one.
    pub secret: Hidden,
    /// Files of public keys.
    pub key_files: Vec<String>,
    /// Where a set of keys is fetched; empty: nowhere.
    pub jwks_url: String,
    /// Seconds after which it is fetched again.
    pub jwks_refresh_s: u32,
    /// How tokens may be signed; empty: as their keys allow.
    pub algorithms: Vec<String>,
    /// Who must have issued them; empty: anybody.
    pub issuer: String,
    /// For whom they must be; empty: anybody.
    pub audience: String,
    /// Seconds by which clocks may differ.
    pub leeway_s: u32,
    /// One without an end is refused.
    pub must_expire: bool,
    /// The claim whose value is the user.
    pub user_claim: String,
    /// Claims that must have a value.
    pub equal: Vec<String>,
    /// The claim with what the client may do.
    pub acl_claim: String,
}

impl Token {
    /// Whether tokens are taken at all.
    pub fn is_set(&self) -> bool {
        !self.secret.reveal().is_empty() || !self.key_files.is_empty() || !self.jwks_url.is_empty()
    }
}

impl Section for Token {
    const KEYS: &'static [Key<Self>] = &[
        key!(
            secret,
            Kind::Text {
                what: "a text of at least 32 bytes that is no PEM, or empty",
                fits: is_token_secret
            },
            Live,
            "Secret of tokens signed with HS256, HS384 or HS512; \"\" is none. Never printed."
        )
        .secret(),
        key!(
            key_files,
            Kind::List { what: "paths", max: 64, fits: |text| !text.is_empty() },
            Live,
            "Public keys: PEM, or a JWK set whose name ends in .json. Read again by a reload."
        ),
        key!(
            jwks_url,
            URL_OR_NONE,
            Restart,
            "Where a JWK set is fetched; \"\" is nowhere. Also when a token names a key that is \
             not known, at most every ten seconds."
        )
        .url(),
        key!(
            jwks_refresh_s,
            Kind::whole(10, 86_400, "seconds"),
            Restart,
            "Time after which it is fetched again."
        ),
        key!(
            algorithms,
            Kind::List {
                what: "of \"HS256\", \"HS384\", \"HS512\", \"RS256\", \"RS384\", \"RS512\", \
                       \"PS256\", \"PS384\", \"PS512\", \"ES256\", \"ES384\", \"EdDSA\"",
                max: ALGORITHMS.len(),
                fits: |text| ALGORITHMS.contains(&text)
            },
            Live,
            "How tokens may be signed; [] is however the keys allow."
        ),
        key!(issuer, SHORT, Live, "The iss that tokens must have; \"\" is any."),
        key!(audience, SHORT, Live, "The aud that tokens must have; \"\" is any."),
        key!(
            leeway_s,
            Kind::whole(0, 600, "seconds"),
            Live,
            "By how much the clocks of others may differ."
        ),
        key!(must_expire, Kind::Bool, Live, "Whether a token without exp is refused."),
        key!(
            user_claim,
            SHORT,
            Live,
            "The claim whose value is the user; \"\" is the name that the client gives, if equal \
             has a claim with %u."
        ),
        key!(
            equal,
            Kind::List {
                what: "of \"CLAIM=VALUE\", %c and %u in the value",
                max: 16,
                fits: |text| text.split_once('=').is_some_and(|(claim, _)| !claim.is_empty())
            },
            Live,
            "Claims that must have a value; %c is the client identifier, %u the user."
        ),
        key!(
            acl_claim,
            SHORT,
            Live,
            "The claim with what the client may do; \"\" is none, and the rules of [access] hold."
        ),
    ];

    fn blank(_: &str) -> Result<Self, String> {
        Ok(Token {
            secret: Hidden::default(),
            key_files: Vec::new(),
            jwks_url: String::new(),
            jwks_refresh_s: 3_600,
            algorithms: Vec::new(),
            issuer: String::new(),
            audience: String::new(),
            leeway_s: 30,
            must_expire: true,
            user_claim: "sub".into(),
            equal: Vec::new(),
            acl_claim: "acl".into(),
        })
    }
}

/// `[access.http]`: a service that is asked about each client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Http {
    /// Where questions are posted; empty: nowhere.
    pub url: String,
    /// What is sent besides.
    pub headers: HiddenList,
    /// Milliseconds an answer may take.
    pub timeout_ms: u32,
    /// Seconds that an answer is remembered.
    pub cache_s: u32,
}

/// Texts that are never printed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct HiddenList(Vec<String>);

impl HiddenList {
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

impl Section for Http {
    const KEYS: &'static [Key<Self>] = &[
        key!(
            url,
            URL_OR_NONE,
            Restart,
            "Where a question about each client is posted as JSON; \"\" is nowhere."
        )
        .url(),
        key!(
            headers,
            Kind::List { what: "of \"Name: value\"", max: 16, fits: is_header },
            Restart,
            "What is sent with it. Never printed."
        )
        .secret(),
        key!(
            timeout_ms,
            Kind::whole(10, 60_000, "milliseconds"),
            Restart,
            "How long the answer may take. Then the client is refused: server unavailable."
        ),
        key!(
            cache_s,
            Kind::whole(0, 86_400, "seconds"),
            Restart,
            "How long an answer that lets in is remembered; 0 is not at all."
        ),
    ];

    fn blank(_: &str) -> Result<Self, String> {
        let (url, headers) = (String::new(), HiddenList::default());
        Ok(Http { url, headers, timeout_ms: 5_000, cache_s: 0 })
    }
}

/// Signatures of tokens, as RFC 7518 names them.
const ALGORITHMS: [&str; 12] = [
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256",
    "ES384", "EdDSA",
];

const SHORT: Kind = Kind::Text { what: "a text of at most 1024 bytes", fits: |t| t.len() <= 1_024 };

const URL_OR_NONE: Kind = Kind::Text {
    what: "an http:// or https:// address, or empty for none",
    fits: |text| text.is_empty() || is_url(text),
};

fn is_token_secret(text: &str) -> bool {
    text.is_empty() || (32..=1_024).contains(&text.len()) && !text.starts_with("-----BEGIN")
}

fn is_header(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let named =
        text.split_once(':').is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(plain));
    named && text.len() <= 4_096 && !text.contains(['\r', '\n', '\0'])
}
