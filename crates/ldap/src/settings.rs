//! Settings of an LDAP server, and the checked plan made from them.
//!
//! This file reads no files: certificates are passed as bytes.

use crate::address::ServerAddress;
use crate::filter::Filter;
use crate::template::Template;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::fmt;
use std::sync::Arc;

/// Settings of the lookup of users.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct LdapSettings {
    /// URLs of the servers, in the order in which they are tried.
    pub urls: Vec<String>,
    /// Encrypt plain connections by StartTLS before anything else is sent.
    pub start_tls: bool,
    /// CA certificates that a server's certificate is verified against, PEM. Required with TLS.
    pub ca: Option<Vec<u8>>,
    /// DN as which searches bind; "": anonymous.
    pub bind_dn: String,
    /// Password of `bind_dn`.
    pub password: String,
    /// Pattern of the name that users bind with; "": they bind with the DN of their entry, which is
    /// searched first.
    pub user_dn: String,
    /// Base of searches for users; "": the entry that `user_dn` names.
    pub base: String,
    /// Filter that matches the user's entry; `%u` is the name that the client gives.
    pub filter: String,
    /// The attribute with the user's name.
    pub name_attribute: String,
    /// Filter of the required group: the user may log in if an entry matches; "": every user may.
    pub group_filter: String,
    /// Filter of superusers: the user is one if an entry matches; "": none is.
    pub superuser_filter: String,
    /// Base of the searches with these two filters; "": the user's entry alone.
    pub group_base: String,
    /// Longest time of a call, milliseconds.
    pub timeout_ms: u32,
}

impl fmt::Debug for LdapSettings {
    /// Shows no secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("LdapSettings");
        out.field("urls", &self.urls).field("base", &self.base).finish_non_exhaustive()
    }
}

/// The name with which users bind.
pub(crate) enum BindName {
    /// The DN of the entry that was found.
    Found,
    /// A DN made of the user's name.
    Dn(Template),
    /// Another form of the user's name, as Active Directory accepts it.
    Form(Template),
}

/// Checked settings.
pub(crate) struct Plan {
    pub(crate) servers: Vec<ServerAddress>,
    pub(crate) start_tls: bool,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) bind_dn: String,
    pub(crate) password: String,
    pub(crate) bind_name: BindName,
    pub(crate) base: String,
    pub(crate) filter: Filter,
    pub(crate) name_attribute: String,
    pub(crate) group: Option<Filter>,
    pub(crate) superuser: Option<Filter>,
    pub(crate) group_base: String,
    pub(crate) timeout_ms: u32,
}

impl Plan {
    pub(crate) fn of(settings: &LdapSettings) -> Result<Plan, String> {
        let servers = settings.urls.iter().map(|url| ServerAddress::parse(url));
        let servers = servers.collect::<Result<Vec<_>, _>>()?;
        let encrypts = settings.start_tls || servers.iter().any(|server| server.tls);
        let filter = |key: &str, text: &str| {
            Filter::parse(text).map_err(|words| format!("{key} = {text:?}: {words}"))
        };
        let optional = |key: &str, text: &str| match text {
            "" => Ok(None),
            text => filter(key, text).map(Some),
        };
        let base = match (settings.base.as_str(), settings.group_base.as_str()) {
            (base, "") => base,
            (_, base) => base,
        };
        Ok(Plan {
            servers,
            start_tls: settings.start_tls,
            tls: if encrypts { Some(trust(settings.ca.as_deref())?) } else { None },
            bind_dn: settings.bind_dn.clone(),
            password: settings.password.clone(),
            bind_name: bind_name(&settings.user_dn)?,
            base: settings.base.clone(),
            filter: filter("filter", &settings.filter)?,
            name_attribute: settings.name_attribute.clone(),
            group: optional("group_filter", &settings.group_filter)?,
            superuser: optional("superuser_filter", &settings.superuser_filter)?,
            group_base: base.to_owned(),
            timeout_ms: settings.timeout_ms,
        })
    }
}

fn bind_name(user_dn: &str) -> Result<BindName, String> {
    let template =
        || Template::parse(user_dn).map_err(|why| format!("user_dn = {user_dn:?}: {why}"));
    match user_dn {
        "" => Ok(BindName::Found),
        dn if dn.contains('=') => template().map(BindName::Dn),
        _ => template().map(BindName::Form),
    }
}

fn trust(ca: Option<&[u8]>) -> Result<Arc<ClientConfig>, String> {
    let ca = ca.ok_or("TLS needs ca: no CA certificates are configured")?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca) {
        let certificate = certificate.map_err(|error| format!("ca: {error}"))?;
        // The system's bundle may contain a certificate that is too old to be parsed.
        let _ = roots.add(certificate);
    }
    if roots.is_empty() {
        return Err("ca: the file has no usable certificate".into());
    }
    // The crypto provider is named: a process may have several, and then has no default.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Checks a filter; the error says what is wrong with it. The filter must contain `%u`, or, for a
/// group's filter (`of_group`), `%u` or `%d`.
pub fn check_filter(text: &str, of_group: bool) -> Result<(), String> {
    let filter = Filter::parse(text)?;
    let has_dn = filter.any(&Template::has_dn);
    match (filter.any(&Template::has_user), of_group) {
        (false, false) => Err("it must contain %u, the name that the client gives".into()),
        (true, false) if has_dn => Err("%d is not known yet: the filter finds it".into()),
        (false, true) if !has_dn => {
            Err("it must contain %d, the DN of the user's entry, or %u, the name".into())
        }
        _ => Ok(()),
    }
}

/// Checks a pattern of names to bind with; the error says what is wrong with it.
pub fn check_user_dn(text: &str) -> Result<(), String> {
    let template = Template::parse(text)?;
    match template.has_user() && !template.has_dn() {
        true => Ok(()),
        false => Err("it must contain %u, the name that the client gives, and no %d".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_the_users_name() {
        assert_eq!(check_filter("(uid=%u)", false), Ok(()));
        // The filter is the example in docs/access.md.
        let nested = "(&(objectClass=user)(|(sAMAccountName=%u)(userPrincipalName=%u))(memberOf:\
                      1.2.840.113556.1.4.1941:=cn=Holdline,ou=Groups,dc=corp,dc=example))";
        assert_eq!(check_filter(nested, false), Ok(()));
        assert_eq!(check_filter("(&(cn=mqtt)(member=%d))", true), Ok(()));
        assert_eq!(check_filter("(&(cn=mqtt)(memberUid=%u))", true), Ok(()));
        for (text, of_group) in
            [("(uid=ann)", false), ("(member=%d)", false), ("(cn=mqtt)", true), ("(uid=%u", false)]
        {
            assert!(check_filter(text, of_group).is_err(), "{text}");
        }
        assert_eq!(check_user_dn("uid=%u,dc=corp"), Ok(()));
        assert!(check_user_dn("uid=ann").is_err() && check_user_dn("%d").is_err());
    }

    #[test]
    fn tls_needs_an_authority_and_nothing_secret_is_shown() {
        let settings = LdapSettings {
            urls: vec!["ldaps://a".into()],
            filter: "(uid=%u)".into(),
            password: "hush".into(),
            ..LdapSettings::default()
        };
        for ca in [None, Some(b"".to_vec()), Some(b"no PEM".to_vec())] {
            assert!(Plan::of(&LdapSettings { ca, ..settings.clone() }).is_err());
        }
        assert!(!format!("{settings:?}").contains("hush"));
    }
}
