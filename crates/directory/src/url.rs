//! The URL of a directory: which Redis it is, and how one is let in.
//!
//! ```text
//! redis[s]://[user[:password]@]host[:port][/db]
//! redis[s]+sentinel://[user[:password]@]host[:port],host[:port]/master[/db]
//!                     [?sentinel_user=…&sentinel_password=…]
//! redis[s]+cluster://[user[:password]@]host[:port],host[:port]
//! ```
//!
//! `rediss` is TLS. User, password and name may be percent-encoded. A password without a user is
//! written `:password@`.

use std::fmt;

/// Kind of Redis: one server, Sentinel or Cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RedisKind {
    /// One server.
    Standalone,
    /// A master that Sentinels name.
    Sentinel,
    /// A Redis Cluster.
    Cluster,
}

impl RedisKind {
    /// The word in answers.
    pub const fn name(self) -> &'static str {
        match self {
            RedisKind::Standalone => "redis",
            RedisKind::Sentinel => "redis-sentinel",
            RedisKind::Cluster => "redis-cluster",
        }
    }
}

/// A host, a name or an address, and a port.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct HostPort {
    /// A name or an address; one of IPv6 without brackets.
    pub host: Box<str>,
    /// The port.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Credentials. Their `Debug` says only that there is a password.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    /// The ACL user; none: the default user.
    pub user: Option<Box<str>>,
    /// The password.
    pub password: Option<Box<str>>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| "…");
        f.debug_struct("Account").field("user", &self.user).field("password", &password).finish()
    }
}

/// Parts of a URL of Redis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedisUrl {
    /// Which Redis it is.
    pub kind: RedisKind,
    /// Whether connections are encrypted.
    pub tls: bool,
    /// The server; or the Sentinels; or nodes of the cluster, some of which suffice.
    pub places: Vec<HostPort>,
    /// How servers let one in.
    pub account: Credentials,
    /// How Sentinels do.
    pub sentinel_account: Credentials,
    /// The number of the database.
    pub db: u16,
    /// The name of the master among Sentinels; otherwise empty.
    pub master: Box<str>,
}

/// Port of a server, and of a Sentinel, where the URL has none.
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26_379;
const ENCODE: &str = "in users, passwords and names write `/` as %2F, `?` as %3F, `@` as %40 and \
                      `%` as %25";
/// Servers that a URL may name.
const PLACES_MAX: usize = 64;

/// Parses a URL; the error says what is wrong with it.
pub fn parse(url: &str) -> Result<RedisUrl, String> {
    let (scheme, rest) = url.split_once("://").ok_or_else(|| forms("`://` is missing"))?;
    let (tls, kind) = match scheme {
        "redis" => (false, RedisKind::Standalone),
        "rediss" => (true, RedisKind::Standalone),
        "redis+sentinel" => (false, RedisKind::Sentinel),
        "rediss+sentinel" => (true, RedisKind::Sentinel),
        "redis+cluster" => (false, RedisKind::Cluster),
        "rediss+cluster" => (true, RedisKind::Cluster),
        other => return Err(forms(&format!("unknown scheme `{other}`"))),
    };
    let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = path.strip_prefix('/').unwrap_or(path);
    // A password may have an `@` that is not encoded; a host never has.
    let (account, places) = match authority.rsplit_once('@') {
        Some((account, places)) => (account_of(account)?, places),
        // Then what looks like a host may be half a password: it is not told.
        None if rest.contains('@') => return Err(ENCODE.into()),
        None => (Credentials::default(), authority),
    };
    let port = if kind == RedisKind::Sentinel { SENTINEL_PORT } else { PORT };
    let places = places.split(',').map(|place| place_of(place, port)).collect::<Result<_, _>>()?;
    let (master, db) = path_of(kind, path)?;
    let sentinel_account = query_of(kind, query)?;
    let target = RedisUrl { kind, tls, places, account, sentinel_account, db, master };
    match (kind, target.places.len()) {
        (RedisKind::Standalone, 2..) => Err("`redis://` takes one host; several are for \
            `redis+sentinel://` and `redis+cluster://`"
            .into()),
        (_, count) if count > PLACES_MAX => Err(format!(
            "{count} hosts; the maximum is \
                                                         {PLACES_MAX}"
        )),
        _ => Ok(target),
    }
}

fn forms(wrong: &str) -> String {
    format!(
        "{wrong}; allowed are `redis://host:port/db`, `redis+sentinel://host:port,host:port/master`\
         , `redis+cluster://host:port,host:port`, each with `rediss` for TLS and with \
         `user:password@` before the hosts"
    )
}

fn account_of(text: &str) -> Result<Credentials, String> {
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, Some(decode(password)?)),
        None => (text, None),
    };
    let user = decode(user)?;
    if !user.is_empty() && password.is_none() {
        return Err("the password is missing: write `user:password@` or `:password@`".into());
    }
    Ok(Credentials { user: Some(user).filter(|user| !user.is_empty()), password })
}

fn place_of(text: &str, default: u16) -> Result<HostPort, String> {
    // The text itself is not told: where the host was forgotten, it is a password.
    let wrong = || "write a host with its port as `name:6379` or `[::1]:6379`".to_string();
    let (host, port) = match text.strip_prefix('[') {
        Some(text) => {
            let (host, port) = text.split_once(']').ok_or_else(wrong)?;
            (
                host,
                if port.is_empty() {
                    None
                } else {
                    Some(port.strip_prefix(':').ok_or_else(wrong)?)
                },
            )
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?,
        None => default,
    };
    let known = |c: char| c.is_ascii_alphanumeric() || ".-_:%".contains(c);
    if host.is_empty() || !host.chars().all(known) {
        return Err(wrong());
    }
    Ok(HostPort { host: host.into(), port })
}

/// The master's name and the database.
fn path_of(kind: RedisKind, path: &str) -> Result<(Box<str>, u16), String> {
    let (master, db) = match kind {
        RedisKind::Sentinel => path.split_once('/').unwrap_or((path, "")),
        _ => ("", path),
    };
    if kind == RedisKind::Sentinel && master.is_empty() {
        return Err("the name of the master is missing: write it after the Sentinels: \
                    `…/mymaster`"
            .into());
    }
    let db = match db {
        "" => 0,
        db => db.parse().map_err(|_| "after the hosts and `/`, a database number is expected")?,
    };
    if kind == RedisKind::Cluster && db != 0 {
        return Err("a Redis Cluster has only database 0".into());
    }
    Ok((decode(master)?, db))
}

/// How Sentinels let one in.
fn query_of(kind: RedisKind, query: &str) -> Result<Credentials, String> {
    let mut account = Credentials::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match (kind, name) {
            (RedisKind::Sentinel, "sentinel_user") => account.user = Some(decode(value)?),
            (RedisKind::Sentinel, "sentinel_password") => account.password = Some(decode(value)?),
            _ => {
                return Err(
                    "after `?`, only `sentinel_user=` and `&sentinel_password=` are allowed, for \
                            Sentinels only"
                        .into(),
                );
            }
        }
    }
    if account.user.is_some() && account.password.is_none() {
        return Err("`sentinel_user` without `sentinel_password`".into());
    }
    Ok(account)
}

fn decode(text: &str) -> Result<Box<str>, String> {
    // The text itself is not told: it may be a password.
    let wrong = || "a `%` must be followed by two hexadecimal digits (`%25` is `%`)".to_string();
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, after @ ..] = rest else { return Err(wrong()) };
        let digit = |byte: &u8| char::from(*byte).to_digit(16).ok_or_else(wrong);
        bytes.push((digit(high)? * 16 + digit(low)?) as u8);
        rest = after;
    }
    String::from_utf8(bytes).map(String::into_boxed_str).map_err(|_| wrong())
}

#[cfg(test)]
mod tests;
