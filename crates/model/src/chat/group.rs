//! Groups: what is asked of one, and what happened in it.
//!
//! A group has an address as an account has, `id@conference.domain`; what is said to it is said to
//! all its members. Every change of it is a message of its conversation, of the kind
//! [`Content::GROUP`], whose `extra` is ASCII: a verb and, behind blanks, whom it concerns, each as
//! `address#account`. The text of `create` and `rename` is the title, that of `describe` the
//! description; that of all others the reason that was given. Changes that were made at once are
//! one message: `extra` has a line for each, and a line whose text is not that of the message has
//! it as its last word, behind `=`, in hexadecimal digits.

use super::{ClientMessageId, Content, REASON_BYTES_MAX, RoomRule};
use crate::account::{AccountAddress, AccountId, Addressee};
use base::encoding::Encoding;
use base::hex;
use std::fmt::Write;

/// Longest title of a group, bytes.
pub const GROUP_TITLE_BYTES_MAX: usize = 256;

/// Most members that one order names.
pub const GROUP_NAMED_MAX: usize = 128;

/// Members that a group may have, whatever the configuration says.
pub const GROUP_MEMBERS_HARD_MAX: u32 = 100_000;

/// Prefix of the domain of groups, before the domain of their makers.
pub const GROUP_SERVICE: &str = "conference.";

/// Prefix of the domain of channels: groups in which only owner and admins publish, and to which
/// anybody may subscribe.
pub const CHANNEL_SERVICE: &str = "channel.";

/// Declares the verbs once: variant, word, meaning.
macro_rules! verbs {
    ($($variant:ident $word:literal $meaning:literal;)+) => {
        /// Action on a group.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum GroupVerb { $(#[doc = $meaning] $variant,)+ }

        impl GroupVerb {
            /// All verbs.
            pub const ALL: &'static [GroupVerb] = &[$(GroupVerb::$variant,)+];

            /// The word in messages and the log.
            pub const fn word(self) -> &'static str {
                match self { $(GroupVerb::$variant => $word,)+ }
            }
        }
    };
}

verbs! {
    Create "create" "It is made. The first who is named owns it, the others are members.";
    Add "add" "These are members from now on.";
    Remove "remove" "These are members no more.";
    Leave "leave" "This one goes.";
    HandOver "hand-over" "This member alone owns it from now on; who did is an admin.";
    Promote "promote" "These members are admins from now on.";
    Demote "demote" "These admins are members like others from now on.";
    Mute "mute" "These members may not say anything.";
    Unmute "unmute" "They may again.";
    Close "close" "Only owner and admins may say something.";
    Open "open" "All may again.";
    Rename "rename" "It has another title.";
    Dissolve "dissolve" "It ends: nobody is in it. One made under its name is another one.";
    Join "join" "This one is a member, since it wants to be: of a channel, or one unlocked.";
    Ban "ban" "These are members no more, and nobody makes them members before that is undone.";
    Unban "unban" "These may become members again.";
    Describe "describe" "It is described otherwise.";
    Lock "lock" "Nobody becomes a member but by whoever adds it.";
    Unlock "unlock" "Whoever knows its address may become a member.";
    Reveal "reveal" "It is public: in the list of its domain, for whoever looks there.";
    Hide "hide" "It is in no list: whoever finds it knows its address.";
    Persist "persist" "It stays until somebody dissolves it.";
    Unpersist "unpersist" "It is temporary: it ends when nobody is in its room any more.";
    Invite "invite" "These may become members, if they want to; or decline, by leaving.";
    AddOwner "add-owner" "These members own it, too.";
    RemoveOwner "remove-owner" "These owners are admins from now on.";
    Set "set" "A rule of its room has changed; the text of the change is the rule and its value.";
}

impl GroupVerb {
    /// Whether the accounts concerned cease to be members; they are notified of this change, and of
    /// none after.
    pub const fn ends_membership(self) -> bool {
        matches!(self, GroupVerb::Remove | GroupVerb::Leave | GroupVerb::Ban | GroupVerb::Dissolve)
    }

    /// Whether the verb is about members, of whom the order must name at least one.
    pub const fn names_members(self) -> bool {
        use GroupVerb::{Add, Ban, Invite, Mute, Remove, Unban, Unmute};
        self.changes_role() || matches!(self, Mute | Unmute | Add | Remove | Ban | Unban | Invite)
    }

    /// Whether the named members have another role afterwards.
    pub const fn changes_role(self) -> bool {
        use GroupVerb::{AddOwner, Demote, HandOver, Promote, RemoveOwner};
        matches!(self, HandOver | AddOwner | RemoveOwner | Promote | Demote)
    }

    /// Whether the verb is about accounts that need not be members: they are looked up first.
    pub const fn names_accounts(self) -> bool {
        self.makes_members() || matches!(self, GroupVerb::Ban | GroupVerb::Invite)
    }

    /// Whether the accounts concerned are no members after the change, though they are notified.
    pub const fn leaves_outside(self) -> bool {
        self.ends_membership() || matches!(self, GroupVerb::Invite)
    }

    /// Whether the order carries a title, or another text of the same maximum length.
    pub const fn has_title(self) -> bool {
        matches!(self, GroupVerb::Create | GroupVerb::Rename | GroupVerb::Describe | GroupVerb::Set)
    }

    /// Longest text of it, bytes: a title, or the reason that is given.
    pub const fn text_bytes_max(self) -> usize {
        if self.has_title() { GROUP_TITLE_BYTES_MAX } else { REASON_BYTES_MAX }
    }

    /// Whether the verb makes the named accounts members.
    pub const fn makes_members(self) -> bool {
        matches!(self, GroupVerb::Create | GroupVerb::Add | GroupVerb::Join)
    }

    /// Whether the verb changes who subscribes to a channel: nobody is notified of such changes.
    pub const fn is_about_subscribers(self) -> bool {
        use GroupVerb::{Add, Ban, Join, Leave, Remove, Unban};
        matches!(self, Join | Leave | Add | Remove | Ban | Unban)
    }
}

/// Request of a member to a group.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct GroupOrder {
    /// Address of the group. For [`GroupVerb::Create`] the address of the new group, of the asker's
    /// domain; if absent, the address follows from the creator and from the client's id.
    pub group: Option<Addressee>,
    /// The asker's id of the request: a repetition with the same id changes nothing.
    pub client_id: ClientMessageId,
    /// Operation to carry out.
    pub verb: GroupVerb,
    /// The title, of those that have one; of others the reason, for people. At most
    /// [`GroupVerb::text_bytes_max`].
    pub title: Box<str>,
    /// Accounts that the request is about, at most [`GROUP_NAMED_MAX`]. For [`GroupVerb::Dissolve`]
    /// the group that replaces it, if one exists; for [`GroupVerb::Leave`] the inviter of an
    /// account that declines: the inviter is notified.
    pub members: Vec<Addressee>,
}

/// Account that a change names, by address and number.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct GroupMember {
    /// The account's address.
    pub address: AccountAddress,
    /// Its number.
    pub id: AccountId,
}

/// Change in a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupChange {
    /// Operation that was carried out.
    pub verb: GroupVerb,
    /// The title, of those that have one; of others the reason, for people. Empty where there is
    /// none.
    pub title: Box<str>,
    /// Accounts that the change is about. For a dissolved group, the group that replaces it, if one
    /// was named.
    pub members: Vec<GroupMember>,
}

impl GroupChange {
    /// Why it was done, in words for people; empty: nobody has said.
    pub fn reason(&self) -> &str {
        if self.verb.has_title() { "" } else { &self.title }
    }

    /// Members that the change is about; of a group that is dissolved nobody in particular.
    pub fn concerned(&self) -> &[GroupMember] {
        if self.verb == GroupVerb::Dissolve { &[] } else { &self.members }
    }

    /// The rule that the change sets.
    pub fn rule(&self) -> Option<RoomRule> {
        let text = Some(&self.title).filter(|_| self.verb == GroupVerb::Set);
        text.and_then(|text| RoomRule::of(text))
    }

    /// A change that sets a rule.
    pub fn of_rule(rule: &RoomRule) -> GroupChange {
        GroupChange { verb: GroupVerb::Set, title: rule.text(), members: Vec::new() }
    }

    /// Where those who were in a group that is dissolved may go instead.
    pub fn venue(&self) -> Option<&AccountAddress> {
        let named = self.members.first().filter(|_| self.verb == GroupVerb::Dissolve);
        named.map(|it| &it.address)
    }

    /// Content of the message about it.
    pub fn content(&self) -> Content {
        GroupChange::content_of(std::slice::from_ref(self))
    }

    /// Content of the message about changes that were made at once. Its text is the first one that
    /// a person has written: no rule.
    pub fn content_of(all: &[GroupChange]) -> Content {
        let is_shown = |it: &&GroupChange| !it.title.is_empty() && it.verb != GroupVerb::Set;
        let text = all.iter().find(is_shown).map(|it| &it.title);
        let text = text.cloned().unwrap_or_default();
        let mut extra = String::new();
        for (n, GroupChange { verb, title, members }) in all.iter().enumerate() {
            extra.push_str(if n == 0 { "" } else { "\n" });
            extra.push_str(verb.word());
            for GroupMember { address, id } in members {
                let _ = write!(extra, " {address}#{}", id.0); // a String takes everything
            }
            if *title != text {
                let _ = write!(extra, " ={}", hex::encode(title.as_bytes()));
            }
        }
        let (kind, extra) = (Content::GROUP, extra.into_bytes().into());
        Content { kind, text, extra, ..Content::default() }
    }

    /// Content of a message about changes without the passwords in it, for readers that are not to
    /// know them; none: it has none.
    pub fn without_passwords(content: &Content) -> Option<Content> {
        let extra = std::str::from_utf8(&content.extra).ok();
        let extra = extra.filter(|_| content.kind == Content::GROUP)?;
        let is_secret = |line: &&str| {
            let rule = line.split_once(" =").filter(|(verb, _)| *verb == GroupVerb::Set.word());
            rule.and_then(|(_, digits)| text_of(digits)).is_some_and(|it| RoomRule::is_secret(&it))
        };
        let (secret, rest): (Vec<&str>, Vec<&str>) = extra.split('\n').partition(is_secret);
        if secret.is_empty() {
            return None;
        }
        // A rule without its text is one that no reader knows.
        let rest = if rest.is_empty() { vec![GroupVerb::Set.word()] } else { rest };
        let extra = rest.join("\n").into_bytes().into();
        Some(Content { extra, ..content.clone() })
    }

    /// Changes that a message is about, in their order; none: none that is known here.
    pub fn all_of(content: &Content) -> Vec<GroupChange> {
        let extra = std::str::from_utf8(&content.extra).ok();
        let Some(extra) = extra.filter(|_| content.kind == Content::GROUP) else {
            return Vec::new();
        };
        let all: Option<_> =
            extra.split('\n').map(|line| GroupChange::read(line, &content.text)).collect();
        all.unwrap_or_default()
    }

    /// Change that a message is about, if it is about one that is known here.
    pub fn of(content: &Content) -> Option<GroupChange> {
        let mut all = GroupChange::all_of(content);
        all.pop().filter(|_| all.is_empty())
    }

    fn read(line: &str, text: &str) -> Option<GroupChange> {
        let (line, title) = match line.split_once(" =") {
            Some((line, digits)) => (line, text_of(digits)?),
            None => (line, text.into()),
        };
        let mut words = line.split(' ');
        let verb = words.next()?;
        let verb = GroupVerb::ALL.iter().copied().find(|known| known.word() == verb)?;
        let members = words.map(|word| {
            let (address, id) = word.split_once('#')?;
            let id = AccountId(id.parse().ok()?);
            Some(GroupMember { address: AccountAddress::parse(address, "").ok()?, id })
        });
        let members = members.collect::<Option<_>>()?;
        let change = GroupChange { verb, title, members };
        Some(change).filter(|it| it.verb != GroupVerb::Set || it.rule().is_some())
    }
}

/// The text in hexadecimal digits.
fn text_of(digits: &str) -> Option<Box<str>> {
    let bytes = if digits.is_empty() { Box::default() } else { hex::decode(digits)? };
    String::from_utf8(bytes.into()).ok().map(Into::into)
}

/// Lasting relation of an account to a group's room (XEP-0045 5.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encoding)]
#[encoding(Outcast = 0, None = 1, Member = 2, Admin = 3, Owner = 4)]
pub enum Affiliation {
    /// Banned.
    Outcast,
    /// No member.
    None,
    /// Member.
    Member,
    /// Admin.
    Admin,
    /// Owner.
    Owner,
}

impl Affiliation {
    /// All affiliations.
    pub const ALL: [Affiliation; 5] = [
        Affiliation::Outcast,
        Affiliation::None,
        Affiliation::Member,
        Affiliation::Admin,
        Affiliation::Owner,
    ];

    /// The word in stanzas.
    pub const fn word(self) -> &'static str {
        match self {
            Affiliation::Outcast => "outcast",
            Affiliation::None => "none",
            Affiliation::Member => "member",
            Affiliation::Admin => "admin",
            Affiliation::Owner => "owner",
        }
    }
}

/// The affiliation that an account is to have.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct AffiliationItem {
    /// The account.
    pub account: Addressee,
    /// Its affiliation.
    pub affiliation: Affiliation,
    /// Why, for people; at most [`REASON_BYTES_MAX`] bytes, may be empty.
    pub reason: Box<str>,
}

/// Settings that a group is to have; those that are absent stay as they are.
#[derive(Clone, PartialEq, Eq, Default, Debug, Encoding)]
pub struct GroupSettings {
    /// The title, at most [`GROUP_TITLE_BYTES_MAX`] bytes.
    pub title: Option<Box<str>>,
    /// The description, of the same length at most.
    pub description: Option<Box<str>>,
    /// Whether only owners and admins may say something.
    pub closed: Option<bool>,
    /// Whether any account that knows the group's address may enter its room, or join.
    pub unlocked: Option<bool>,
    /// Whether it is in the list of its domain.
    pub public: Option<bool>,
    /// Whether it ends when nobody is in its room any more.
    pub temporary: Option<bool>,
    /// Rules of its room.
    pub rules: Vec<RoomRule>,
}

/// A change of a group that is made as a whole, or not at all.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding(Settings = 0, Affiliations = 1)]
pub enum RoomChange {
    /// By an owner: the group's settings.
    Settings(Box<GroupSettings>),
    /// The affiliations of accounts, of each once; at most [`GROUP_NAMED_MAX`].
    Affiliations(Vec<AffiliationItem>),
}

/// How a group's messages reach its members.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum FanOut {
    /// Each takes a place in every member's inbox at once.
    #[default]
    Write,
    /// Members draw them from the conversation when they are here.
    Read,
}

impl FanOut {
    /// Both forms.
    pub const ALL: [FanOut; 2] = [FanOut::Write, FanOut::Read];

    /// The word in messages and the log.
    pub const fn word(self) -> &'static str {
        match self {
            FanOut::Write => "fan-out-on-write",
            FanOut::Read => "fan-out-on-read",
        }
    }

    /// Content of the message that announces a turn to this fan-out.
    pub fn content(self) -> Content {
        let extra = self.word().as_bytes().into();
        Content { kind: Content::GROUP, extra, ..Content::default() }
    }

    /// Fan-out that a group changes to, if the message announces such a change.
    pub fn of(content: &Content) -> Option<FanOut> {
        let is_it = |fan_out: &FanOut| *content.extra == *fan_out.word().as_bytes();
        FanOut::ALL.into_iter().filter(|_| content.kind == Content::GROUP).find(is_it)
    }
}

impl AccountAddress {
    /// Whether it is a group's, or a channel's; an account never has such a one.
    pub fn is_group(&self) -> bool {
        self.domain().starts_with(GROUP_SERVICE) || self.is_channel()
    }

    /// Whether it is a channel's.
    pub fn is_channel(&self) -> bool {
        self.domain().starts_with(CHANNEL_SERVICE)
    }

    /// Whether it is that of a group, or channel, which accounts of this domain make.
    pub fn is_group_of(&self, domain: &str) -> bool {
        let of = |service| self.domain().strip_prefix(service) == Some(domain);
        of(GROUP_SERVICE) || of(CHANNEL_SERVICE)
    }

    /// The address of the group with this number, among those that accounts of a domain make; if
    /// the domain is not too long for it.
    pub fn of_group(number: u64, domain: &str) -> Option<AccountAddress> {
        let digit = |at: u32| {
            let five = (u128::from(number) << 1) >> (60 - 5 * at) & 31;
            char::from(b"abcdefghijklmnopqrstuvwxyz234567"[five as usize])
        };
        let name: String = (0..13).map(digit).collect();
        AccountAddress::parse(&name, &format!("{GROUP_SERVICE}{domain}")).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, id: u64) -> GroupMember {
        let address = AccountAddress::parse(name, "a.example").expect("right");
        GroupMember { address, id: AccountId(id) }
    }

    #[test]
    fn a_change_is_read_as_it_was_written() {
        let verbs = GroupVerb::ALL.iter().filter(|verb| **verb != GroupVerb::Set);
        for &verb in verbs {
            for members in [vec![], vec![member("ann", 1), member("b.b", u64::MAX)]] {
                let change = GroupChange { verb, title: "Über us".into(), members };
                assert_eq!(GroupChange::of(&change.content()), Some(change));
            }
        }
        let most = vec![member(&"x".repeat(64), u64::MAX); GROUP_NAMED_MAX + 1];
        let change = GroupChange { verb: GroupVerb::Add, title: "".into(), members: most };
        assert!(change.content().extra.len() <= crate::chat::EXTRA_BYTES_MAX);
    }

    #[test]
    fn changes_that_were_made_at_once_are_one_message_a_line_each() {
        let change = |verb, text: &str, members| GroupChange { verb, title: text.into(), members };
        let ann = || vec![member("ann", 1)];
        let all = [
            change(GroupVerb::Unban, "", ann()),
            change(GroupVerb::Add, "wél come", ann()),
            change(GroupVerb::AddOwner, "wél come", ann()),
            change(GroupVerb::Rename, "Tea", vec![]),
        ];
        let content = GroupChange::content_of(&all);
        assert_eq!(&*content.text, "wél come");
        let lines = "unban ann@a.example#1 =\nadd ann@a.example#1\nadd-owner ann@a.example#1\n\
                     rename =546561";
        assert_eq!(std::str::from_utf8(&content.extra), Ok(lines), "as it is stored");
        assert_eq!(GroupChange::all_of(&content), all);
        assert_eq!(GroupChange::of(&content), None, "it is not one");
        for wrong in ["add a@a.example#1\n", "add a@a.example#1\nking", "rename =5", "rename =zz"] {
            let (kind, extra) = (Content::GROUP, wrong.as_bytes().into());
            let content = Content { kind, extra, ..Content::default() };
            assert_eq!(GroupChange::all_of(&content), [], "{wrong}");
        }
    }

    #[test]
    fn a_password_is_no_text_of_a_message_and_a_rule_that_is_not_known_no_change() {
        let password = GroupChange::of_rule(&RoomRule::Password("hush".into()));
        let content = password.content();
        assert_eq!(&*content.text, "");
        let stored = b"set =70617373776f72642068757368";
        assert_eq!(&*content.extra, stored, "as it is stored");
        assert_eq!(GroupChange::of(&content), Some(password));
        let (verb, title) = (GroupVerb::Add, "welcome".into());
        let added = GroupChange { verb, title, members: vec![member("ann", 1)] };
        let all = [added, GroupChange::of_rule(&RoomRule::Key("hush".into()))];
        let content = GroupChange::content_of(&all);
        assert_eq!(&*content.text, "welcome");
        assert_eq!(GroupChange::all_of(&content), all);
        let shown = GroupChange::without_passwords(&content).expect("it has one");
        assert_eq!(GroupChange::all_of(&shown), all[..1]);
        assert_eq!(GroupChange::without_passwords(&shown), None);
        let shown = GroupChange::without_passwords(
            &GroupChange::of_rule(&RoomRule::Password("hush".into())).content(),
        );
        let shown = shown.expect("it has one");
        assert_eq!((&*shown.extra, GroupChange::all_of(&shown)), (&b"set"[..], vec![]));
        let most = GroupChange::of_rule(&RoomRule::OccupantsMax(9)).content();
        let stored = b"set =6f63637570616e74732d6d61782039";
        assert_eq!((&*most.text, &*most.extra), ("", &stored[..]));
        let before = Content { text: "occupants-max 9".into(), extra: b"set"[..].into(), ..most };
        assert_eq!(
            GroupChange::of(&before),
            Some(GroupChange::of_rule(&RoomRule::OccupantsMax(9)))
        );
        let later = Content { text: "colour 1".into(), ..before };
        assert_eq!(GroupChange::all_of(&later), []);
    }

    #[test]
    fn a_text_is_a_title_or_a_reason_and_what_was_stored_without_one_is_read() {
        let change = |verb, text: &str, members| GroupChange { verb, title: text.into(), members };
        let ann = || vec![member("ann", 1)];
        assert_eq!(change(GroupVerb::Remove, "noise", ann()).reason(), "noise");
        assert_eq!(change(GroupVerb::Rename, "us", vec![]).reason(), "");
        assert_eq!(GroupVerb::Rename.text_bytes_max(), GROUP_TITLE_BYTES_MAX);
        assert_eq!(GroupVerb::Ban.text_bytes_max(), REASON_BYTES_MAX);
        let stored = |extra: &str| {
            let (kind, extra) = (Content::GROUP, extra.as_bytes().into());
            GroupChange::of(&Content { kind, extra, ..Content::default() }).expect("a change")
        };
        assert_eq!(stored("remove ann@a.example#1"), change(GroupVerb::Remove, "", ann()));
        assert_eq!(stored("dissolve").venue(), None);
        let venue = member("tea@conference.a.example", 0);
        let moved = change(GroupVerb::Dissolve, "", vec![venue.clone()]);
        assert_eq!((moved.venue(), moved.concerned()), (Some(&venue.address), &[][..]));
        let banned = change(GroupVerb::Ban, "", ann());
        assert_eq!((banned.venue(), banned.concerned()), (None, &ann()[..]));
    }

    #[test]
    fn what_is_no_change_is_not_guessed_at() {
        let of = |kind, extra: &str| {
            GroupChange::of(&Content { kind, extra: extra.as_bytes().into(), ..Content::text("") })
        };
        assert!(of(Content::GROUP, "leave ann@a.example#1").is_some());
        assert_eq!(of(Content::TEXT, "leave ann@a.example#1"), None);
        for extra in
            ["", "lead", "leave ann", "leave ann@a.example", "leave Ann@a#1", "leave a@a#x"]
        {
            assert_eq!(of(Content::GROUP, extra), None, "{extra}");
        }
    }

    #[test]
    fn groups_have_addresses_of_their_own() {
        let all = [0, 1, 2, 31, 32, 1 << 63, u64::MAX, u64::MAX - 1];
        let all = all.map(|number| AccountAddress::of_group(number, "a.example").expect("right"));
        for (n, address) in all.iter().enumerate() {
            assert!(address.is_group() && address.name().len() == 13);
            assert!(!all[..n].contains(address), "{address}");
        }
        assert!(!member("conference", 1).address.is_group());
        assert!(all[0].is_group_of("a.example") && !all[0].is_group_of("b.example"));
        assert!(!member("ann", 1).address.is_group_of("a.example"));
        assert_eq!(AccountAddress::of_group(1, &"x.".repeat(124)), None);
        let channel = AccountAddress::parse("news", "channel.a.example").expect("right");
        assert!(channel.is_group() && channel.is_channel() && !all[0].is_channel());
        assert!(channel.is_group_of("a.example") && !channel.is_group_of("b.example"));
    }

    #[test]
    fn what_tells_of_a_turn_says_to_what_and_is_no_change_of_members() {
        for fan_out in FanOut::ALL {
            let content = fan_out.content();
            assert_eq!(FanOut::of(&content), Some(fan_out));
            assert_eq!(GroupChange::of(&content), None);
            assert!(!content.counts, "nobody is told that it is unread");
            assert_eq!(FanOut::of(&Content { kind: Content::TEXT, ..content }), None);
        }
    }
}
