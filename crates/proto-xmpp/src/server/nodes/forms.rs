//! How a node is, as a form (XEP-0060 16.4.4, XEP-0004): what a client wants of it, and what it is.
//!
//! A field that says nothing about how nodes are here is left alone; one that wants what is not
//! there is refused.

use crate::forms::{FORMS, field, fields, number};
use crate::xml::scan::{Element, Scan};
use model::chat::{NODE_GROUPS_MAX, NodeAccess, NodeConfig, NodeOptions, NodesFault, SendLast};

const CONFIGURATION: &str = "http://jabber.org/protocol/pubsub#node_config";
const META: &str = "http://jabber.org/protocol/pubsub#meta-data";

const ACCESS: [(&str, NodeAccess); 4] = [
    ("open", NodeAccess::Open),
    ("presence", NodeAccess::Presence),
    ("roster", NodeAccess::Groups),
    ("whitelist", NodeAccess::Members),
];

const SEND_LAST: [(&str, SendLast); 3] = [
    ("never", SendLast::Never),
    ("on_sub", SendLast::Subscribed),
    ("on_sub_and_presence", SendLast::Present),
];

/// The options that a form in an element sets; empty: the form is absent or cancelled.
pub(super) fn options(holder: &Element<'_, '_>) -> Result<NodeOptions, NodesFault> {
    let mut wanted = NodeOptions::default();
    let Some(form) = holder.child("x", FORMS) else { return Ok(wanted) };
    // Forms of publish-options are deeper than what is kept of a stanza.
    let scan = Scan::element(form.whole().as_bytes()).map_err(|_| NodesFault::Invalid)?;
    let form = scan.root();
    match form.attribute("type").as_deref() {
        Some("cancel") => return Ok(wanted),
        Some("submit") | None => {}
        Some(_) => return Err(NodesFault::Invalid),
    }
    for (name, values) in fields(&form) {
        let name = name.unwrap_or_default();
        let values: Vec<&str> = values.iter().map(|value| value.trim()).collect();
        let first = values.first().copied();
        match (name.strip_prefix("pubsub#"), first) {
            (Some("roster_groups_allowed"), _) => {
                if values.len() > NODE_GROUPS_MAX {
                    return Err(NodesFault::NotSupported);
                }
                wanted.groups = Some(values.into_iter().map(Box::from).collect());
            }
            (Some(name), Some(value)) => set(&mut wanted, name, value)?,
            _ => {}
        }
    }
    Ok(wanted)
}

fn set(wanted: &mut NodeOptions, name: &str, value: &str) -> Result<(), NodesFault> {
    match name {
        "access_model" => {
            let access = ACCESS.iter().find(|(word, _)| *word == value);
            wanted.access = Some(access.ok_or(NodesFault::NotSupported)?.1);
        }
        "send_last_published_item" => {
            let when = SEND_LAST.iter().find(|(word, _)| *word == value);
            wanted.send_last = Some(when.ok_or(NodesFault::NotSupported)?.1);
        }
        "max_items" if value == "max" => wanted.items_max = Some(u32::MAX),
        "max_items" => {
            wanted.items_max = Some(value.parse().map_err(|_| NodesFault::Invalid)?);
        }
        "persist_items" => wanted.persists = Some(truth(value)?),
        "notify_delete" => wanted.tells_deletes = Some(truth(value)?),
        "notify_retract" => wanted.tells_retracts = Some(truth(value)?),
        "deliver_payloads" => wanted.tells_payloads = Some(truth(value)?),
        "publish_model" if value != "publishers" => return Err(NodesFault::NotSupported),
        "deliver_notifications" if !truth(value)? => return Err(NodesFault::NotSupported),
        _ => {}
    }
    Ok(())
}

fn truth(value: &str) -> Result<bool, NodesFault> {
    crate::forms::truth(value).ok_or(NodesFault::Invalid)
}

/// The form of a node's owner.
pub(super) fn configuration(config: &NodeConfig) -> String {
    let most = match config.items_max {
        u32::MAX => "max".to_owned(),
        most => most.to_string(),
    };
    let mut fields = field("FORM_TYPE", "hidden", &[CONFIGURATION]);
    fields += &choice("access_model", word(&ACCESS, config.access), &ACCESS.map(|it| it.0));
    let groups: Vec<&str> = config.groups.iter().map(|group| &**group).collect();
    fields += &field("pubsub#roster_groups_allowed", "text-multi", &groups);
    fields += &field("pubsub#persist_items", "boolean", &[number(config.persists)]);
    fields += &field("pubsub#max_items", "text-single", &[&most]);
    let when = word(&SEND_LAST, config.send_last);
    fields += &choice("send_last_published_item", when, &SEND_LAST.map(|it| it.0));
    fields += &field("pubsub#notify_delete", "boolean", &[number(config.tells_deletes)]);
    fields += &field("pubsub#notify_retract", "boolean", &[number(config.tells_retracts)]);
    fields += &field("pubsub#deliver_payloads", "boolean", &[number(config.tells_payloads)]);
    fields += &choice("publish_model", "publishers", &["publishers"]);
    format!("<x xmlns='{FORMS}' type='form'>{fields}</x>")
}

/// Metadata of a node for its readers (XEP-0060 5.4).
pub(super) fn information(config: &NodeConfig) -> String {
    let mut fields = field("FORM_TYPE", "hidden", &[META]);
    fields += &field("pubsub#access_model", "list-single", &[word(&ACCESS, config.access)]);
    format!("<x xmlns='{FORMS}' type='result'>{fields}</x>")
}

fn word<T: PartialEq>(words: &[(&'static str, T)], it: T) -> &'static str {
    words.iter().find(|(_, other)| *other == it).map_or("", |(word, _)| word)
}

fn choice(name: &str, value: &str, options: &[&str]) -> String {
    let option = |word: &&str| format!("<option><value>{word}</value></option>");
    let options: String = options.iter().map(option).collect();
    let name = format!("<field var='pubsub#{name}' type='list-single'>");
    format!("{name}<value>{value}</value>{options}</field>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &str) -> Result<NodeOptions, NodesFault> {
        let form = format!("<h><x xmlns='{FORMS}' type='submit'>{fields}</x></h>");
        options(&Scan::element(form.as_bytes()).expect("XML").root())
    }

    fn says(name: &str, value: &str) -> String {
        format!("<field var='pubsub#{name}'><value>{value}</value></field>")
    }

    #[test]
    fn a_form_is_read_as_it_is_written() {
        let config = NodeConfig {
            access: NodeAccess::Groups,
            groups: ["work & play".into()].into(),
            persists: false,
            items_max: u32::MAX,
            send_last: SendLast::Never,
            tells_deletes: false,
            tells_retracts: false,
            tells_payloads: false,
        };
        for config in [config, NodeConfig::default()] {
            let form = configuration(&config).replace("type='form'", "type='submit'");
            let holder = format!("<h>{form}</h>");
            let scan = Scan::element(holder.as_bytes()).expect("XML");
            let options = options(&scan.root()).expect("right");
            assert_eq!(options.over(&NodeConfig::default()), config);
        }
    }

    #[test]
    fn what_a_node_cannot_be_is_refused_and_what_is_none_of_it_is_left_alone() {
        for (name, value) in [
            ("access_model", "authorize"),
            ("access_model", ""),
            ("publish_model", "open"),
            ("send_last_published_item", "always"),
            ("deliver_notifications", "0"),
        ] {
            assert_eq!(read(&says(name, value)), Err(NodesFault::NotSupported), "{name} {value}");
        }
        for (name, value) in [("max_items", "-1"), ("max_items", "many"), ("persist_items", "x")] {
            assert_eq!(read(&says(name, value)), Err(NodesFault::Invalid), "{name} {value}");
        }
        assert_eq!(read(&says("title", "x")), Ok(NodeOptions::default()));
        let group = "<value>g</value>".repeat(NODE_GROUPS_MAX + 1);
        let many = format!("<field var='pubsub#roster_groups_allowed'>{group}</field>");
        assert_eq!(read(&many), Err(NodesFault::NotSupported));
    }
}
