//! How far conversations were read, as clients of one account publish it (XEP-0490): the account
//! has read them, so its devices of every protocol hear of it, and whom they are with.
//!
//! Conversations that the account reads otherwise are published by the service. This module knows
//! nothing of the cursor.

use crate::claims::Xep;
use crate::jid::Jid;
use crate::render::STANZA_IDS;
use crate::server::feature::Feature;
use crate::xml::scan::Scan;
use model::account::AccountAddress;
use model::chat::{DISPLAYED_NODE, NodeItem, NodesAsk};

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[Xep::partial(
        490,
        ("Message Displayed Synchronization", "1.0.0"),
        "read positions of all protocols are published if a client has created the node; no \
         `server-assist`",
        "xmpp/test_words.py::test_what_one_protocol_reads_is_read_for_the_other",
    )],
    ..Feature::NONE
};

/// Conversations that a published item marks as read, each with the id of the last message read.
pub(super) fn published(ask: &NodesAsk) -> Vec<(AccountAddress, Box<str>)> {
    let NodesAsk::Change(changes) = ask else { return Vec::new() };
    let ours = changes.iter().filter(|change| *change.node == *DISPLAYED_NODE);
    ours.flat_map(|change| &change.publish).filter_map(displayed).collect()
}

fn displayed(item: &NodeItem) -> Option<(AccountAddress, Box<str>)> {
    let scan = Scan::element(&item.payload).ok()?;
    let root = scan.root();
    let named =
        root.child("stanza-id", STANZA_IDS).filter(|_| root.is("displayed", DISPLAYED_NODE));
    let id = named?.attribute("id")?.into();
    Some((Jid::parse(&item.id)?.account?, id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::chat::{NodeChange, NodeSpace};

    #[test]
    fn what_a_client_publishes_says_with_whom_and_up_to_which_message() {
        let stanza_id = "<stanza-id xmlns='urn:xmpp:sid:0' id='a1' by='ann@a.example'/>";
        let payload = format!("<displayed xmlns='{DISPLAYED_NODE}'>{stanza_id}</displayed>");
        let item = |id: &str, payload: &str| NodeItem {
            id: id.into(),
            payload: payload.as_bytes().into(),
        };
        let change = |node: &str, publish| {
            NodesAsk::Change(vec![NodeChange {
                publish,
                ..NodeChange::of(NodeSpace::Published, node)
            }])
        };
        let items = || {
            let other = payload.replace("displayed", "another");
            vec![
                item("bob@a.example", &payload),
                item("a b", &payload),
                item("c@a.example", &other),
            ]
        };
        let told = published(&change(DISPLAYED_NODE, items()));
        let told: Vec<_> = told.iter().map(|(with, id)| (with.as_str(), &**id)).collect();
        assert_eq!(told, [("bob@a.example", "a1")]);
        assert!(published(&change("another", items())).is_empty());
    }
}
