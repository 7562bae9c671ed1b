//! Data that clients have kept on another server, as changes of nodes: the same changes that
//! clients would make here.

use super::bookmarks::Storing;
use super::vcard;
use super::{Want, avatar, private};
use crate::xml::scan::Scan;
use model::chat::{NodeChange, NodeItem, NodesAsk, NodesFault, NodesFound};

/// A vCard (XEP-0054), with its photo as the avatar.
pub(crate) fn vcard(xml: &str) -> Option<Vec<NodeChange>> {
    let scan = Scan::element(xml.as_bytes()).ok()?;
    let root = Some(scan.root()).filter(|root| root.is("vCard", vcard::VCARD))?;
    match vcard::sets(&root).ok()? {
        (Want::VCardSet(changes), _) | (_, NodesAsk::Change(changes)) => Some(changes),
        _ => None,
    }
}

/// An element of private storage (XEP-0049); bookmarks are those that are published.
pub(crate) fn private(xml: &str) -> Option<Vec<NodeChange>> {
    let query = format!("<query xmlns='{}'>{xml}</query>", private::PRIVATE);
    let scan = Scan::element(query.as_bytes()).ok()?;
    match private::asks(&scan.root(), true).ok()? {
        (Want::BookmarksSet(storing), _) => {
            let nothing = NodesFound::Items([Err(NodesFault::UnknownNode)].into());
            Storing::changes(*storing, nothing).ok()
        }
        (_, NodesAsk::Change(changes)) => Some(changes),
        _ => None,
    }
}

/// The badge that an account shows after an item of a node; `None`: the item sets none.
pub(crate) fn badge(node: &str, item: &NodeItem) -> Option<Box<str>> {
    avatar::badge(node, item)
}

/// The element of private storage that a node of what is kept has (XEP-0049); a vCard's is its own.
pub(crate) fn is_private(node: &str) -> bool {
    node.strip_prefix(private::PRIVATE).is_some_and(|rest| rest.starts_with(' '))
}
