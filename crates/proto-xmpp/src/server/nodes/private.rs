//! Private storage (XEP-0049): what a client keeps with the server, by the name of its element.
//! Bookmarks are those that are published (XEP-0402 5).

use super::bookmarks::{self, STORAGE, Storing};
use super::{CURRENT, Want, Wanted, payload, render};
use crate::claims::Xep;
use crate::server::feature::{Feature, Questions};
use crate::server::session::Session;
use crate::xml::scan::Element;
use crate::xml::text::escaped;
use model::chat::*;

pub(super) const PRIVATE: &str = "jabber:iq:private";

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[Xep::complete(
        49,
        ("Private XML Storage", "1.2"),
        "",
        "xmpp/test_pep.py::test_private_storage_is_ones_own_and_outlives_the_server",
    )],
    server: (&[PRIVATE], ""),
    account: (&[PRIVATE], ""),
    questions: &[Questions::of_devices(PRIVATE, Session::asks_own_nodes)],
    ..Feature::NONE
};

/// The node that keeps an element of this name.
pub(super) fn node_of(name: &str, namespace: &str) -> Box<str> {
    format!("{PRIVATE} {name} {namespace}").into()
}

/// How what is kept is: for nobody else.
pub(super) fn change(node: Box<str>, payload: Box<[u8]>) -> NodeChange {
    let own = NodeOptions { access: Some(NodeAccess::Members), ..NodeOptions::default() };
    let publish = vec![NodeItem { id: CURRENT.into(), payload }];
    let options = Some(Box::new(own));
    NodeChange { publish, options, ..NodeChange::of(NodeSpace::Kept, node) }
}

/// Order to store or return private data.
pub(super) fn asks(query: &Element<'_, '_>, is_set: bool) -> Wanted {
    let elements: Vec<_> = query.children().collect();
    let is_named = |it: &Element<'_, '_>| !matches!(it.namespace(), "" | PRIVATE);
    let (Some(first), true) = (elements.first(), elements.iter().all(is_named)) else {
        return Err(NodesFault::NotSupported);
    };
    if elements.iter().any(|it| it.is("storage", STORAGE)) {
        return match (elements.len(), is_set) {
            (1, false) => Ok(bookmarks::gets()),
            (1, true) => Storing::asks(first),
            _ => Err(NodesFault::NotSupported),
        };
    }
    if is_set {
        if elements.len() > NODES_ASKED_MAX {
            return Err(NodesFault::TooLarge);
        }
        let changes = elements.iter().map(|element| {
            Ok(change(node_of(element.name(), element.namespace()), payload(element)?))
        });
        let changes = changes.collect::<Result<Vec<_>, NodesFault>>()?;
        return Ok((Want::Order, NodesAsk::Change(changes)));
    }
    if elements.len() > 1 {
        return Err(NodesFault::Invalid);
    }
    let node = node_of(first.name(), first.namespace());
    let empty = format!("<{} xmlns='{}'/>", first.name(), escaped(first.namespace()));
    let wanted = ItemsWanted { space: NodeSpace::Kept, node, which: ItemsChosen::Last(1) };
    Ok((Want::Private(empty.into()), NodesAsk::Items([wanted].into())))
}

/// The stored element, or the empty one as it was asked for.
pub(super) fn kept(
    empty: &str,
    parts: Box<[Result<NodeItems, NodesFault>]>,
) -> Result<String, NodesFault> {
    let items = match render::first(parts) {
        Ok(part) => part.items,
        Err(NodesFault::UnknownNode) => Vec::new(),
        Err(fault) => return Err(fault),
    };
    let item = items.last().map(|item| String::from_utf8_lossy(&item.payload).into_owned());
    let inner = item.unwrap_or_else(|| empty.to_owned());
    Ok(format!("<query xmlns='{PRIVATE}'>{inner}</query>"))
}
