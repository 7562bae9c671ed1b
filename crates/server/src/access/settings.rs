//! Settings of access with the files they name, and how these are read.
//!
//! Every file is read whole, at the start and again at a reload; one that is broken refuses all.
//! The meaning of lines is `guard`'s part. Keeps nothing.

use super::ban_book::BanSettings;
use super::ldap::LdapService;
use crate::config::{AccessSection, AccountsSection, Http, LdapSection, MySqlSection, Token};
use crate::start::{authorities, pem};
use base::setting::Hidden;
use database::DatabaseSettings;
use guard::accounts::Accounts;
use guard::acl::AclFile;
use guard::passwords::Hashing;
use guard::scram::ScramHash;
use guard::token::{Algorithm, Keys, TokenPolicy};
use guard::{CacheLimits, LdapPolicy, ListenerPolicy, Method, PeopleFiles, SourceLimits};
use ldap::LdapSettings;
use std::collections::HashSet;
use std::path::Path;

/// Bytes of a file of users or rules, at most.
const FILE_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Bytes of a file of keys, at most.
const KEY_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Settings of access, with the names of its files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// `[access]`.
    pub access: AccessSection,
    /// `[accounts]`.
    pub accounts: AccountsSection,
    /// `[mysql]`.
    pub mysql: MySqlSection,
    /// Administrators of the server, by its console or by protocols of chat.
    pub administrators: HashSet<String>,
    /// The domain of chat whose accounts are users by their bare names.
    pub chat_domain: Box<str>,
    /// `[bans]`.
    pub bans: BanSettings,
    /// How one comes in, by the number of the listener that was opened.
    pub doors: Vec<ListenerPolicy>,
}

impl Settings {
    /// How tokens are verified; `None`: none are taken.
    pub(super) fn token(&self) -> Option<&Token> {
        Some(&self.access.token).filter(|token| token.is_set())
    }

    /// The service that is asked about each client, if there is one.
    pub(super) fn http(&self) -> Option<&Http> {
        Some(&self.access.http).filter(|http| !http.url.is_empty())
    }

    /// How the LDAP server is asked, if there is one; in words, which file cannot be read.
    pub(super) fn ldap(&self) -> Option<Result<LdapSettings, String>> {
        Some(&self.access.ldap).filter(|section| section.is_on()).map(ldap_settings)
    }

    /// Where keys of tokens are fetched; "" is nowhere.
    pub(super) fn keys_url(&self) -> &str {
        &self.access.token.jwks_url
    }

    /// Whether somebody has to be asked who is not here.
    pub(super) fn asks(&self) -> bool {
        self.http().is_some() || self.access.ldap.is_on() || !self.keys_url().is_empty()
    }

    /// Reads the files that the settings name; the error says in words what is wrong.
    pub(super) fn load(&self) -> Result<(guard::Settings, PeopleFiles), String> {
        self.check()?;
        self.database()?;
        LdapService::new(self)?;
        let access = &self.access;
        let mut files = PeopleFiles::default();
        if let Some(path) = &access.password_file {
            let text = read(path, FILE_BYTES_MAX).map_err(of_key("password_file"))?;
            let name = path.display().to_string();
            files.accounts = Accounts::parse(&name, &text).map_err(|all| all.to_string())?;
        }
        if let Some(path) = &access.acl_file {
            let text = read(path, FILE_BYTES_MAX).map_err(of_key("acl_file"))?;
            let name = path.display().to_string();
            files.acl = Some(AclFile::parse(&name, &text).map_err(|all| all.to_string())?);
        }
        if let Some(token) = self.token() {
            files.keys = keys(token)?;
        }
        let settings = guard::Settings {
            superusers: access.superusers.clone(),
            administrators: self.administrators.clone(),
            client_ids: access.client_ids.clone(),
            allow_unmatched: access.allow_unmatched,
            doors: self.doors.clone(),
            hashing: Hashing {
                scheme: access.hash,
                cost: access.hash_cost,
                scram_iterations: access.scram_iterations,
                scram_sha_1: access.scram_hashes.contains(&ScramHash::Sha1),
            },
            scram_hashes: access.scram_hashes.clone(),
            users_max: access.users_max,
            users_cached_max: access.users_cached_max,
            cache: CacheLimits {
                count_max: access.cache_count_max,
                positive_s: access.cache_s,
                negative_s: access.cache_refused_s,
            },
            sources: SourceLimits {
                failures_max: access.failures_a_source_max,
                sources_max: access.sources_max,
            },
            token: self.token().map(policy).transpose()?,
            http_cache_s: self.http().map(|http| http.cache_s),
            ldap: Some(&access.ldap).filter(|ldap| ldap.is_on()).map(|ldap| LdapPolicy {
                cache_s: ldap.cache_s,
                gives_super: !ldap.superuser_filter.is_empty(),
            }),
        };
        Ok((settings, files))
    }

    /// How the database of accounts is reached, where there is one.
    pub(super) fn database(&self) -> Result<Option<DatabaseSettings>, String> {
        let url = self.accounts.store.reveal();
        let settings = (!url.is_empty()).then(|| database_settings(url, &self.mysql));
        settings.transpose().map_err(|why| format!("[mysql] {why}"))
    }

    /// Settings of several of them.
    fn check(&self) -> Result<(), String> {
        let only = |method| self.doors.iter().any(|door| door.methods == [method]);
        let rules = [
            (
                only(Method::Token) && self.token().is_none(),
                "a listener requires tokens, but none are configured: set how to verify them in \
                 [access.token]",
            ),
            (
                only(Method::Ldap) && !self.access.ldap.is_on(),
                "a listener uses an LDAP server, but none is configured: set its urls in \
                 [access.ldap]",
            ),
            (
                only(Method::Http) && self.http().is_none(),
                "a listener uses an external service, but none is configured: set its url in \
                 [access.http]",
            ),
        ];
        match rules.into_iter().find(|(broken, _)| *broken) {
            Some((_, rule)) => Err(rule.into()),
            None => Ok(()),
        }
    }
}

/// How the database at a URL is reached; in words, which file cannot be read.
pub fn database_settings(url: &str, mysql: &MySqlSection) -> Result<DatabaseSettings, String> {
    let password = password(&mysql.password, mysql.password_file.as_deref())?;
    let ca = || {
        authorities(mysql.ca.as_deref()).ok_or(
            "tls needs ca: no CA certificates are \
                                                        configured",
        )
    };
    let tls = if mysql.tls { Some(pem(&ca()?)?) } else { None };
    Ok(DatabaseSettings { url: url.into(), password, tls, timeout_ms: mysql.timeout_ms })
}

fn ldap_settings(section: &LdapSection) -> Result<LdapSettings, String> {
    let ca = match section.start_tls || section.has_ldaps() {
        true => authorities(section.ca.as_deref()).map(|path| pem(&path)).transpose()?,
        false => None,
    };
    let password = password(&section.password, section.password_file.as_deref())?;
    if password.is_empty() && !section.bind_dn.is_empty() {
        return Err("password_file: its first line is empty".into());
    }
    Ok(LdapSettings {
        urls: section.urls.clone(),
        start_tls: section.start_tls,
        ca,
        bind_dn: section.bind_dn.clone(),
        password,
        user_dn: section.user_dn.clone(),
        base: section.base.clone(),
        filter: section.filter.clone(),
        name_attribute: section.name_attribute.clone(),
        group_filter: section.group_filter.clone(),
        superuser_filter: section.superuser_filter.clone(),
        group_base: section.group_base.clone(),
        timeout_ms: section.timeout_ms,
    })
}

/// A password, or the first line of its file.
fn password(password: &Hidden, file: Option<&Path>) -> Result<String, String> {
    match file {
        None => Ok(password.reveal().to_owned()),
        Some(path) => {
            let text = read(path, KEY_FILE_BYTES_MAX)?;
            Ok(text.lines().next().unwrap_or_default().to_owned())
        }
    }
}

fn keys(token: &Token) -> Result<Keys, String> {
    let mut keys = Keys::default();
    let secret = token.secret.reveal().as_bytes();
    if !secret.is_empty() {
        keys.add_secret(secret).map_err(|words| format!("[access.token] secret: {words}"))?;
    }
    for path in token.key_files.iter().map(Path::new) {
        let text = read(path, KEY_FILE_BYTES_MAX)?;
        let is_set = path.extension().is_some_and(|end| end == "json");
        let added = if is_set { keys.add_set(&text) } else { keys.add_pem(&text) };
        added.map_err(|words| format!("{}: {words}", path.display()))?;
    }
    Ok(keys)
}

fn policy(token: &Token) -> Result<TokenPolicy, String> {
    let algorithm = |name: &String| {
        Algorithm::of(name).ok_or_else(|| {
            let all: Vec<_> = Algorithm::ALL.iter().map(|one| one.name()).collect();
            format!("[access.token] algorithms: {name:?} is not one of {}", all.join(", "))
        })
    };
    let some = |text: &String| (!text.is_empty()).then(|| text.clone());
    let equal = token.equal.iter().filter_map(|text| text.split_once('='));
    Ok(TokenPolicy {
        algorithms: token.algorithms.iter().map(algorithm).collect::<Result<_, _>>()?,
        issuer: some(&token.issuer),
        audience: some(&token.audience),
        leeway_s: token.leeway_s,
        must_expire: token.must_expire,
        user_claim: token.user_claim.clone(),
        equal: equal.map(|(claim, value)| (claim.to_owned(), value.to_owned())).collect(),
        acl_claim: token.acl_claim.clone(),
        fetches_keys: !token.jwks_url.is_empty(),
    })
}

/// Adds the key of `[access]` that names a file to the words about it.
fn of_key(key: &'static str) -> impl Fn(String) -> String {
    move |why| format!("[access] {key}: {why}; create the file, or remove the key")
}

fn read(path: &Path, bytes_max: u64) -> Result<String, String> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    let bytes = std::fs::metadata(path).map_err(named)?.len();
    if bytes > bytes_max {
        return Err(format!("{}: more than {bytes_max} bytes", path.display()));
    }
    std::fs::read_to_string(path).map_err(named)
}
