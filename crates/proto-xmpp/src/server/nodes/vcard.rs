//! vCards (XEP-0054), whose photo is the avatar that the account publishes (XEP-0398).
//!
//! A vCard is kept without its photo; that is the avatar's, of which there is one. So whoever sets
//! the one has set the other, and neither is ever behind.

use super::avatar::{self, DATA, METADATA};
use super::{CURRENT, Want, Wanted};
use crate::claims::Xep;
use crate::server::feature::{Feature, Questions};
use crate::server::session::Session;
use crate::xml::scan::{Element, Scan};
use crate::xml::text::escaped;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::chat::*;
use sha1::{Digest, Sha1};

pub(super) const VCARD: &str = "vcard-temp";

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[
        Xep::complete(
            54,
            ("vcard-temp", "1.3.0"),
            "",
            "xmpp/test_pep.py::test_a_photo_of_a_vcard_is_the_avatar_and_goes_with_it",
        ),
        Xep::partial(
            292,
            ("vCard4 Over XMPP", "0.11"),
            "as a PEP node",
            "xmpp/test_pep.py::test_a_stranger_gets_the_vcard_but_nothing_that_is_for_friends",
        ),
    ],
    server: (&[VCARD], ""),
    account: (&[VCARD], ""),
    questions: &[Questions::of_devices(VCARD, Session::asks_own_nodes)],
    ..Feature::NONE
};

/// A vCard is wanted.
pub(super) fn gets(is_own: bool) -> (Want, NodesAsk) {
    let last =
        |space, node: &str| ItemsWanted { space, node: node.into(), which: ItemsChosen::Last(1) };
    let vcard = last(NodeSpace::Kept, VCARD);
    let avatar = [METADATA, DATA].map(|node| last(NodeSpace::Published, node));
    let [metadata, data] = avatar;
    (Want::VCard(is_own), NodesAsk::Items([vcard, metadata, data].into()))
}

/// The answer: the vCard, with the avatar as its photo.
pub(super) fn vcard(
    parts: &[Result<NodeItems, NodesFault>],
    is_own: bool,
) -> Result<String, NodesFault> {
    let [vcard, metadata, data] = parts else { return Err(NodesFault::Invalid) };
    let last = |part: &Result<NodeItems, NodesFault>| {
        part.as_ref().ok().and_then(|part| part.items.last().cloned())
    };
    let photo = last(metadata).zip(last(data)).and_then(|(metadata, data)| photo(&metadata, &data));
    let inner = match last(vcard) {
        Some(item) => inner_of(&item.payload).ok_or(NodesFault::StoreFailed)?,
        None if photo.is_some() || is_own => String::new(),
        None => return Err(vcard.as_ref().err().copied().unwrap_or(NodesFault::UnknownItem)),
    };
    let photo = photo.unwrap_or_default();
    Ok(format!("<vCard xmlns='{VCARD}'>{inner}{photo}</vCard>"))
}

/// The photo that an avatar is.
fn photo(metadata: &NodeItem, data: &NodeItem) -> Option<String> {
    let metadata = avatar::metadata(&metadata.payload)?;
    let is_it = data.id.eq_ignore_ascii_case(&metadata.id);
    let scan = Scan::element(&data.payload).ok().filter(|_| is_it)?;
    let (kind, bytes) = (escaped(&metadata.kind), scan.root().text().into_owned());
    let bytes = escaped(&bytes);
    Some(format!("<PHOTO><TYPE>{kind}</TYPE><BINVAL>{bytes}</BINVAL></PHOTO>"))
}

/// Content of a vCard without its photo.
fn inner_of(vcard: &[u8]) -> Option<String> {
    let scan = Scan::element(vcard).ok()?;
    let children = scan.root().children().filter(|it| !it.is("PHOTO", VCARD));
    Some(children.map(|child| child.whole()).collect())
}

/// A vCard is set.
pub(super) fn sets(vcard: &Element<'_, '_>) -> Wanted {
    let inner = inner_of(vcard.whole().as_bytes()).ok_or(NodesFault::Invalid)?;
    let kept = format!("<vCard xmlns='{VCARD}'>{inner}</vCard>");
    // What is written with a prefix of the stanza's own stands for nothing elsewhere.
    let is_whole = Scan::element(kept.as_bytes()).is_ok() && !vcard.has_prefix();
    if !is_whole {
        return Err(NodesFault::Invalid);
    }
    let open = NodeOptions { access: Some(NodeAccess::Open), ..NodeOptions::default() };
    let item = NodeItem { id: CURRENT.into(), payload: kept.into_bytes().into() };
    let (publish, options) = (vec![item], Some(Box::new(open)));
    let kept = NodeChange { publish, options, ..NodeChange::of(NodeSpace::Kept, VCARD) };
    let Some(photo) = vcard.child("PHOTO", VCARD) else {
        // The avatar goes, if there is one.
        let which = ItemsChosen::Last(1);
        let wanted = ItemsWanted { space: NodeSpace::Published, node: METADATA.into(), which };
        return Ok((Want::VCardSet(vec![kept]), NodesAsk::Items([wanted].into())));
    };
    let text = |name: &str| photo.child(name, VCARD).map(|child| child.text().into_owned());
    let bytes: String = text("BINVAL").unwrap_or_default().split_whitespace().collect();
    let image = STANDARD.decode(&bytes).map_err(|_| NodesFault::Invalid)?;
    if image.is_empty() {
        return Err(NodesFault::Invalid);
    }
    let id = base::hex::encode(&Sha1::digest(&image));
    let data = format!("<data xmlns='{DATA}'>{bytes}</data>");
    let kind = text("TYPE").unwrap_or_else(|| "image/png".to_owned());
    let metadata = avatar::metadata_of(&id, image.len(), kind.trim());
    let changes = vec![
        kept,
        avatar::change(DATA, &id, data, None),
        avatar::change(METADATA, &id, metadata, Some(&id)),
    ];
    Ok((Want::Order, NodesAsk::Change(changes)))
}

/// Changes for a vCard without a photo: they also remove the avatar's metadata, if there is any.
pub(super) fn changes(mut changes: Vec<NodeChange>, found: NodesFound) -> Vec<NodeChange> {
    if let NodesFound::Items(parts) = found
        && let Some(Ok(part)) = parts.first()
        && part.items.iter().any(|item| avatar::metadata(&item.payload).is_some())
    {
        let none = format!("<metadata xmlns='{METADATA}'/>");
        changes.push(avatar::change(METADATA, CURRENT, none, Some("")));
    }
    changes
}
