//! Settings of access with the files they name, and how these are read.
//!
//! Every file is read whole, at the start and again at a reload; one that is broken refuses all.
//! What lines mean is `guard`'s part. It keeps nothing.

use guard::accounts::Accounts;
use guard::acl::AclFile;
use guard::passwords::Hashing;
use guard::token::{Algorithm, Keys, TokenPolicy};
use guard::{CacheLimits, ListenerPolicy, Method, PeopleFiles, SourceLimits};
use std::fmt;
use std::path::{Path, PathBuf};

/// Bytes of a file of users or rules, at most.
const FILE_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Bytes of a file of keys, at most.
const KEY_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Everything that is chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// File of users and passwords.
    pub password_file: Option<PathBuf>,
    /// File of rules.
    pub acl_file: Option<PathBuf>,
    /// Users who may do everything.
    pub superusers: Vec<String>,
    /// Client identifiers that may be chosen; none: any.
    pub client_ids: Vec<String>,
    /// What no rule speaks of is allowed, where there are rules.
    pub allow_unmatched: bool,
    /// How one comes in, by the number of the listener that was opened.
    pub doors: Vec<ListenerPolicy>,
    /// How new passwords are kept.
    pub hashing: Hashing,
    /// Users of the book. One more is refused.
    pub users_max: u32,
    /// What is remembered of checks.
    pub cache: CacheLimits,
    /// Tokens; absent: none are taken.
    pub token: Option<TokenSettings>,
    /// A service that is asked; absent: none is.
    pub http: Option<HttpSettings>,
    /// Threads that hash passwords.
    pub threads: u16,
    /// Threads that ask the service and fetch keys.
    pub ask_threads: u16,
    /// Questions that wait for either. One more is refused (unavailable), or one who is known less.
    pub waiting_max: u32,
    /// Those of one source. One more is refused (rate).
    pub waiting_a_source_max: u32,
    /// What is remembered of where clients come from.
    pub sources: SourceLimits,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            password_file: None,
            acl_file: None,
            superusers: Vec::new(),
            client_ids: Vec::new(),
            allow_unmatched: false,
            doors: vec![ListenerPolicy::default()],
            hashing: Hashing::default(),
            users_max: 1_000_000,
            cache: CacheLimits::default(),
            token: None,
            http: None,
            threads: 2,
            ask_threads: 8,
            waiting_max: 10_000,
            waiting_a_source_max: 1_000,
            sources: SourceLimits::default(),
        }
    }
}

/// JSON Web Tokens as passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSettings {
    /// The secret of those that are signed with one.
    pub secret: Option<Vec<u8>>,
    /// Files of public keys: PEM, or sets of keys when they end in `.json`.
    pub key_files: Vec<PathBuf>,
    /// Where a set of keys is fetched.
    pub jwks_url: Option<String>,
    /// Seconds after which it is fetched again.
    pub jwks_refresh_s: u32,
    /// How tokens may be signed; empty: as their keys allow.
    pub algorithms: Vec<String>,
    /// Who must have issued them.
    pub issuer: Option<String>,
    /// For whom they must be.
    pub audience: Option<String>,
    /// Seconds by which clocks may differ.
    pub leeway_s: u32,
    /// One without an end is refused.
    pub must_expire: bool,
    /// The claim whose value is the user; empty: the name the client gave, if `equal` proves it.
    pub user_claim: String,
    /// Claims that must have a value, with `%c` and `%u`.
    pub equal: Vec<(String, String)>,
    /// The claim with what the client may do; empty: none is looked at.
    pub acl_claim: String,
}

impl Default for TokenSettings {
    fn default() -> Self {
        let TokenPolicy { leeway_s, must_expire, user_claim, acl_claim, .. } =
            TokenPolicy::default();
        TokenSettings {
            secret: None,
            key_files: Vec::new(),
            jwks_url: None,
            jwks_refresh_s: 3_600,
            algorithms: Vec::new(),
            issuer: None,
            audience: None,
            leeway_s,
            must_expire,
            user_claim,
            equal: Vec::new(),
            acl_claim,
        }
    }
}

impl fmt::Debug for TokenSettings {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = self.secret.as_ref().map(|_| "…");
        write!(f, "TokenSettings {{ secret: {secret:?}, key_files: {:?}, ", self.key_files)?;
        write!(f, "jwks_url: {:?}, issuer: {:?}, .. }}", self.jwks_url, self.issuer)
    }
}

/// A service that is asked about each client.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpSettings {
    /// Where questions are posted.
    pub url: String,
    /// What is sent besides, names and values.
    pub headers: Vec<(String, String)>,
    /// Milliseconds an answer may take.
    pub timeout_ms: u32,
    /// Seconds that an answer without an end is remembered; 0: not at all.
    pub cache_s: u32,
}

impl Default for HttpSettings {
    fn default() -> Self {
        HttpSettings { url: String::new(), headers: Vec::new(), timeout_ms: 5_000, cache_s: 0 }
    }
}

impl fmt::Debug for HttpSettings {
    /// Without the headers, which may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = admin::shown_url(&self.url);
        write!(f, "HttpSettings {{ url: {url:?}, timeout_ms: {}, .. }}", self.timeout_ms)
    }
}

impl Settings {
    /// Whether somebody has to be asked who is not here.
    pub(super) fn asks(&self) -> bool {
        let fetches = self.token.as_ref().is_some_and(|token| token.jwks_url.is_some());
        self.http.is_some() || fetches
    }

    /// What access control needs of them, with the files read; in words for the operator, what is
    /// wrong.
    pub(super) fn load(&self) -> Result<(guard::Settings, PeopleFiles), String> {
        self.check()?;
        let mut files = PeopleFiles::default();
        if let Some(path) = &self.password_file {
            let text = read(path, FILE_BYTES_MAX)?;
            let name = path.display().to_string();
            files.accounts = Accounts::parse(&name, &text).map_err(|all| all.to_string())?;
        }
        if let Some(path) = &self.acl_file {
            let text = read(path, FILE_BYTES_MAX)?;
            let name = path.display().to_string();
            files.acl = Some(AclFile::parse(&name, &text).map_err(|all| all.to_string())?);
        }
        let token = match &self.token {
            None => None,
            Some(token) => {
                files.keys = token.keys()?;
                Some(token.policy()?)
            }
        };
        let settings = guard::Settings {
            superusers: self.superusers.clone(),
            client_ids: self.client_ids.clone(),
            allow_unmatched: self.allow_unmatched,
            doors: self.doors.clone(),
            hashing: self.hashing,
            users_max: self.users_max,
            cache: self.cache,
            sources: self.sources,
            token,
            http_cache_s: self.http.as_ref().map(|http| http.cache_s),
        };
        Ok((settings, files))
    }

    /// What concerns several of them.
    fn check(&self) -> Result<(), String> {
        let only = |method| self.doors.iter().any(|door| door.methods == [method]);
        let rules = [
            (
                only(Method::Token) && self.token.is_none(),
                "a listener wants tokens, and none are \
              configured: say how they are verified in [access.token]",
            ),
            (
                only(Method::Http) && self.http.is_none(),
                "a listener asks a service, and none is \
              configured: give its url in [access.http]",
            ),
            (
                self.http.as_ref().is_some_and(|http| !is_url(&http.url)),
                "url in [access.http] begins with http:// or https://",
            ),
            (
                self.token
                    .as_ref()
                    .and_then(|token| token.jwks_url.as_ref())
                    .is_some_and(|url| !is_url(url)),
                "jwks_url in [access.token] begins with http:// or https://",
            ),
            (self.threads == 0 || self.ask_threads == 0, "threads is at least 1"),
        ];
        match rules.into_iter().find(|(broken, _)| *broken) {
            Some((_, rule)) => Err(rule.into()),
            None => Ok(()),
        }
    }
}

impl TokenSettings {
    fn keys(&self) -> Result<Keys, String> {
        let mut keys = Keys::default();
        if let Some(secret) = &self.secret {
            keys.add_secret(secret).map_err(|words| format!("[access.token] secret: {words}"))?;
        }
        for path in &self.key_files {
            let text = read(path, KEY_FILE_BYTES_MAX)?;
            let is_set = path.extension().is_some_and(|end| end == "json");
            let added = if is_set { keys.add_set(&text) } else { keys.add_pem(&text) };
            added.map_err(|words| format!("{}: {words}", path.display()))?;
        }
        if keys.is_empty() && self.jwks_url.is_none() {
            return Err("[access.token] wants a secret, key_files or a jwks_url".into());
        }
        Ok(keys)
    }

    fn policy(&self) -> Result<TokenPolicy, String> {
        let algorithm = |name: &String| {
            Algorithm::of(name).ok_or_else(|| {
                let all: Vec<_> = Algorithm::ALL.iter().map(|one| one.name()).collect();
                format!("[access.token] algorithms: {name:?} is none of {}", all.join(", "))
            })
        };
        Ok(TokenPolicy {
            algorithms: self.algorithms.iter().map(algorithm).collect::<Result<_, _>>()?,
            issuer: self.issuer.clone(),
            audience: self.audience.clone(),
            leeway_s: self.leeway_s,
            must_expire: self.must_expire,
            user_claim: self.user_claim.clone(),
            equal: self.equal.clone(),
            acl_claim: self.acl_claim.clone(),
            fetches_keys: self.jwks_url.is_some(),
        })
    }
}

fn is_url(url: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme))
}

fn read(path: &Path, bytes_max: u64) -> Result<String, String> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    let bytes = std::fs::metadata(path).map_err(named)?.len();
    if bytes > bytes_max {
        return Err(format!("{}: more than {bytes_max} bytes", path.display()));
    }
    std::fs::read_to_string(path).map_err(named)
}
