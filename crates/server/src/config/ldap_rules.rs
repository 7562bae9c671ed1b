//! Rules that join keys of `[access.ldap]`, and warnings about it.

use super::reader::{Reader, Sheet};
use super::{Config, LdapSection};

/// Looked at whether LDAP is used or not: a filter that is wrong is wrong.
pub(super) fn check(ldap: &LdapSection, reader: &mut Reader<'_>) {
    let sheet = Sheet::named("access", "ldap");
    let groups =
        [("group_filter", &ldap.group_filter), ("superuser_filter", &ldap.superuser_filter)];
    let filters = groups.into_iter().filter(|(_, filter)| !filter.is_empty());
    let filters = filters.map(|(key, filter)| (key, ldap::check_filter(filter, true)));
    let user_dn = match ldap.user_dn.as_str() {
        "" => Ok(()),
        user_dn => ldap::check_user_dn(user_dn),
    };
    let filter = [("filter", ldap::check_filter(&ldap.filter, false))];
    for (key, checked) in filter.into_iter().chain(filters).chain([("user_dn", user_dn)]) {
        if let Err(why) = checked {
            reader.broken(&[(&sheet, key)], &why, "correct it");
        }
    }
    if !ldap.is_on() {
        return;
    }
    let has_password = !ldap.password.reveal().is_empty() || ldap.password_file.is_some();
    let is_dn = ldap.user_dn.contains('=');
    let rules: [(bool, &[&'static str], &str, &str); 5] = [
        (
            ldap.bind_dn.is_empty() == has_password,
            &["bind_dn", "password", "password_file"],
            "bind_dn and its password go together",
            "set bind_dn with password or password_file, or none of them",
        ),
        (
            !ldap.password.reveal().is_empty() && ldap.password_file.is_some(),
            &["password", "password_file"],
            "bind_dn has only one password",
            "set password or password_file",
        ),
        (
            !ldap.bind_dn.is_empty() && !ldap.user_dn.is_empty(),
            &["user_dn", "bind_dn"],
            "searches are made as bind_dn, or as the user by user_dn",
            "remove one of them",
        ),
        (
            ldap.base.is_empty() && !is_dn,
            &["base", "urls"],
            "searches need a base",
            "set base to the DN below which users are, such as \"ou=people,dc=corp\"",
        ),
        (
            ldap.start_tls && ldap.has_ldaps(),
            &["start_tls", "urls"],
            "ldaps:// is encrypted from the first byte",
            "use ldap:// with start_tls, or ldaps:// without",
        ),
    ];
    for (_, keys, rule, remedy) in rules.into_iter().filter(|(broken, ..)| *broken) {
        let keys: Vec<_> = keys.iter().map(|key| (&sheet, *key)).collect();
        reader.broken(&keys, rule, remedy);
    }
}

pub(super) fn warnings(config: &Config) -> Vec<String> {
    let ldap = &config.access.ldap;
    let mut warnings = Vec::new();
    let near = ["127.", "localhost", "[::1]"];
    let is_bare = |url: &&String| {
        url.strip_prefix("ldap://").is_some_and(|rest| !near.iter().any(|it| rest.starts_with(it)))
    };
    if let Some(url) = ldap.urls.iter().find(is_bare).filter(|_| !ldap.start_tls) {
        warnings.push(format!(
            "[access.ldap] urls = [\"{url}\"]: passwords are sent without TLS, and anybody on the \
             network path can read them and forge the answer; set start_tls = true, or use ldaps://"
        ));
    }
    warnings
}
