//! The row of a chatroom: its state, and the rights to change it.
//!
//! ```text
//! key    home │ address
//! value  version │ flags │ keeps u16 │ owner │ title │ announcement │
//!        moderators u16, each │ muted u16, each │ banned u16, each
//! ```
//! Texts are behind their lengths; owner and moderators have the bytes of their inboxes behind
//! their addresses, so that a later account of the same name does not get their rights. Pure: it
//! does not know which sessions are in the room. Invariant: decoding returns what was encoded, and
//! owner and moderators are neither muted nor banned.

use base::bytes::{ByteReader, put_text};
use base::encoding::Encoding;
use model::account::AccountAddress;
use model::chat::{
    CHATROOM_MODERATORS_MAX, ChatFault, ChatroomOrder, ChatroomVerb as Verb, GroupRole as Role,
};
use model::ports::log::{RowHome, Table, Write};
use model::timeline::TimelineId;
use std::collections::BTreeSet;

const VERSION: u8 = 1;
const QUIET: u8 = 1;
const DURABLE: u8 = 2;

/// An account with rights, and its inbox.
pub(crate) type Holder = (AccountAddress, TimelineId);

/// A chatroom as its row stores it.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub(crate) struct ChatroomRow {
    pub(crate) owner: Holder,
    moderators: Vec<Holder>,
    pub(crate) title: Box<str>,
    pub(crate) announcement: Box<str>,
    /// Only owner and moderators may send messages.
    pub(crate) quiet: bool,
    /// The number of messages that the room keeps.
    pub(crate) keeps: u16,
    /// The room keeps its messages over a restart.
    pub(crate) durable: bool,
    muted: BTreeSet<AccountAddress>,
    banned: BTreeSet<AccountAddress>,
}

/// The account, or the operator, that makes a request about a chatroom.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct By {
    pub(crate) address: AccountAddress,
    pub(crate) inbox: TimelineId,
    pub(crate) is_operator: bool,
}

/// The limits of a row.
#[derive(Clone, Copy)]
pub(crate) struct RowLimits {
    pub(crate) keeps_max: u16,
    pub(crate) banned_max: usize,
}

impl ChatroomRow {
    /// The row of a new chatroom.
    pub(crate) fn made(by: &By, order: &ChatroomOrder, limits: RowLimits) -> ChatroomRow {
        ChatroomRow {
            owner: (by.address.clone(), by.inbox),
            moderators: Vec::new(),
            title: order.text.clone(),
            announcement: Box::default(),
            quiet: false,
            keeps: order.keeps.min(limits.keeps_max),
            durable: order.durable,
            muted: BTreeSet::new(),
            banned: BTreeSet::new(),
        }
    }

    /// The role of an account in the room, whether or not it has a session there.
    pub(crate) fn role(&self, address: &AccountAddress, inbox: TimelineId) -> Role {
        let is = |holder: &Holder| holder.1 == inbox && holder.0 == *address;
        match () {
            () if is(&self.owner) => Role::Owner,
            () if self.moderators.iter().any(is) => Role::Admin,
            () => Role::Member,
        }
    }

    pub(crate) fn is_muted(&self, address: &AccountAddress) -> bool {
        self.muted.contains(address)
    }

    pub(crate) fn is_banned(&self, address: &AccountAddress) -> bool {
        self.banned.contains(address)
    }

    pub(crate) fn banned(&self) -> usize {
        self.banned.len()
    }

    /// Whether an account may send messages there; true: its messages are left out last.
    pub(crate) fn may_speak(&self, by: &By) -> Result<bool, ChatFault> {
        let is_important = by.is_operator || self.role(&by.address, by.inbox) > Role::Member;
        if self.is_banned(&by.address) && !is_important {
            return Err(ChatFault::ChatroomBanned);
        }
        let is_silenced = self.quiet || self.is_muted(&by.address);
        match is_silenced && !is_important {
            true => Err(ChatFault::Muted),
            false => Ok(is_important),
        }
    }

    /// The row after an order that changes an existing room; `named` are the accounts that the
    /// order names, with the inbox of the one that gets rights.
    pub(crate) fn changed(
        &self,
        by: &By,
        order: &ChatroomOrder,
        named: &[(AccountAddress, Option<TimelineId>)],
        limits: RowLimits,
    ) -> Result<ChatroomRow, ChatFault> {
        if order.verb == Verb::Create {
            return Err(ChatFault::Conflict); // the room exists
        }
        let role = if by.is_operator { Role::Owner } else { self.role(&by.address, by.inbox) };
        let least = match order.verb {
            Verb::Promote | Verb::Demote | Verb::Close => Role::Owner,
            _ => Role::Admin,
        };
        if role < least {
            return Err(ChatFault::Forbidden);
        }
        let mut row = self.clone();
        match order.verb {
            Verb::Rename => row.title = order.text.clone(),
            Verb::Announce => row.announcement = order.text.clone(),
            Verb::Quiet => row.quiet = true,
            Verb::Open => row.quiet = false,
            Verb::Promote => row.promote(named, limits)?,
            Verb::Demote => {
                row.moderators.retain(|(it, _)| !named.iter().any(|(one, _)| one == it));
            }
            Verb::Mute | Verb::Ban => {
                let above = |(one, _): &(AccountAddress, _)| self.named_role(one) >= role;
                if named.iter().any(above) {
                    return Err(ChatFault::Forbidden);
                }
                let list = if order.verb == Verb::Mute { &mut row.muted } else { &mut row.banned };
                list.extend(named.iter().map(|(one, _)| one.clone()));
                if list.len() > limits.banned_max {
                    return Err(ChatFault::ChatroomsFull);
                }
                // The order may be an operator's, or the owner's, and name a moderator.
                row.moderators.retain(|(it, _)| !named.iter().any(|(one, _)| one == it));
            }
            Verb::Unmute => row.muted.retain(|it| !named.iter().any(|(one, _)| one == it)),
            Verb::Unban => row.banned.retain(|it| !named.iter().any(|(one, _)| one == it)),
            Verb::Kick => {
                let above = |(one, _): &(AccountAddress, _)| self.named_role(one) >= role;
                return if named.iter().any(above) { Err(ChatFault::Forbidden) } else { Ok(row) };
            }
            Verb::Create | Verb::Close => return Ok(row),
        }
        if row == *self { Err(ChatFault::Unchanged) } else { Ok(row) }
    }

    fn promote(
        &mut self,
        named: &[(AccountAddress, Option<TimelineId>)],
        limits: RowLimits,
    ) -> Result<(), ChatFault> {
        for (address, inbox) in named {
            let holder = (address.clone(), inbox.ok_or(ChatFault::Invalid)?);
            if self.owner.0 == *address || self.moderators.contains(&holder) {
                continue;
            }
            self.muted.remove(address);
            self.banned.remove(address);
            self.moderators.retain(|(it, _)| it != address);
            self.moderators.push(holder);
        }
        let is_full = self.moderators.len() > CHATROOM_MODERATORS_MAX.min(limits.banned_max);
        if is_full { Err(ChatFault::ChatroomsFull) } else { Ok(()) }
    }

    /// The role of a name in the room, whichever account has it now.
    fn named_role(&self, address: &AccountAddress) -> Role {
        match () {
            () if self.owner.0 == *address => Role::Owner,
            () if self.moderators.iter().any(|(it, _)| it == address) => Role::Admin,
            () => Role::Member,
        }
    }

    fn encode(&self) -> Box<[u8]> {
        let flags = if self.quiet { QUIET } else { 0 } | if self.durable { DURABLE } else { 0 };
        let mut out = vec![VERSION, flags];
        out.extend_from_slice(&self.keeps.to_le_bytes());
        put_holder(&self.owner, &mut out);
        put_text(&self.title, &mut out);
        put_text(&self.announcement, &mut out);
        out.extend_from_slice(&(self.moderators.len() as u16).to_le_bytes());
        self.moderators.iter().for_each(|holder| put_holder(holder, &mut out));
        for list in [&self.muted, &self.banned] {
            out.extend_from_slice(&(list.len() as u16).to_le_bytes());
            list.iter().for_each(|one| put_text(one.as_str(), &mut out));
        }
        out.into()
    }

    fn decode(value: &[u8]) -> Option<ChatroomRow> {
        let mut bytes = ByteReader::of(VERSION, value)?;
        let flags = bytes.flags(QUIET | DURABLE)?;
        let keeps = bytes.u16()?;
        let owner = holder(&mut bytes)?;
        let (title, announcement) = (bytes.text()?.into(), bytes.text()?.into());
        let moderators = (0..bytes.u16()?).map(|_| holder(&mut bytes)).collect::<Option<_>>()?;
        let [muted, banned] = [list(&mut bytes)?, list(&mut bytes)?];
        let (quiet, durable) = (flags & QUIET != 0, flags & DURABLE != 0);
        let row = ChatroomRow {
            owner,
            moderators,
            title,
            announcement,
            quiet,
            keeps,
            durable,
            muted,
            banned,
        };
        bytes.ends(row)
    }
}

/// The write that stores the row of a chatroom.
pub(crate) fn put(home: u64, room: &AccountAddress, row: &ChatroomRow) -> Write {
    Write::Put { table: Table::Chatrooms, key: key_of(home, room), value: row.encode() }
}

/// The write that deletes the row of a chatroom.
pub(crate) fn delete(home: u64, room: &AccountAddress) -> Write {
    Write::Delete { table: Table::Chatrooms, key: key_of(home, room) }
}

/// The chatroom of a row.
pub(crate) fn read(key: &[u8], value: &[u8]) -> Option<(AccountAddress, ChatroomRow)> {
    let name = std::str::from_utf8(RowHome::rest(key)?).ok()?;
    let room = AccountAddress::parse(name, "").ok().filter(AccountAddress::is_chatroom)?;
    Some((room, ChatroomRow::decode(value)?))
}

fn key_of(home: u64, room: &AccountAddress) -> Box<[u8]> {
    RowHome::at(home).key(&[room.as_str().as_bytes()])
}

fn put_holder((address, inbox): &Holder, out: &mut Vec<u8>) {
    put_text(address.as_str(), out);
    out.extend_from_slice(&inbox.to_bytes());
}

fn holder(bytes: &mut ByteReader<'_>) -> Option<Holder> {
    let address = AccountAddress::parse(bytes.text()?, "").ok()?;
    Some((address, TimelineId::from_bytes(bytes.take(16)?.try_into().ok()?)?))
}

fn list(bytes: &mut ByteReader<'_>) -> Option<BTreeSet<AccountAddress>> {
    (0..bytes.u16()?).map(|_| AccountAddress::parse(bytes.text()?, "").ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::account::{AccountId, Addressee};

    const LIMITS: RowLimits = RowLimits { keeps_max: 50, banned_max: 3 };

    fn address(name: &str) -> AccountAddress {
        AccountAddress::parse(name, "a.example").expect("right")
    }

    fn by(name: &str, id: u64) -> By {
        let inbox = address(name).inbox(HashKey::new(1, 2), AccountId(id));
        By { address: address(name), inbox, is_operator: false }
    }

    fn order(verb: Verb, text: &str) -> ChatroomOrder {
        let room = Addressee::parse("lobby@live.a.example").expect("right");
        ChatroomOrder { room, verb, text: text.into(), accounts: vec![], keeps: 99, durable: true }
    }

    fn change(
        row: &ChatroomRow,
        who: &By,
        verb: Verb,
        to: &[&By],
    ) -> Result<ChatroomRow, ChatFault> {
        let named: Vec<_> = to.iter().map(|it| (it.address.clone(), Some(it.inbox))).collect();
        row.changed(who, &order(verb, "new"), &named, LIMITS)
    }

    #[test]
    fn a_row_is_read_as_it_was_written_and_nothing_else_is_one() {
        let (ann, bob, cid) = (by("ann", 1), by("bob", 2), by("cid", 3));
        let mut row = ChatroomRow::made(&ann, &order(Verb::Create, "Lobby"), LIMITS);
        assert_eq!((row.keeps, row.durable), (50, true));
        row = change(&row, &ann, Verb::Promote, &[&bob]).expect("may");
        row = change(&row, &bob, Verb::Mute, &[&cid]).expect("may");
        row = change(&row, &bob, Verb::Ban, &[&cid]).expect("may");
        row = change(&row, &bob, Verb::Quiet, &[]).expect("may");
        let room = address("lobby@live.a.example");
        let Write::Put { key, value, .. } = put(7, &room, &row) else { panic!("a put") };
        assert_eq!(read(&key, &value), Some((room, row)));
        for end in 0..value.len() {
            assert_eq!(read(&key, &value[..end]), None, "cut at {end}");
        }
        assert_eq!(read(&key[..9], &value), None);
    }

    #[test]
    fn who_may_what_goes_by_roles_and_nobody_has_those_of_an_account_of_before() {
        let (ann, bob, cid, new) = (by("ann", 1), by("bob", 2), by("cid", 3), by("bob", 9));
        let row = ChatroomRow::made(&ann, &order(Verb::Create, ""), LIMITS);
        assert_eq!(change(&row, &bob, Verb::Rename, &[]), Err(ChatFault::Forbidden));
        let row = change(&row, &ann, Verb::Promote, &[&bob]).expect("may");
        assert_eq!(change(&row, &ann, Verb::Promote, &[&bob]), Err(ChatFault::Unchanged));
        assert_eq!(row.role(&bob.address, bob.inbox), Role::Admin);
        assert_eq!(row.role(&new.address, new.inbox), Role::Member);
        assert_eq!(change(&row, &bob, Verb::Kick, &[&ann]), Err(ChatFault::Forbidden));
        assert_eq!(change(&row, &bob, Verb::Close, &[]), Err(ChatFault::Forbidden));
        let quiet = change(&row, &bob, Verb::Quiet, &[]).expect("may");
        assert_eq!([&bob, &cid].map(|it| quiet.may_speak(it)), [Ok(true), Err(ChatFault::Muted)]);
        let banned = change(&row, &ann, Verb::Ban, &[&bob]).expect("an owner bans a moderator");
        assert!(banned.is_banned(&bob.address));
        assert_eq!(banned.role(&bob.address, bob.inbox), Role::Member);
        let operator = By { is_operator: true, ..cid.clone() };
        assert!(change(&row, &operator, Verb::Kick, &[&cid]).is_ok());
        assert_eq!(change(&row, &operator, Verb::Ban, &[&ann]), Err(ChatFault::Forbidden));
    }

    #[test]
    fn lists_have_an_end() {
        let ann = by("ann", 1);
        let row = ChatroomRow::made(&ann, &order(Verb::Create, ""), LIMITS);
        let all: Vec<By> = (0..4).map(|n| by(&format!("p{n}"), n)).collect();
        let all: Vec<&By> = all.iter().collect();
        for verb in [Verb::Mute, Verb::Ban] {
            assert!(change(&row, &ann, verb, &all[..3]).is_ok());
            assert_eq!(change(&row, &ann, verb, &all), Err(ChatFault::ChatroomsFull));
        }
    }
}
