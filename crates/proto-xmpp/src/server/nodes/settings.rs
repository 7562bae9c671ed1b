//! The settings of a conversation in its bookmark (XEP-0402): notifications (XEP-0492) and whether
//! it is pinned (XEP-0469), both in `<extensions/>`.
//!
//! Notifications are read from and written to both versions of their format, since clients know
//! one or the other. Only the element for all clients counts; those for kinds of clients, and what
//! else a client keeps in there (`<advanced/>`), stay. Invariant: an edited bookmark is
//! well-formed, has the settings that it was to have, and is otherwise unchanged.

use crate::claims::Xep;
use crate::server::feature::Feature;
use crate::xml::scan::{Element, Scan};
use model::chat::{
    BOOKMARKS_NODE as BOOKMARKS, BookmarkFormat, BookmarkSettings, MuteLevel, NodeItem,
};

/// How clients of XMPP write bookmarks.
pub const FORMAT: BookmarkFormat = BookmarkFormat { settings, with };

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[
        Xep::complete(
            469,
            ("Bookmark Pinning", "0.1.0"),
            "pins are those of IM",
            "xmpp/test_words.py::\
         test_a_room_that_is_muted_or_pinned_by_one_protocol_is_so_for_the_other",
        ),
        Xep::partial(
            492,
            ("Chat notification settings", "0.2.0"),
            "in bookmarks, as the mutes of IM; settings for kinds of clients have no effect on \
             pushes",
            "xmpp/test_words.py::\
         test_a_room_that_is_muted_or_pinned_by_one_protocol_is_so_for_the_other",
        ),
    ],
    ..Feature::NONE
};

/// Versions of the format of notification settings, the current one first.
const VERSIONS: [&str; 2] =
    ["urn:xmpp:notification-settings:1", "urn:xmpp:notification-settings:0"];
const PINNING: &str = "urn:xmpp:bookmarks-pinning:0";

/// Attributes of a setting that is not for all clients.
const KINDS: [&str; 3] = ["identity-category", "identity-type", "client-type"];

/// Each mute and its element. XEP-0492 has no others.
const ELEMENTS: [(MuteLevel, &str); 3] = [
    (MuteLevel::Off, "always"),
    (MuteLevel::ButMentions, "on-mention"),
    (MuteLevel::Everything, "never"),
];

fn settings(item: &NodeItem) -> Option<BookmarkSettings> {
    let scan = Scan::element(&item.payload).ok()?;
    let root = Some(scan.root()).filter(|root| root.is("conference", BOOKMARKS))?;
    let extensions = root.child("extensions", BOOKMARKS);
    let mute = |version| {
        let setting = for_all(&extensions.as_ref()?.child("notify", version)?)?;
        mute_of(&setting)
    };
    let pinned = extensions.as_ref().and_then(|it| it.child("pinned", PINNING));
    Some(BookmarkSettings { pinned: pinned.is_some(), mute: VERSIONS.map(mute) })
}

/// The setting for all clients.
fn for_all<'t, 'a>(notify: &Element<'t, 'a>) -> Option<Element<'t, 'a>> {
    let is_for_all = |it: &Element<'_, '_>| KINDS.iter().all(|name| it.attribute(name).is_none());
    notify.children().find(|it| mute_of(it).is_some() && is_for_all(it))
}

fn mute_of(setting: &Element<'_, '_>) -> Option<MuteLevel> {
    let is_it = |(_, name): &&(MuteLevel, &str)| *name == setting.name();
    ELEMENTS.iter().find(is_it).map(|(mute, _)| *mute)
}

fn with(item: &NodeItem, pinned: bool, mute: MuteLevel) -> Option<NodeItem> {
    let before = settings(item)?;
    let mut text = String::from_utf8(item.payload.to_vec()).ok()?;
    for (version, said) in VERSIONS.into_iter().zip(before.mute) {
        if said.unwrap_or_default() != mute {
            text = with_mute(&text, version, mute)?;
        }
    }
    if before.pinned != pinned {
        text = with_pin(&text, pinned)?;
    }
    let item = NodeItem { id: item.id.clone(), payload: text.into_bytes().into() };
    settings(&item).filter(|after| after.are(pinned, mute)).map(|_| item)
}

fn with_mute(bookmark: &str, version: &str, mute: MuteLevel) -> Option<String> {
    let scan = Scan::element(bookmark.as_bytes()).ok()?;
    let (_, name) = ELEMENTS.iter().find(|(it, _)| *it == mute)?;
    let extensions = scan.root().child("extensions", BOOKMARKS);
    let notify = extensions.as_ref().and_then(|it| it.child("notify", version));
    let setting = notify.as_ref().and_then(for_all);
    // What is in the setting is not for the server to change.
    let inner = setting.as_ref().map_or("", |it| it.inner());
    let new = format!("<{name} xmlns='{version}'>{inner}</{name}>");
    Some(match (&extensions, &notify, &setting) {
        (_, _, Some(setting)) => replaced(bookmark, setting, &new),
        (_, Some(notify), None) => replaced(bookmark, notify, &appended(notify, &new)),
        (extensions, None, None) => {
            let notify = format!("<notify xmlns='{version}'><{name}/></notify>");
            extended(bookmark, (&scan.root(), extensions.as_ref()), &notify)
        }
    })
}

fn with_pin(bookmark: &str, pinned: bool) -> Option<String> {
    let scan = Scan::element(bookmark.as_bytes()).ok()?;
    let extensions = scan.root().child("extensions", BOOKMARKS);
    let pin = extensions.as_ref().and_then(|it| it.child("pinned", PINNING));
    Some(match (&pin, pinned) {
        (Some(pin), false) => replaced(bookmark, pin, ""),
        (None, true) => {
            let pin = format!("<pinned xmlns='{PINNING}'/>");
            extended(bookmark, (&scan.root(), extensions.as_ref()), &pin)
        }
        _ => bookmark.into(),
    })
}

/// A bookmark with another extension.
fn extended(
    bookmark: &str,
    (root, extensions): (&Element<'_, '_>, Option<&Element<'_, '_>>),
    extension: &str,
) -> String {
    match extensions {
        Some(extensions) => replaced(bookmark, extensions, &appended(extensions, extension)),
        None => {
            let new = format!("<extensions xmlns='{BOOKMARKS}'>{extension}</extensions>");
            replaced(bookmark, root, &appended(root, &new))
        }
    }
}

/// A text with another text in place of an element of it.
fn replaced(text: &str, element: &Element<'_, '_>, by: &str) -> String {
    let whole = element.whole();
    let from = whole.as_ptr().addr() - text.as_ptr().addr();
    format!("{}{by}{}", &text[..from], &text[from + whole.len()..])
}

/// An element with another one at its end.
fn appended(element: &Element<'_, '_>, child: &str) -> String {
    let whole = element.whole();
    match (whole.strip_suffix("/>"), whole.rfind("</")) {
        (Some(tag), _) => {
            let name = tag[1..].split(|c: char| c.is_ascii_whitespace()).next().unwrap_or_default();
            format!("{tag}>{child}</{name}>")
        }
        (None, end) => {
            let (inner, end) = whole.split_at(end.unwrap_or(whole.len()));
            format!("{inner}{child}{end}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = VERSIONS[0];
    const OLD: &str = VERSIONS[1];

    fn bookmark(inner: &str) -> NodeItem {
        let payload =
            format!("<conference xmlns='{BOOKMARKS}' name='A &amp; B'>{inner}</conference>");
        NodeItem { id: "g@conference.a.example".into(), payload: payload.into_bytes().into() }
    }

    fn text(item: &NodeItem) -> &str {
        std::str::from_utf8(&item.payload).expect("a text")
    }

    fn extensions(inner: &str) -> NodeItem {
        bookmark(&format!("<nick>x</nick><extensions>{inner}</extensions>"))
    }

    #[test]
    fn a_bookmark_says_whether_its_conversation_is_muted_and_pinned() {
        let said = |item: &NodeItem| settings(item).map(|it| (it.pinned, it.mute));
        let (off, but, all) = (MuteLevel::Off, MuteLevel::ButMentions, MuteLevel::Everything);
        assert_eq!(said(&bookmark("")), Some((false, [None, None])));
        for (mute, name) in [(off, "always"), (but, "on-mention"), (all, "never")] {
            let notify = format!("<notify xmlns='{NEW}'><{name}/></notify>");
            assert_eq!(said(&extensions(&notify)), Some((false, [Some(mute), None])));
        }
        let both = format!(
            "<pinned xmlns='{PINNING}'/><n:notify xmlns:n='{OLD}'><n:never client-type='pc'/>\
             <n:on-mention/></n:notify><notify xmlns='{NEW}'><never identity-category='client'/>\
             <sometimes/></notify>"
        );
        assert_eq!(said(&extensions(&both)), Some((true, [None, Some(but)])));
        for other in [
            "<x xmlns='y'/>".to_owned(),
            "<conference xmlns='storage:bookmarks'/>".to_owned(),
            format!("<conference xmlns='{BOOKMARKS}'>"),
        ] {
            assert_eq!(
                said(&NodeItem { payload: other.into_bytes().into(), ..bookmark("") }),
                None
            );
        }
    }

    #[test]
    fn a_bookmark_is_edited_so_that_it_says_that_and_all_else_stays() {
        let kept = format!(
            "<e xmlns='urn:e'>&lt;<![CDATA[</extensions>]]></e><n:notify xmlns:n='{NEW}' \
             xmlns:m='urn:m'><n:never identity-category='client'/><n:always><n:advanced><m:m/>\
             </n:advanced></n:always></n:notify>"
        );
        let stays = [
            "name='A &amp; B'",
            "<![CDATA[</extensions>]]>",
            "<m:m/>",
            "<n:never identity-category='client'/>",
            "<nick>x</nick>",
        ];
        for (pinned, mute) in
            [(true, MuteLevel::Everything), (false, MuteLevel::ButMentions), (true, MuteLevel::Off)]
        {
            for item in [
                bookmark(""),
                bookmark("<nick>x</nick>"),
                bookmark("<extensions/>"),
                bookmark(&format!("<extensions><notify xmlns='{OLD}'/></extensions>")),
                extensions(&kept),
                NodeItem {
                    payload: format!("<b:conference xmlns:b='{BOOKMARKS}' />").into_bytes().into(),
                    ..bookmark("")
                },
            ] {
                let edited = with(&item, pinned, mute).expect("edited");
                assert!(settings(&edited).is_some_and(|it| it.are(pinned, mute)));
                assert_eq!(with(&edited, pinned, mute).as_ref(), Some(&edited), "and stays");
                let (before, after) = (text(&item), text(&edited));
                let is_there = |part: &&&str| before.contains(**part);
                for part in stays.iter().filter(is_there) {
                    assert!(after.contains(part), "{part} in {after}");
                }
                let back = with(&edited, false, MuteLevel::Off).expect("edited");
                assert!(settings(&back).is_some_and(|it| it.are(false, MuteLevel::Off)));
            }
        }
    }
}
