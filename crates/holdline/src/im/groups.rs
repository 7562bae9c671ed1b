//! `holdline im groups`: groups are made and changed, and their members listed.
//!
//! Each command gives one order and waits until it is stored. One that changes nothing, for it is
//! so already, is taken as done: a script may give it again.

use super::send::{addressee, id_of};
use super::{Common, Failure, answer, goodbye};
use base::text::escaped;
use clap::Subcommand;
use client::im::{ImEvent, ImOrder, ImSession};
use model::account::Addressee;
use model::chat::{
    ChatFault, GroupOrder, GroupVerb, MEMBERS_PAGE_MAX, MemberStatus, MembersPage, MembersRange,
};

/// How often a list may begin anew because its group has changed meanwhile.
const ANEW_MAX: u32 = 16;

/// Action on groups.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create a group with you and others, and print its address
    Make(Made),
    /// List members, one per line: address, role, and whether muted
    Members(Group),
    /// Add members
    Add(Named),
    /// Invite users: they become members when they join
    Invite(Named),
    /// Remove members, or withdraw an invitation
    Remove(Named),
    /// Join an unlocked group or one you are invited to, or subscribe to a channel,
    /// NAME@channel.DOMAIN
    Join(Changed),
    /// Leave a group or a channel, or decline an invitation
    Leave(Changed),
    /// Transfer the ownership to a member; you become an admin
    HandOver(Given),
    /// Make members owners, too
    AddOwner(Named),
    /// Make owners admins; one owner stays
    RemoveOwner(Named),
    /// Promote members to admins
    Promote(Named),
    /// Demote admins to members
    Demote(Named),
    /// Mute members
    Mute(Named),
    /// Unmute members
    Unmute(Named),
    /// Allow only the owner and admins to send messages
    Close(Changed),
    /// Allow all members to send messages again
    Open(Changed),
    /// Change the title of a group
    Rename(Renamed),
    /// Dissolve a group for all its members
    Dissolve(Changed),
    /// Ban users: they are removed and cannot be added until unbanned
    Ban(Named),
    /// Lift a ban
    Unban(Named),
    /// List banned users, one address per line
    Banned(Group),
    /// Set the description of a group
    Describe(Described),
    /// Lock a group: only added or invited users get in
    Lock(Changed),
    /// Unlock a group: anybody who knows its address can join
    Unlock(Changed),
    /// Make a group public: list it among the groups of its domain
    Reveal(Changed),
    /// Remove a group from the list of its domain
    Hide(Changed),
    /// Make a group persistent: it exists until somebody dissolves it
    Persist(Changed),
    /// Make a group temporary: it ends when its XMPP room is empty
    Unpersist(Changed),
}

/// Members of a new group.
#[derive(clap::Args)]
struct Made {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    order: Order,
    /// Title
    #[arg(long, value_name = "TITLE", default_value = "")]
    title: String,
    /// Create a channel with this address, NAME@channel.DOMAIN: owner and admins publish, anybody
    /// can subscribe
    #[arg(long, value_name = "ADDRESS", conflicts_with = "names")]
    channel: Option<String>,
    /// Members: NAME, of your own domain, or NAME@DOMAIN
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// A group.
#[derive(clap::Args)]
struct Group {
    #[command(flatten)]
    common: Common,
    /// Address of the group
    #[arg(value_name = "GROUP")]
    group: String,
}

/// A group that is changed.
#[derive(clap::Args)]
struct Changed {
    #[command(flatten)]
    group: Group,
    #[command(flatten)]
    order: Order,
}

/// A group, and some whom a change concerns.
#[derive(clap::Args)]
struct Named {
    #[command(flatten)]
    changed: Changed,
    /// Users: NAME, of your own domain, or NAME@DOMAIN
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

/// A group, and who gets it.
#[derive(clap::Args)]
struct Given {
    #[command(flatten)]
    changed: Changed,
    /// New owner: NAME, of your own domain, or NAME@DOMAIN
    #[arg(value_name = "NAME")]
    name: String,
}

/// A group, and what it is to be called.
#[derive(clap::Args)]
struct Renamed {
    #[command(flatten)]
    changed: Changed,
    /// New title; empty: none
    #[arg(value_name = "TITLE", allow_hyphen_values = true)]
    title: String,
}

/// A group, and what it is about.
#[derive(clap::Args)]
struct Described {
    #[command(flatten)]
    changed: Changed,
    /// New description; empty: none
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    text: String,
}

/// Arguments of every order.
#[derive(clap::Args)]
struct Order {
    /// Request id, 32 hex digits: retries with the same id have no further effect
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

/// Carries out the command.
pub(super) fn groups(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Make(made) => make(made),
        Command::Members(group) => members(&group),
        Command::Add(named) => named.change(GroupVerb::Add),
        Command::Invite(named) => named.change(GroupVerb::Invite),
        Command::Remove(named) => named.change(GroupVerb::Remove),
        Command::Join(changed) => changed.change(GroupVerb::Join, "", &[]),
        Command::Leave(changed) => changed.change(GroupVerb::Leave, "", &[]),
        Command::HandOver(Given { changed, name }) => {
            changed.change(GroupVerb::HandOver, "", &[name])
        }
        Command::AddOwner(named) => named.change(GroupVerb::AddOwner),
        Command::RemoveOwner(named) => named.change(GroupVerb::RemoveOwner),
        Command::Promote(named) => named.change(GroupVerb::Promote),
        Command::Demote(named) => named.change(GroupVerb::Demote),
        Command::Mute(named) => named.change(GroupVerb::Mute),
        Command::Unmute(named) => named.change(GroupVerb::Unmute),
        Command::Close(changed) => changed.change(GroupVerb::Close, "", &[]),
        Command::Open(changed) => changed.change(GroupVerb::Open, "", &[]),
        Command::Rename(Renamed { changed, title }) => {
            changed.change(GroupVerb::Rename, &title, &[])
        }
        Command::Dissolve(changed) => changed.change(GroupVerb::Dissolve, "", &[]),
        Command::Ban(named) => named.change(GroupVerb::Ban),
        Command::Unban(named) => named.change(GroupVerb::Unban),
        Command::Banned(group) => banned(&group),
        Command::Describe(Described { changed, text }) => {
            changed.change(GroupVerb::Describe, &text, &[])
        }
        Command::Lock(changed) => changed.change(GroupVerb::Lock, "", &[]),
        Command::Unlock(changed) => changed.change(GroupVerb::Unlock, "", &[]),
        Command::Reveal(changed) => changed.change(GroupVerb::Reveal, "", &[]),
        Command::Hide(changed) => changed.change(GroupVerb::Hide, "", &[]),
        Command::Persist(changed) => changed.change(GroupVerb::Persist, "", &[]),
        Command::Unpersist(changed) => changed.change(GroupVerb::Unpersist, "", &[]),
    }
}

impl Named {
    fn change(&self, verb: GroupVerb) -> Result<(), Failure> {
        self.changed.change(verb, "", &self.names)
    }
}

impl Changed {
    /// Gives an order to the group, and prints the number of the message that tells of it.
    fn change(&self, verb: GroupVerb, title: &str, names: &[String]) -> Result<(), Failure> {
        let group = Some(addressee(&self.group.group)?);
        let client_id = id_of(self.order.id.as_deref())?;
        let (title, members) = (title.into(), all(names)?);
        let order = GroupOrder { group, client_id, verb, title, members };
        match give(&self.group.common, order)? {
            Some((_, id)) => out!("{id}"),
            None => note!("no change: already so"),
        }
        Ok(())
    }
}

fn make(made: Made) -> Result<(), Failure> {
    let client_id = id_of(made.order.id.as_deref())?;
    let (title, members) = (made.title.into(), all(&made.names)?);
    let group = made.channel.as_deref().map(addressee).transpose()?;
    let order = GroupOrder { group, client_id, verb: GroupVerb::Create, title, members };
    if let Some((group, _)) = give(&made.common, order)? {
        out!("{group}");
    }
    Ok(())
}

fn all(names: &[String]) -> Result<Vec<Addressee>, Failure> {
    names.iter().map(|name| addressee(name)).collect()
}

/// Gives an order: the group's address, and the number of the message that tells of the change.
/// `None`: it changes nothing.
fn give(common: &Common, order: GroupOrder) -> Result<Option<(String, u64)>, Failure> {
    let (mut session, _) = common.login("groups")?;
    session.order(ImOrder::Group { number: 1, order: Box::new(order) });
    let given = answer(&mut session, |event| match event {
        ImEvent::Changed(it) if it.number == 1 => Some(Ok(Some((it.group.to_string(), it.id)))),
        ImEvent::Failed { number: 1, why: Some(ChatFault::Unchanged), .. } => Some(Ok(None)),
        ImEvent::Failed { number: 1, word, .. } => Some(Err(format!("failed: {word}"))),
        _ => None,
    })?;
    goodbye(session);
    Ok(given)
}

fn members(group: &Group) -> Result<(), Failure> {
    let whom = addressee(&group.group)?;
    let (mut session, _) = group.common.login("groups")?;
    let (first, members) = whole_list(&mut session, (&whom, false))?;
    let closed = if first.closed { ", closed" } else { "" };
    let unlocked = if first.unlocked { ", unlocked" } else { "" };
    let public = if first.public { ", public" } else { "" };
    let temporary = if first.temporary { ", temporary" } else { "" };
    let (title, many) = (escaped(&first.title), first.total);
    note!("{}: {many} members{closed}{unlocked}{public}{temporary} \"{title}\"", first.group);
    if !first.description.is_empty() {
        note!("{}", escaped(&first.description));
    }
    for MemberStatus { member, role, muted, .. } in members {
        let muted = if muted { " muted" } else { "" };
        out!("{} {}{muted}", member.address, role.word());
    }
    goodbye(session);
    Ok(())
}

fn banned(group: &Group) -> Result<(), Failure> {
    let whom = addressee(&group.group)?;
    let (mut session, _) = group.common.login("groups")?;
    let (_, banned) = whole_list(&mut session, (&whom, true))?;
    banned.iter().for_each(|it| out!("{}", it.member.address));
    goodbye(session);
    Ok(())
}

/// All members of a group, or all who are banned from it, and what a page says besides.
fn whole_list(
    session: &mut ImSession,
    (group, banned): (&Addressee, bool),
) -> Result<(MembersPage, Vec<MemberStatus>), Failure> {
    let (mut version, mut seen, mut anew) = (0, Vec::new(), 0);
    loop {
        let (from, count) = (seen.len() as u32, MEMBERS_PAGE_MAX);
        let group = group.clone();
        let range = Box::new(MembersRange { group, version, from, count, banned });
        session.order(ImOrder::Members { number: 2, range });
        let mut page = answer(session, |event| match event {
            ImEvent::Members(page) if page.number == 2 => Some(Ok(page)),
            ImEvent::Failed { number: 2, word, .. } => {
                Some(Err(format!("list not available: {word}")))
            }
            _ => None,
        })?;
        if page.version != version {
            (version, anew) = (page.version, anew + 1);
            seen.clear();
        }
        if anew > ANEW_MAX {
            return Err("the group keeps changing: try again".to_owned().into());
        }
        let is_last = page.members.is_empty();
        seen.append(&mut page.members);
        if is_last || seen.len() as u32 >= page.total {
            return Ok((*page, seen));
        }
    }
}
