//! Avatars: which one an account shows, as its metadata says (XEP-0084 4.2), and how presence says
//! it (XEP-0153, XEP-0398 3.2).

use crate::claims::Xep;
use crate::server::feature::Feature;
use crate::xml::scan::{Element, Scan};
use crate::xml::text::escaped;
use model::chat::{NodeChange, NodeItem, NodeSpace};

pub(super) const METADATA: &str = "urn:xmpp:avatar:metadata";
pub(super) const DATA: &str = "urn:xmpp:avatar:data";
const UPDATE: &str = "vcard-temp:x:update";

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[
        Xep::complete(
            84,
            ("User Avatar", "1.1.4"),
            "",
            "xmpp/test_pep.py::\
             test_one_sets_it_and_the_other_is_told_and_fetches_it_over_a_kill_too",
        ),
        Xep::complete(
            153,
            ("vCard-Based Avatars", "1.1"),
            "by XEP-0398",
            "xmpp/test_pep.py::test_a_photo_of_a_vcard_is_the_avatar_and_goes_with_it",
        ),
        Xep::complete(
            398,
            ("User Avatar to vCard-Based Avatars Conversion", "1.0.0"),
            "",
            "xmpp/test_pep.py::test_a_photo_of_a_vcard_is_the_avatar_and_goes_with_it",
        ),
    ],
    ..Feature::NONE
};

/// An avatar's metadata.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Metadata {
    /// The SHA-1 of its bytes, in hexadecimal.
    pub id: String,
    pub kind: String,
}

/// The avatar that metadata is of; none: that there is none.
pub(super) fn metadata(payload: &[u8]) -> Option<Metadata> {
    let scan = Scan::element(payload).ok()?;
    let root = scan.root();
    let infos = root.children().filter(|it| it.is("info", METADATA));
    // 4.2.1: others are elsewhere, and this one is in the data node.
    let mut infos = infos.filter(|info| info.attribute("url").is_none());
    let info = infos.next().filter(|_| root.is("metadata", METADATA))?;
    let id = info.attribute("id")?.to_ascii_lowercase();
    let is_hash = id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let kind = info.attribute("type").unwrap_or_default().into_owned();
    is_hash.then_some(Metadata { id, kind })
}

/// The badge that an account shows after an item; `None`: the item sets none.
pub(super) fn badge(node: &str, item: &NodeItem) -> Option<Box<str>> {
    let says = node == METADATA;
    says.then(|| metadata(&item.payload).map(|it| it.id).unwrap_or_default().into())
}

/// A change that has the account show this.
pub(super) fn change(node: &str, id: &str, payload: String, badge: Option<&str>) -> NodeChange {
    let item = NodeItem { id: id.into(), payload: payload.into_bytes().into() };
    let (publish, badge) = (vec![item], badge.map(Box::from));
    NodeChange { publish, badge, ..NodeChange::of(NodeSpace::Published, node) }
}

/// An avatar's metadata.
pub(super) fn metadata_of(id: &str, bytes: usize, kind: &str) -> String {
    let kind = escaped(kind);
    format!(
        "<metadata xmlns='{METADATA}'><info id='{id}' bytes='{bytes}' type='{kind}'/></metadata>"
    )
}

/// Whether a part of presence says which avatar there is: that is the server's to say.
pub(in crate::server) fn shows_avatar(child: &Element<'_, '_>) -> bool {
    child.is("x", UPDATE)
}

/// Writes which avatar there is, or that there is none.
pub(in crate::server) fn put_badge(badge: &str, out: &mut Vec<u8>) {
    let photo = match badge {
        "" => "<photo/>".to_owned(),
        badge => format!("<photo>{}</photo>", escaped(badge)),
    };
    out.extend_from_slice(format!("<x xmlns='{UPDATE}'>{photo}</x>").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_says_which_avatar_there_is_or_that_there_is_none() {
        let id = "a".repeat(40);
        let of = |text: String| metadata(text.as_bytes());
        let kind = "image/png".to_owned();
        let some = Some(Metadata { id: id.clone(), kind });
        assert_eq!(of(metadata_of(&id, 7, "image/png")), some);
        assert_eq!(of(metadata_of(&id.to_uppercase(), 7, "image/png")), some);
        for text in [
            format!("<metadata xmlns='{METADATA}'/>"),
            metadata_of("0a", 7, ""),
            metadata_of(&"g".repeat(40), 7, ""),
            metadata_of(&id, 7, "").replace(METADATA, "other"),
            format!("<metadata xmlns='{METADATA}'><info id='{id}' url='http://x'/></metadata>"),
            "<metadata".to_owned(),
        ] {
            assert_eq!(of(text.clone()), None, "{text}");
        }
    }
}
