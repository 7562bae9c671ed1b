//! How far an account has read a conversation, as its clients of XMPP keep it in step (XEP-0490):
//! an item for each conversation, of a node of the account, that names the last message.
//!
//! Invariant: the id of an item is the JID of whom the conversation is with.

use super::NodeItem;
use crate::account::AccountAddress;
use crate::chat::ArchiveId;

/// The node of these items.
pub const DISPLAYED_NODE: &str = "urn:xmpp:mds:displayed:0";

/// The item that says that `by` has read what it has with somebody up to this message.
pub fn displayed_item(by: &AccountAddress, with: &AccountAddress, id: ArchiveId) -> NodeItem {
    // Whose archive has the message gives it its id: of a room the room's, else the account's own.
    let archive = if with.is_group() { with } else { by };
    let payload = format!(
        "<displayed xmlns='{DISPLAYED_NODE}'><stanza-id xmlns='urn:xmpp:sid:0' id='{}' by='{}'/>\
         </displayed>",
        id.text(),
        archive.jid()
    );
    NodeItem { id: with.jid().into(), payload: payload.into_bytes().into() }
}

/// Whether an item names this message, whoever has published it.
pub fn displays(item: &NodeItem, id: ArchiveId) -> bool {
    let text = id.text();
    item.payload.windows(text.len()).any(|bytes| bytes == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_names_whom_it_is_with_and_the_message_by_its_id_in_that_archive() {
        let name = |name: &str| AccountAddress::parse(name, "a.example").expect("right");
        let (ann, bob) = (name("ann"), name("bob"));
        let group = AccountAddress::of_group(7, "a.example").expect("right");
        let id = ArchiveId::at((1 << 62, 5), &ann, &bob);
        let item = displayed_item(&ann, &bob, id);
        let payload = String::from_utf8(item.payload.to_vec()).expect("a text");
        assert_eq!(&*item.id, "bob@a.example");
        assert!(payload.contains(&format!("id='{}' by='ann@a.example'", id.text())), "{payload}");
        assert!(displays(&item, id) && !displays(&item, ArchiveId { seq: 6, ..id }));
        let item = displayed_item(&ann, &group, id);
        let payload = String::from_utf8(item.payload.to_vec()).expect("a text");
        assert!(payload.contains(&format!("by='{}'", group.jid())), "{payload}");
    }
}
