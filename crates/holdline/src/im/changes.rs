//! Changes of a conversation, each as a line for people: `ann added bob, carol`.

use base::text::escaped;
use model::account::AccountAddress;
use model::chat::{
    ChatMessage, Content, FanOut, GroupChange, GroupMember, GroupVerb, Moderated, Recall, RoomRule,
};

/// The line; `None`: the message tells of no change that is known here.
pub(super) fn told(message: &ChatMessage) -> Option<String> {
    let by = message.from.name();
    let moderated = Moderated::of(&message.content);
    let (whoever, why) = match &moderated {
        Some(it) => (short(&it.by, &message.from), because(&it.reason)),
        None => (by, String::new()),
    };
    if message.content.kind == Content::RECALLED {
        return Some(format!("{whoever} recalled this message{why}"));
    }
    if let Some(Recall { seq, .. }) = Recall::of(&message.content) {
        return Some(format!("{whoever} recalled message {seq}{why}"));
    }
    if let Some(fan_out) = FanOut::of(&message.content) {
        return Some(match fan_out {
            FanOut::Read => {
                "the group is large: from here on, members read its messages from the group"
                    .to_owned()
            }
            FanOut::Write => "the group is small again".to_owned(),
        });
    }
    let changes = GroupChange::all_of(&message.content).into_iter();
    let changes = changes.filter(|it| !matches!(it.rule(), Some(RoomRule::Key(_))));
    let changes = changes.map(|change| {
        let why = because(change.reason());
        sentence(by, change, &message.from) + &why
    });
    Some(changes.collect::<Vec<_>>().join("; ")).filter(|told| !told.is_empty())
}

fn sentence(by: &str, change: GroupChange, near: &AccountAddress) -> String {
    let venue = change.venue().map_or_else(String::new, |it| format!(", for {it}"));
    let rule = change.rule();
    let GroupChange { verb, title, members } = change;
    let named = names(&members, near);
    match verb {
        GroupVerb::Create => {
            // Whoever makes it is named first.
            let others = names(members.get(1..).unwrap_or_default(), near);
            let with = if others.is_empty() { others } else { format!(" with {others}") };
            format!("{by} created the group{}{with}", quoted(&title))
        }
        GroupVerb::Add => format!("{by} added {named}"),
        GroupVerb::Invite => format!("{by} invited {named}"),
        GroupVerb::Remove => format!("{by} removed {named}"),
        GroupVerb::Leave => format!("{by} left"),
        GroupVerb::HandOver => format!("{by} transferred the ownership to {named}"),
        GroupVerb::AddOwner => format!("{by} made {named} an owner, too"),
        GroupVerb::RemoveOwner => format!("{by} made {named} an admin, no longer an owner"),
        GroupVerb::Promote => format!("{by} promoted {named} to admin"),
        GroupVerb::Demote => format!("{by} demoted {named} to member"),
        GroupVerb::Mute => format!("{by} muted {named}"),
        GroupVerb::Unmute => format!("{by} unmuted {named}"),
        GroupVerb::Close => format!("{by} closed the group: only its owner and admins can write"),
        GroupVerb::Open => format!("{by} opened the group: everybody can write"),
        GroupVerb::Rename if title.is_empty() => format!("{by} removed the group's title"),
        GroupVerb::Rename => format!("{by} renamed the group to{}", quoted(&title)),
        GroupVerb::Dissolve => format!("{by} dissolved the group{venue}"),
        GroupVerb::Join => format!("{by} joined"),
        GroupVerb::Ban => format!("{by} banned {named}"),
        GroupVerb::Unban => format!("{by} unbanned {named}"),
        GroupVerb::Describe if title.is_empty() => {
            format!("{by} removed the group's description")
        }
        GroupVerb::Describe => format!("{by} changed the group's description to{}", quoted(&title)),
        GroupVerb::Lock => format!("{by} locked the group: only added or invited users can join"),
        GroupVerb::Unlock => {
            format!("{by} unlocked the group: anybody who knows its address can join")
        }
        GroupVerb::Reveal => format!("{by} made the group public: it is listed"),
        GroupVerb::Hide => format!("{by} hid the group: it is no longer listed"),
        GroupVerb::Persist => format!("{by} made the group persistent"),
        GroupVerb::Unpersist => {
            format!("{by} made the group temporary: it ends when its room is empty")
        }
        GroupVerb::Set => change_of_rule(by, rule),
    }
}

/// A rule of the group's room that is otherwise.
fn change_of_rule(by: &str, rule: Option<RoomRule>) -> String {
    let who = |is: bool| if is { "all members" } else { "its owner and admins" };
    match rule {
        Some(RoomRule::Password(it)) if it.is_empty() => {
            format!("{by} removed the password of the group's XMPP room")
        }
        Some(RoomRule::Password(_)) => format!("{by} set a password for the group's XMPP room"),
        Some(RoomRule::OccupantsMax(0)) => {
            format!("{by} removed the limit of occupants of the group's XMPP room")
        }
        Some(RoomRule::OccupantsMax(most)) => {
            format!("{by} limited the group's XMPP room to {most} occupants")
        }
        Some(RoomRule::MembersInvite(is)) => format!("{by} let {} invite others", who(is)),
        Some(RoomRule::OpenSubject(is)) => format!("{by} let {} change the title", who(is)),
        Some(RoomRule::Whispers(it)) => {
            format!(
                "{by} set who may send private messages in the group's XMPP room: {}",
                it.word()
            )
        }
        Some(RoomRule::Key(_)) | None => format!("{by} changed the group's XMPP room"),
    }
}

/// A reason behind a colon; nothing where there is none.
fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(":{}", quoted(reason)) }
}

/// A title behind a blank; nothing where there is none.
fn quoted(title: &str) -> String {
    if title.is_empty() { String::new() } else { format!(" \"{}\"", escaped(title)) }
}

fn names(members: &[GroupMember], near: &AccountAddress) -> String {
    let shown: Vec<_> = members.iter().map(|one| short(&one.address, near)).collect();
    shown.join(", ")
}

/// The name alone of whoever is of the same domain.
fn short<'a>(address: &'a AccountAddress, near: &AccountAddress) -> &'a str {
    if address.domain() == near.domain() { address.name() } else { address.as_str() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::account::AccountId;
    use model::chat::ClientMessageId;

    fn message(content: Content) -> ChatMessage {
        let address = |text| AccountAddress::parse(text, "a.example").expect("right");
        ChatMessage {
            id: 1,
            seq: 1,
            at_ms: 0,
            from: address("ann"),
            device: "phone".into(),
            to: AccountAddress::of_group(1, "a.example").expect("right"),
            client_id: ClientMessageId([0; 16]),
            content,
            amended: None,
        }
    }

    fn line(verb: GroupVerb, title: &str, names: &[&str]) -> String {
        let member = |name: &&str| GroupMember {
            address: AccountAddress::parse(name, "a.example").expect("right"),
            id: AccountId(7),
        };
        let members = names.iter().map(member).collect();
        let change = GroupChange { verb, title: title.into(), members };
        told(&message(change.content())).expect("a change")
    }

    #[test]
    fn every_change_is_a_sentence_of_its_own() {
        let text = |verb| if verb == GroupVerb::Set { "occupants-max 3" } else { "t" };
        let each = GroupVerb::ALL.iter().map(|&verb| line(verb, text(verb), &["bob"]));
        let mut all: Vec<_> = each.collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), GroupVerb::ALL.len(), "{all:?}");
        assert!(all.iter().all(|line| line.starts_with("ann ")));
        assert_eq!(
            line(GroupVerb::Add, "", &["bob", "eve@b.example"]),
            "ann added bob, eve@b.example"
        );
        let made = line(GroupVerb::Create, "us\n\x1b[2J", &["ann", "bob", "carol"]);
        assert_eq!(made, "ann created the group \"us\\u000a\\u001b[2J\" with bob, carol");
        assert_eq!(line(GroupVerb::Create, "", &["ann"]), "ann created the group");
        assert_eq!(line(GroupVerb::Rename, "", &[]), "ann removed the group's title");
        let removed = line(GroupVerb::Remove, "too loud\n", &["bob"]);
        assert_eq!(removed, "ann removed bob: \"too loud\\u000a\"");
        let tea = line(GroupVerb::Dissolve, "", &["tea@conference.a.example"]);
        assert_eq!(tea, "ann dissolved the group, for tea@conference.a.example");
    }

    #[test]
    fn a_recall_is_told_and_so_is_what_was_called_back() {
        let said = |content| told(&message(content));
        let recall = Recall { seq: 12, id: 7 }.content("");
        assert_eq!(said(recall).as_deref(), Some("ann recalled message 12"));
        let gone = Content { kind: Content::RECALLED, counts: false, ..Content::text("") };
        assert_eq!(said(gone).as_deref(), Some("ann recalled this message"));
        let by = AccountAddress::parse("eve", "a.example").expect("right");
        let by = Moderated { by, at_ms: 1, reason: "spam".into() };
        let recall = Recall { seq: 12, id: 7 }.moderated("", Some(&by));
        assert_eq!(said(recall).as_deref(), Some("eve recalled message 12: \"spam\""));
        let left = Content { kind: Content::RECALLED, extra: by.write(), ..Content::default() };
        assert_eq!(said(left).as_deref(), Some("eve recalled this message: \"spam\""));
        let extra = b"twelve".as_slice().into();
        let none = Content { kind: Content::RECALL, extra, ..Content::text("") };
        assert_eq!(said(none), None);
    }

    #[test]
    fn a_turn_has_a_line_of_its_own_and_what_is_no_change_none() {
        assert_eq!(told(&message(Content::text("add bob@a.example#1"))), None);
        let turns = FanOut::ALL.map(|it| told(&message(it.content())).expect("a turn"));
        assert!(turns[0] != turns[1] && !turns.contains(&String::new()), "{turns:?}");
        let extra = b"promise bob@a.example#1".as_slice().into();
        let later = Content { kind: Content::GROUP, extra, ..Content::text("") };
        assert_eq!(told(&message(later)), None, "a verb of a later version");
    }
}
