//! Topic names and topic filters (MQTT5 4.7 and 4.8.2, MQTT3 4.7).
//!
//! Levels are separated by `/` and may be empty. `+` stands for one level and `#` for all that
//! follow, the level in front of it included; both only as levels of their own, and only in
//! filters. Nothing is normalised: two names are the same if their bytes are (MQTT5 4.7.3-4).

use super::{DecodeRules, PacketFault, scan};

/// How a shared subscription's filter begins (MQTT5 4.8.2-1).
pub const SHARE_PREFIX: &str = "$share/";

/// Checks a topic name that is not empty (MQTT5 3.3.2-2, 4.7.0-1, 4.7.3-1).
pub fn check_name(name: &str, rules: &DecodeRules) -> Result<(), PacketFault> {
    let bytes = name.as_bytes();
    if bytes.is_empty() {
        return Err(PacketFault::NoTopic);
    }
    if has_wildcard(name) {
        return Err(PacketFault::WildcardInTopic);
    }
    if is_above(bytes, rules) { Err(PacketFault::TopicLimit) } else { Ok(()) }
}

/// Checks a topic filter, that of a shared subscription included. Before 5.0 one that does not
/// have the form of a shared one is a plain filter whose first level happens to be `$share`.
pub fn check_filter(filter: &str, rules: &DecodeRules) -> Result<(), PacketFault> {
    let plain = match split_share(filter) {
        Ok(Some((_, plain))) => plain,
        Err(fault) if rules.version.has_properties() => return Err(fault),
        Ok(None) | Err(_) => filter,
    };
    if plain.is_empty() {
        return Err(PacketFault::NoFilter);
    }
    check_wildcards(plain)?;
    if is_above(plain.as_bytes(), rules) { Err(PacketFault::FilterLimit) } else { Ok(()) }
}

/// Share name and filter of a shared subscription; `None` for another one (MQTT5 4.8.2-1,
/// 4.8.2-2).
pub fn split_share(filter: &str) -> Result<Option<(&str, &str)>, PacketFault> {
    let Some(shared) = filter.strip_prefix(SHARE_PREFIX) else { return Ok(None) };
    let (name, plain) = shared.split_once('/').unwrap_or((shared, ""));
    if name.is_empty() || name.contains(['+', '#']) {
        return Err(PacketFault::ShareName);
    }
    if plain.is_empty() { Err(PacketFault::ShareFilter) } else { Ok(Some((name, plain))) }
}

/// Whether a filter has a wildcard, so that it can match more than one name.
pub fn has_wildcard(filter: &str) -> bool {
    scan::has_wildcard(filter.as_bytes())
}

/// Whether a name is the server's own: those that begin with `$` (MQTT5 4.7.2).
pub fn is_reserved(name: &str) -> bool {
    name.starts_with('$')
}

/// Whether a plain filter matches a name (MQTT5 4.7.1, 4.7.2-1). The measure for every quicker
/// way of finding out.
pub fn matches(filter: &str, name: &str) -> bool {
    if is_reserved(name) && filter.starts_with(['+', '#']) {
        return false;
    }
    let (mut filter, mut name) = (filter.split('/'), name.split('/'));
    loop {
        match (filter.next(), name.next()) {
            (Some("#"), _) | (None, None) => return true,
            (Some("+"), Some(_)) => {}
            (Some(wanted), Some(level)) if wanted == level => {}
            _ => return false,
        }
    }
}

/// MQTT5 4.7.1-1 and 4.7.1-2.
fn check_wildcards(filter: &str) -> Result<(), PacketFault> {
    if !has_wildcard(filter) {
        return Ok(());
    }
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        let is_last = levels.peek().is_none();
        if level.contains('#') && (level != "#" || !is_last) {
            return Err(PacketFault::MultiLevelWildcard);
        }
        if level.contains('+') && level != "+" {
            return Err(PacketFault::SingleLevelWildcard);
        }
    }
    Ok(())
}

fn is_above(bytes: &[u8], rules: &DecodeRules) -> bool {
    let most = usize::try_from(rules.topic_levels_max).unwrap_or(usize::MAX);
    let levels = || 1 + bytes.iter().filter(|&&byte| byte == b'/').count();
    // A name of n bytes has n + 1 levels at most: only long ones are counted.
    bytes.len() > usize::from(rules.topic_bytes_max) || bytes.len() >= most && levels() > most
}
