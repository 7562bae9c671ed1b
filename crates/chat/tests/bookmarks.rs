//! A conversation's settings and its bookmark agree, whichever of them a client changes.

mod house;
#[path = "house/town.rs"]
mod town;

use chat::Settings;
use house::plain;
use model::account::{AccountAddress, Addressee};
use model::chat::*;
use model::id::ShardId;
use model::service::Service;
use town::{Device, Town};

/// Bookmarks of these tests are words, of which "-" is a mute that is off.
const FORMAT: BookmarkFormat = BookmarkFormat { settings, with };

const WORDS: [(MuteLevel, &str); 3] =
    [(MuteLevel::Off, "-"), (MuteLevel::ButMentions, "mentions"), (MuteLevel::Everything, "never")];

fn settings(item: &NodeItem) -> Option<BookmarkSettings> {
    let text = std::str::from_utf8(&item.payload).ok()?;
    let mut words = text.strip_prefix("room")?.split(' ');
    let has = words.clone().any(|word| word == "pinned");
    let mute =
        words.find_map(|word| WORDS.iter().find(|(_, it)| *it == word).map(|(mute, _)| *mute));
    Some(BookmarkSettings { pinned: has, mute: [mute; 2] })
}

fn with(item: &NodeItem, pinned: bool, mute: MuteLevel) -> Option<NodeItem> {
    let (_, word) = WORDS.iter().find(|(it, _)| *it == mute)?;
    Some(bookmark(&item.id, &format!("room {word}{}", if pinned { " pinned" } else { "" })))
}

fn bookmark(id: &str, text: &str) -> NodeItem {
    NodeItem { id: id.into(), payload: text.as_bytes().into() }
}

fn address(name: &str) -> AccountAddress {
    AccountAddress::parse(name, "a.example").expect("right")
}

struct Ann {
    town: Town,
    phone: Device,
    desk: Device,
}

impl Ann {
    fn new() -> Ann {
        let mut town = Town::of(2, |shard, shards| Settings {
            bookmarks: Some(FORMAT),
            ..plain::settings(ShardId(shard), shards)
        });
        let [phone, desk] = ["phone", "desk"].map(|it| town.device_of(address("ann"), it));
        town.device_of(address("bob"), "desk");
        Ann { town, phone, desk }
    }

    /// Ann's phone changes a setting of her conversation with this party.
    fn sets(&mut self, with: &str, change: ConversationChange) {
        let (session, number) = (self.phone.session, 1);
        let with = Box::new(Addressee::from(address(with)));
        let change = Box::new(change);
        let told = self.town.ask(self.phone, ChatRequest::Set { session, number, with, change });
        let is_set = |it: &ChatDelivery| matches!(it, ChatDelivery::Set { .. });
        assert!(told.iter().any(|(_, it)| is_set(it)), "{told:?}");
    }

    fn asks(&mut self, ask: NodesAsk) -> Result<NodesFound, NodesFault> {
        let (session, number, of) = (self.desk.session, 2, None);
        let asked = Box::new(NodesRequest { session, number, of, ask });
        let told = self.town.ask(self.desk, ChatRequest::Nodes(asked));
        let answer = told.into_iter().find_map(|(conn, it)| match it {
            ChatDelivery::Nodes(answer) if conn == self.desk.conn => Some(answer.result),
            _ => None,
        });
        answer.expect("it is answered")
    }

    /// Ann's client publishes bookmarks.
    fn publishes(&mut self, items: &[(&str, &str)]) {
        let publish = items.iter().map(|(id, text)| bookmark(id, text)).collect();
        let options = Some(Box::new(NodeOptions {
            items_max: Some(u32::MAX),
            access: Some(NodeAccess::Members),
            ..NodeOptions::default()
        }));
        let of = NodeChange::of(NodeSpace::Published, BOOKMARKS_NODE);
        let change = NodeChange { publish, options, ..of };
        self.asks(NodesAsk::Change(vec![change])).expect("published");
    }

    /// The account's bookmarks.
    fn bookmarks(&mut self) -> Vec<(String, String)> {
        let (space, node) = (NodeSpace::Published, BOOKMARKS_NODE.into());
        let which = ItemsChosen::Last(u32::MAX);
        let found = self.asks(NodesAsk::Items([ItemsWanted { space, node, which }].into()));
        let Ok(NodesFound::Items(parts)) = found else { panic!("{found:?}") };
        let Some(Ok(part)) = parts.into_vec().pop() else { return Vec::new() };
        let text = |it: &[u8]| String::from_utf8(it.to_vec()).expect("a text");
        let mut all: Vec<_> =
            part.items.iter().map(|it| (it.id.to_string(), text(&it.payload))).collect();
        all.sort();
        all
    }

    fn bookmark(&mut self) -> String {
        self.bookmarks().into_iter().find(|(id, _)| id == "bob@a.example").expect("one").1
    }

    /// Ann's conversations: the other party, whether pinned, whether muted.
    fn conversations(&mut self) -> Vec<(String, bool, bool)> {
        let (session, number, before) = (self.phone.session, 3, u64::MAX);
        let (count, groups) = (50, false);
        let list = ChatRequest::Conversations { session, number, before, count, groups };
        let told = self.town.ask(self.phone, list);
        let page = told.into_iter().find_map(|(_, it)| match it {
            ChatDelivery::Conversations(page) => Some(page),
            _ => None,
        });
        let one = |it: &Conversation| (it.with.as_str().to_owned(), it.pinned, it.muted);
        page.expect("a page").conversations.iter().map(one).collect()
    }

    fn bob(pinned: bool, muted: bool) -> Vec<(String, bool, bool)> {
        vec![("bob@a.example".to_owned(), pinned, muted)]
    }
}

#[test]
fn a_setting_of_a_conversation_is_in_its_bookmark_and_the_other_way_round() {
    let mut ann = Ann::new();
    ann.sets("bob", ConversationChange::Mute(MuteLevel::ButMentions));
    assert!(ann.bookmarks().is_empty(), "no bookmark is made that no client wants");
    // A new bookmark gets what the conversation has.
    ann.publishes(&[("bob@a.example", "room")]);
    assert_eq!(ann.bookmark(), "room mentions");
    ann.sets("bob", ConversationChange::Pin(true));
    assert_eq!(ann.bookmark(), "room mentions pinned");
    ann.sets("bob", ConversationChange::Mute(MuteLevel::Off));
    assert_eq!(ann.bookmark(), "room - pinned");
    // A client's change of the bookmark changes the conversation, and nothing else does.
    ann.publishes(&[("bob@a.example", "room never pinned")]);
    assert_eq!(ann.conversations(), Ann::bob(true, true));
    ann.publishes(&[("bob@a.example", "room never")]);
    assert_eq!(ann.conversations(), Ann::bob(false, true));
    ann.publishes(&[("bob@a.example", "room")]);
    assert_eq!(ann.conversations(), Ann::bob(false, false));
    ann.town.0.iter().for_each(|house| house.chat.audit());
}

#[test]
fn a_bookmark_changes_only_what_its_client_has_changed_in_it() {
    let mut ann = Ann::new();
    ann.publishes(&[("bob@a.example", "room mentions")]);
    assert!(ann.conversations().is_empty(), "nor does it make a conversation");
    ann.sets("bob", ConversationChange::Pin(true));
    assert_eq!(ann.bookmark(), "room - pinned", "the conversation says what is so");
    ann.sets("bob", ConversationChange::Mute(MuteLevel::Everything));
    assert_eq!(ann.bookmark(), "room never pinned");
    // Another item, another node, and one that is no bookmark, change nothing.
    ann.publishes(&[("carol@a.example", "room never"), ("bob@a.example", "room never pinned")]);
    let of = NodeChange::of(NodeSpace::Published, "another");
    let publish = vec![bookmark("bob@a.example", "room")];
    ann.asks(NodesAsk::Change(vec![NodeChange { publish, ..of }])).expect("published");
    assert_eq!(ann.conversations(), Ann::bob(true, true));
    // One of two settings, of one of two bookmarks.
    ann.publishes(&[("carol@a.example", "room"), ("bob@a.example", "room mentions pinned")]);
    assert_eq!(ann.conversations(), Ann::bob(true, true));
    assert_eq!(ann.bookmark(), "room mentions pinned");
}

#[test]
fn a_publication_that_is_refused_changes_no_conversation() {
    let mut ann = Ann::new();
    ann.publishes(&[("bob@a.example", "room")]);
    ann.sets("bob", ConversationChange::Pin(true));
    let publish = vec![bookmark("bob@a.example", "room never")];
    let options = NodeOptions { access: Some(NodeAccess::Open), ..NodeOptions::default() };
    let of = NodeChange::of(NodeSpace::Published, BOOKMARKS_NODE);
    let change = NodeChange { publish, options: Some(Box::new(options)), ..of };
    assert_eq!(ann.asks(NodesAsk::Change(vec![change])), Err(NodesFault::OtherConfig));
    assert_eq!(ann.conversations(), Ann::bob(true, false));
    assert_eq!(ann.bookmark(), "room - pinned");
}
