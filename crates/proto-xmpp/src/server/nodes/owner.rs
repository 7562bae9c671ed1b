//! PubSub of accounts, for a node's owner (XEP-0060 8).

use super::pubsub::name_of;
use super::{OWNER, Want, Wanted, forms};
use crate::jid::Jid;
use crate::xml::scan::Element;
use crate::xml::text::escaped;
use model::account::AccountAddress;
use model::chat::{NODES_ASKED_MAX, NodeConfig, NodesAsk, NodesFault, NodesFound};

/// Members that one stanza may change.
const MEMBERS_MAX: usize = 8 * NODES_ASKED_MAX;

/// Request of a node's owner.
pub(super) fn asks(pubsub: &Element<'_, '_>, is_set: bool) -> Wanted {
    let Some(first) = pubsub.children().find(|it| it.namespace() == OWNER) else {
        return Err(NodesFault::Invalid);
    };
    match (first.name(), is_set) {
        ("configure", false) => {
            let node = name_of(&first)?;
            Ok((Want::Configuration(node.clone()), NodesAsk::Node(node)))
        }
        ("configure", true) => {
            let (node, options) = (name_of(&first)?, forms::options(&first)?);
            Ok((Want::Order, NodesAsk::Configure(node, Box::new(options))))
        }
        ("delete", true) => Ok((Want::Order, NodesAsk::Delete(name_of(&first)?))),
        ("purge", true) => Ok((Want::Order, NodesAsk::Purge(name_of(&first)?))),
        ("affiliations", false) => {
            let node = name_of(&first)?;
            Ok((Want::Members(node.clone()), NodesAsk::Accounts(node)))
        }
        ("subscriptions", false) => {
            let node = name_of(&first)?;
            Ok((Want::Subscribers(node.clone()), NodesAsk::Accounts(node)))
        }
        ("affiliations", true) => {
            let node = name_of(&first)?;
            let items = first.children().filter(|it| it.is("affiliation", OWNER));
            let changes = items.map(|item| member(&item)).collect::<Result<Box<[_]>, _>>()?;
            match changes.len() {
                1..=MEMBERS_MAX => Ok((Want::Order, NodesAsk::Members(node, changes))),
                0 => Err(NodesFault::Invalid),
                _ => Err(NodesFault::TooLarge),
            }
        }
        _ => Err(NodesFault::Unknown),
    }
}

fn member(item: &Element<'_, '_>) -> Result<(AccountAddress, bool), NodesFault> {
    let jid = item.attribute("jid").ok_or(NodesFault::Invalid)?;
    let account = Jid::parse(&jid).and_then(|jid| jid.account).ok_or(NodesFault::Invalid)?;
    match item.attribute("affiliation").as_deref() {
        Some("member") => Ok((account, true)),
        Some("none") => Ok((account, false)),
        _ => Err(NodesFault::Unknown),
    }
}

/// The form of a node, for its owner.
pub(super) fn form(node: &str, config: &NodeConfig) -> String {
    let form = forms::configuration(config);
    let node = escaped(node);
    format!("<pubsub xmlns='{OWNER}'><configure node='{node}'>{form}</configure></pubsub>")
}

/// Members of a node beside its owner, or its subscribers.
pub(super) fn accounts(
    node: &str,
    found: &NodesFound,
    (owner, are_members): (&str, bool),
) -> Result<String, NodesFault> {
    let NodesFound::Accounts { subscribers, members } = found else {
        return Err(NodesFault::Invalid);
    };
    let node = escaped(node);
    let entry = |jid: &str, word: &str| {
        let (jid, name) = (escaped(jid), if are_members { "affiliation" } else { "subscription" });
        format!("<{name} jid='{jid}' {name}='{word}'/>")
    };
    let inner: String = match are_members {
        true => {
            let members = members.iter().map(|it| entry(it.as_str(), "member"));
            entry(owner, "owner") + &members.collect::<String>()
        }
        false => subscribers.iter().map(|it| entry(it.as_str(), "subscribed")).collect(),
    };
    let name = if are_members { "affiliations" } else { "subscriptions" };
    Ok(format!("<pubsub xmlns='{OWNER}'><{name} node='{node}'>{inner}</{name}></pubsub>"))
}
