//! Settings of whoever uses MySQL, and what is made of them.
//!
//! Files are read elsewhere: here certificates are bytes. No error here has a password in it.

use mysql_async::{Opts, OptsBuilder, SslOpts};
use std::fmt;
use std::time::Duration;

/// Error for a URL of another form.
const FORM: &str = "the form of a database URL is mysql://user@host:3306/name, with % and two \
                    hexadecimal digits for / ? @ : and % in a name or password";

/// Connections are kept alive by the system.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// How to reach a database.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseSettings {
    /// `mysql://user[:password]@host[:port]/name`.
    pub url: String,
    /// The password, where the URL has none; "": none.
    pub password: String,
    /// Connections are encrypted, and the server's certificate is of one of these authorities, PEM.
    /// Absent: they are not.
    pub tls: Option<Vec<u8>>,
    /// Within which a call ends, milliseconds.
    pub timeout_ms: u32,
}

impl fmt::Debug for DatabaseSettings {
    /// Without what is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DatabaseSettings { timeout_ms, tls, .. } = self;
        let mut out = f.debug_struct("DatabaseSettings");
        out.field("tls", &tls.is_some()).field("timeout_ms", timeout_ms).finish_non_exhaustive()
    }
}

impl DatabaseSettings {
    /// The most time that a call takes.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.max(1).into())
    }

    /// The settings as options of the client library. An error names what is wrong with the URL.
    pub(crate) fn options(&self) -> Result<Opts, String> {
        let opts = parse(&self.url)?;
        let password = opts
            .pass()
            .map(str::to_owned)
            .or_else(|| Some(self.password.clone()).filter(|password| !password.is_empty()));
        let tls = self.tls.clone().map(|ca| {
            let roots = vec![ca.into()];
            SslOpts::default().with_root_certs(roots).with_disable_built_in_roots(true)
        });
        // A lock is waited for as long as a call may take, and no longer.
        let lock_s = self.timeout().as_secs().max(1);
        let setup = vec![
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned(),
            "SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')".to_owned(),
            format!("SET SESSION innodb_lock_wait_timeout = {lock_s}"),
            "SET NAMES utf8mb4".to_owned(),
        ];
        let builder = OptsBuilder::from_opts(opts)
            .pass(password)
            .ssl_opts(tls)
            .prefer_socket(false)
            .tcp_keepalive(Some(KEEP_ALIVE))
            .setup(setup);
        Ok(builder.into())
    }
}

/// Checks a URL; the error says what is wrong with it.
pub fn check_url(url: &str) -> Result<(), String> {
    parse(url).map(drop)
}

fn parse(url: &str) -> Result<Opts, String> {
    if !url.starts_with("mysql://") || url.contains(['?', '#']) {
        return Err(FORM.into());
    }
    let opts = Opts::from_url(url).map_err(|_| FORM.to_owned())?;
    let has = |part: Option<&str>| part.is_some_and(|part| !part.is_empty());
    match has(opts.user()) && has(opts.db_name()) && !opts.ip_or_hostname().is_empty() {
        true => Ok(opts),
        false => Err(FORM.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str, password: &str) -> DatabaseSettings {
        let (url, password) = (url.into(), password.into());
        DatabaseSettings { url, password, tls: None, timeout_ms: 1_000 }
    }

    #[test]
    fn a_url_names_user_host_and_database() {
        let of = |url: &str, password: &str| settings(url, password).options();
        let opts = of("mysql://ann@db.example/chat", "s").expect("right");
        assert_eq!(
            (opts.user(), opts.pass(), opts.db_name()),
            (Some("ann"), Some("s"), Some("chat"))
        );
        assert_eq!((opts.ip_or_hostname(), opts.tcp_port()), ("db.example", 3_306));
        let opts = of("mysql://a%40b:p%2Fq@[::1]:3307/chat", "other").expect("right");
        assert_eq!((opts.user(), opts.pass(), opts.tcp_port()), (Some("a@b"), Some("p/q"), 3_307));
        assert!(of("mysql://ann@h/d", "").expect("right").pass().is_none());
    }

    #[test]
    fn what_is_no_url_is_refused_without_its_password() {
        for url in [
            "",
            "mysql://",
            "mysql://host/db",
            "mysql://user@host",
            "mysql://user@host/",
            "mysqls://secret@host/db",
            "postgres://user:secret@host/db",
            "mysql://user:secret@host:99999/db",
            "mysql://user:secret@host/db?ssl=x",
            "mysql://user:secret@/db",
        ] {
            let why = check_url(url).expect_err(url);
            assert!(why == FORM, "{why}");
        }
        let told = format!("{:?}", settings("mysql://u:secret@h/d", "secret"));
        assert!(!told.contains("secret"), "{told}");
    }
}
