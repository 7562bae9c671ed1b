//! Warnings about listeners that offer SCRAM to users whose passwords another server checks.

use super::{Config, ListenAddress, ListenSection, ListenerProtocol};
use guard::Method;

pub(super) fn warnings(config: &Config) -> Vec<String> {
    let access = &config.access;
    let others = [
        (access.ldap.is_on(), Method::Ldap, "ldap", "users of LDAP"),
        (!access.http.url.is_empty(), Method::Http, "http", "users of the HTTP service"),
    ];
    let mut warnings = Vec::new();
    for (_, method, section, users) in others.into_iter().filter(|(is_on, ..)| *is_on) {
        let listeners = config.listen.iter().filter(|listener| offers_both(listener, method));
        let names: Vec<&str> = listeners.map(|listener| listener.name.as_str()).collect();
        if !names.is_empty() && !access.scram_hashes.is_empty() {
            warnings.push(format!(
                "[access.{section}]: the listeners {} offer SCRAM, which XMPP clients and the chat \
                 page prefer, and by which {users} cannot log in; remove \"scram\" from their \
                 methods, or set [access] scram_hashes = []",
                names.join(", ")
            ));
        }
    }
    warnings
}

/// Whether clients that log in by this method may be offered SCRAM by the listener.
fn offers_both(listener: &ListenSection, method: Method) -> bool {
    let has = |method| listener.methods.contains(&method);
    let protocols = [
        ListenerProtocol::Any,
        ListenerProtocol::Im,
        ListenerProtocol::Xmpp,
        ListenerProtocol::Http,
    ];
    // Bridges have a listener of their own.
    let is_socket = matches!(listener.address, ListenAddress::Unix(_));
    listener.enabled
        && !is_socket
        && protocols.contains(&listener.protocol)
        && has(method)
        && has(Method::Scram)
}
