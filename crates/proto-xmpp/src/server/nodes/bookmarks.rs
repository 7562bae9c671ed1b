//! Bookmarks of rooms, as they are published (XEP-0402) and as they were kept before (XEP-0048 in
//! XEP-0049): one and the same.
//!
//! A client that stores the old form replaces those bookmarks that differ in it; further parts of
//! the new form (`extensions`) stay. Addresses of pages, which only the old form has, are kept
//! beside them.

use super::private::{self, PRIVATE};
use super::{Want, Wanted};
use crate::claims::Xep;
use crate::jid;
use crate::server::feature::Feature;
use crate::xml::scan::{Element, Scan};
use crate::xml::text::escaped;
use model::chat::BOOKMARKS_NODE as BOOKMARKS;
use model::chat::*;
use std::sync::Arc;

pub(super) const STORAGE: &str = "storage:bookmarks";

/// Says that both forms are one (XEP-0402 5.1).
const COMPAT: &str = "urn:xmpp:bookmarks:1#compat";

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[
        Xep::complete(
            48,
            ("Bookmarks", "1.2"),
            "stored as XEP-0402",
            "xmpp/test_pep.py::test_bookmarks_of_one_client_are_those_of_another",
        ),
        Xep::complete(
            402,
            ("PEP Native Bookmarks", "1.2.0"),
            "",
            "xmpp/test_pep.py::test_bookmarks_of_one_client_are_those_of_another",
        ),
    ],
    server: (&[COMPAT], ""),
    account: (&[COMPAT], ""),
    ..Feature::NONE
};

/// A bookmark of a room, as far as both forms say it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Bookmark {
    /// The room's JID.
    jid: Box<str>,
    name: Box<str>,
    autojoin: bool,
    nick: Box<str>,
    password: Box<str>,
}

/// Bookmarks that are to be stored in place of all there are.
pub(super) struct Storing {
    bookmarks: Vec<Bookmark>,
    /// Addresses of pages, as they came.
    pages: String,
}

/// Bookmarks are wanted, in the old form.
pub(super) fn gets() -> (Want, NodesAsk) {
    (Want::Bookmarks, NodesAsk::Items(wanted()))
}

fn wanted() -> Box<[ItemsWanted]> {
    let all =
        |space, node: Box<str>| ItemsWanted { space, node, which: ItemsChosen::Last(u32::MAX) };
    let pages = private::node_of("storage", STORAGE);
    [all(NodeSpace::Published, BOOKMARKS.into()), all(NodeSpace::Kept, pages)].into()
}

/// All bookmarks in the old form.
pub(super) fn storage(parts: &[Result<NodeItems, NodesFault>]) -> String {
    let items = |at: usize| {
        let part = parts.get(at).and_then(|part| part.as_ref().ok());
        part.into_iter().flat_map(|part| &part.items)
    };
    let conferences: String =
        items(0).filter_map(|item| Bookmark::published(item)).map(|it| it.kept()).collect();
    let pages: String = items(1).filter_map(|item| pages(&item.payload)).collect();
    let storage = format!("<storage xmlns='{STORAGE}'>{conferences}{pages}</storage>");
    format!("<query xmlns='{PRIVATE}'>{storage}</query>")
}

fn pages(storage: &[u8]) -> Option<String> {
    let scan = Scan::element(storage).ok()?;
    Some(scan.root().children().filter(|it| it.is("url", STORAGE)).map(|it| it.whole()).collect())
}

impl Bookmark {
    /// The bookmark in an element, of either form.
    fn of(jid: &str, conference: &Element<'_, '_>) -> Option<Bookmark> {
        let namespace = conference.namespace();
        let text = |name: &str| {
            let child = conference.child(name, namespace);
            child.map(|it| it.text().into_owned()).unwrap_or_default().into()
        };
        let autojoin = conference.attribute("autojoin");
        Some(Bookmark {
            // Rooms elsewhere may have names that no account has here.
            jid: Some(jid).filter(|jid| jid::domain_of(jid).is_some())?.into(),
            name: conference.attribute("name").unwrap_or_default().into(),
            autojoin: matches!(autojoin.as_deref(), Some("1" | "true")),
            nick: text("nick"),
            password: text("password"),
        })
    }

    fn published(item: &NodeItem) -> Option<Bookmark> {
        let scan = Scan::element(&item.payload).ok()?;
        let root = scan.root();
        Bookmark::of(&item.id, &root).filter(|_| root.is("conference", BOOKMARKS))
    }

    fn head(&self) -> String {
        let name = match &*self.name {
            "" => String::new(),
            name => format!(" name='{}'", escaped(name)),
        };
        format!("{name} autojoin='{}'", if self.autojoin { "true" } else { "false" })
    }

    fn texts(&self) -> String {
        let texts = [("nick", &self.nick), ("password", &self.password)];
        let texts = texts.iter().filter(|(_, text)| !text.is_empty());
        texts.map(|(name, text)| format!("<{name}>{}</{name}>", escaped(text))).collect()
    }

    /// As it was kept.
    fn kept(&self) -> String {
        let (jid, head, texts) = (escaped(&self.jid), self.head(), self.texts());
        format!("<conference jid='{jid}'{head}>{texts}</conference>")
    }

    /// As it is published, in place of what there was.
    fn item(&self, before: Option<&NodeItem>) -> NodeItem {
        let extensions = before.and_then(|item| {
            let scan = Scan::element(&item.payload).ok()?;
            let extensions = scan.root().child("extensions", BOOKMARKS)?;
            Some(extensions.whole().to_owned())
        });
        let whole = |extensions: &str| {
            let (head, texts) = (self.head(), self.texts());
            format!("<conference xmlns='{BOOKMARKS}'{head}>{texts}{extensions}</conference>")
        };
        let payload = whole(extensions.as_deref().unwrap_or_default());
        // What stands for nothing without what was around it is left out.
        let is_whole = Scan::element(payload.as_bytes()).is_ok();
        let payload = if is_whole { payload } else { whole("") };
        NodeItem { id: self.jid.clone(), payload: payload.into_bytes().into() }
    }
}

impl Storing {
    /// Bookmarks are set in the old form: first it is asked which there are.
    pub(super) fn asks(storage: &Element<'_, '_>) -> Wanted {
        let mut bookmarks = Vec::<Bookmark>::new();
        for conference in storage.children().filter(|it| it.is("conference", STORAGE)) {
            let jid = conference.attribute("jid").ok_or(NodesFault::Invalid)?;
            let bookmark = Bookmark::of(&jid, &conference).ok_or(NodesFault::Invalid)?;
            bookmarks.retain(|other| other.jid != bookmark.jid);
            bookmarks.push(bookmark);
        }
        if bookmarks.len() > NODE_CHANGE_MAX / 2 {
            return Err(NodesFault::TooLarge);
        }
        let pages = pages(storage.whole().as_bytes()).ok_or(NodesFault::Invalid)?;
        let is_whole = Scan::element(kept_pages(&pages).as_bytes()).is_ok();
        if !is_whole {
            return Err(NodesFault::Invalid);
        }
        let storing = Box::new(Storing { bookmarks, pages });
        Ok((Want::BookmarksSet(storing), NodesAsk::Items(wanted())))
    }

    /// Memory, bytes, roughly.
    pub(super) fn weight(&self) -> usize {
        let of = |it: &Bookmark| {
            let texts = [&it.jid, &it.name, &it.nick, &it.password];
            size_of::<Bookmark>() + texts.map(|text| text.len()).iter().sum::<usize>()
        };
        size_of::<Storing>() + self.pages.len() + self.bookmarks.iter().map(of).sum::<usize>()
    }

    /// Changes that turn the present bookmarks into the wanted ones.
    pub(super) fn changes(self, found: NodesFound) -> Result<Vec<NodeChange>, NodesFault> {
        let NodesFound::Items(parts) = found else { return Err(NodesFault::Invalid) };
        let before: &[_] = match parts.first() {
            Some(Ok(part)) => &part.items,
            Some(Err(NodesFault::UnknownNode)) => &[],
            Some(Err(fault)) => return Err(*fault),
            None => return Err(NodesFault::Invalid),
        };
        let (mut publish, mut kept) = (Vec::new(), Vec::new());
        for bookmark in &self.bookmarks {
            let item = before.iter().find(|item| item.id == bookmark.jid);
            kept.push(&bookmark.jid);
            let is_same =
                item.and_then(|item| Bookmark::published(item)).as_ref() == Some(bookmark);
            if !is_same {
                publish.push(bookmark.item(item.map(|item| &**item)));
            }
        }
        // What was not shown in the old form is not gone since that lacks it.
        let is_shown = |item: &&Arc<NodeItem>| Bookmark::published(item).is_some();
        let gone = before.iter().filter(is_shown).filter(|item| !kept.contains(&&item.id));
        let retract = gone.map(|item| item.id.clone()).collect();
        // XEP-0402 3: for nobody else, and as many as there are.
        let own = NodeOptions {
            access: Some(NodeAccess::Members),
            persists: Some(true),
            items_max: Some(u32::MAX),
            send_last: Some(SendLast::Never),
            ..NodeOptions::default()
        };
        let bookmarks = NodeChange {
            publish,
            retract,
            tells: true,
            options: Some(Box::new(own)),
            ..NodeChange::of(NodeSpace::Published, BOOKMARKS)
        };
        let pages = kept_pages(&self.pages).into_bytes().into();
        Ok(vec![bookmarks, private::change(private::node_of("storage", STORAGE), pages)])
    }
}

fn kept_pages(pages: &str) -> String {
    format!("<storage xmlns='{STORAGE}'>{pages}</storage>")
}
