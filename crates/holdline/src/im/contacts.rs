//! `holdline im contacts`: whom an account knows, who sees whom, and who is blocked (IM 12).
//!
//! Each command gives its orders and waits until they are stored. An order that changes nothing
//! succeeds: a script may give it again. The device that gives them is seen by nobody.

use super::{Common, Failure, answer, goodbye};
use base::text::escaped;
use clap::Subcommand;
use client::im::{ImEvent, ImOrder, ImSession};
use model::account::Addressee;
use model::chat::{
    CONTACTS_PAGE_MAX, Contact, ContactOrder, ContactWish, ContactsRange, Half, SubscriptionVerb,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often a list may begin anew because too much of it was removed meanwhile.
const ANEW_MAX: u32 = 16;

/// Action on contacts.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List contacts, contact requests and blocked users, one per line
    List(List),
    /// Add or change contacts, with a name and groups of your own
    Set(Kept),
    /// Remove contacts; presence is no longer shared in either direction
    Remove(Named),
    /// Become friends: request their presence and share yours; also accepts a friend request
    #[command(visible_alias = "add")]
    Befriend(Greeted),
    /// Request the presence of users
    Request(Greeted),
    /// Stop seeing the presence of users, or withdraw a request
    Cancel(Named),
    /// Let users see your presence: accept their request, or approve it in advance
    Accept(Named),
    /// Refuse a request, or stop sharing your presence
    Refuse(Named),
    /// Block users: nothing passes in either direction
    Block(Named),
    /// Unblock users
    Unblock(Named),
}

/// Form of the output.
#[derive(clap::Args)]
struct List {
    #[command(flatten)]
    common: Common,
    /// Print JSON, one object per line, with all fields
    #[arg(long)]
    json: bool,
}

/// Users that an order concerns.
#[derive(clap::Args)]
struct Named {
    #[command(flatten)]
    common: Common,
    /// Users: NAME, of your own domain, NAME@DOMAIN, or @DOMAIN for a whole other domain
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

/// Users that an order concerns, and its greeting.
#[derive(clap::Args)]
struct Greeted {
    #[command(flatten)]
    named: Named,
    /// Greeting sent with the request
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    greeting: String,
}

/// Users that an order concerns, and their names and groups.
#[derive(clap::Args)]
struct Kept {
    #[command(flatten)]
    named: Named,
    /// Your name for them; empty: none
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    name: String,
    /// Group of your contact list; can be repeated
    #[arg(long = "group", value_name = "GROUP", allow_hyphen_values = true)]
    groups: Vec<String>,
}

/// Carries out the command.
pub(super) fn contacts(arguments: Arguments) -> Result<(), Failure> {
    use SubscriptionVerb::{Subscribe, Subscribed, Unsubscribe, Unsubscribed};
    let say = |verb| ContactOrder::Say(verb, Box::default());
    match arguments.command {
        Command::List(list) => print_list(&list),
        Command::Set(Kept { named, name, groups }) => {
            let groups = groups.into_iter().map(String::into_boxed_str).collect();
            named.order(&ContactOrder::Set { name: name.into(), groups })
        }
        Command::Remove(named) => named.order(&ContactOrder::Remove),
        Command::Befriend(Greeted { named, greeting }) => {
            named.order(&ContactOrder::Befriend(greeting.into()))
        }
        Command::Request(Greeted { named, greeting }) => {
            named.order(&ContactOrder::Say(Subscribe, greeting.into()))
        }
        Command::Cancel(named) => named.order(&say(Unsubscribe)),
        Command::Accept(named) => named.order(&say(Subscribed)),
        Command::Refuse(named) => named.order(&say(Unsubscribed)),
        Command::Block(named) => named.order(&ContactOrder::Block),
        Command::Unblock(named) => named.order(&ContactOrder::Unblock),
    }
}

impl Named {
    /// Gives an order about each of these.
    fn order(&self, order: &ContactOrder) -> Result<(), Failure> {
        let contact = |name: &String| {
            Addressee::of_contact(name).map_err(|fault| Failure::from(format!("{name}: {fault}")))
        };
        let names = self.names.iter().map(contact);
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let (mut session, _) = self.common.login("contacts")?;
        for contact in names {
            let name = contact.as_str().to_owned();
            let wish = Box::new(ContactWish { contact, order: order.clone() });
            session.order(ImOrder::Contact { number: 1, wish });
            answer(&mut session, |event| match event {
                ImEvent::Done { number: 1 } => Some(Ok(())),
                ImEvent::Failed { number: 1, word, .. } => {
                    Some(Err(format!("{}: failed: {word}", escaped(&name))))
                }
                _ => None,
            })?;
        }
        goodbye(session);
        Ok(())
    }
}

fn print_list(list: &List) -> Result<(), Failure> {
    let (mut session, _) = list.common.login("contacts")?;
    // Whoever only looks is not there for others.
    session.order(ImOrder::Present { number: 1, how: None });
    let contacts = whole_list(&mut session)?;
    match list.json {
        true => contacts.iter().for_each(|one| out!("{}", shown(one))),
        false => table(&contacts),
    }
    goodbye(session);
    Ok(())
}

/// All contacts, in the order of their addresses.
fn whole_list(session: &mut ImSession) -> Result<Vec<Arc<Contact>>, Failure> {
    let (mut after, mut since, mut anew) = (0, 0, 0);
    let mut seen = BTreeMap::new();
    loop {
        let range = ContactsRange { after, since, count: CONTACTS_PAGE_MAX };
        session.order(ImOrder::Contacts { number: 2, range });
        let page = answer(session, |event| match event {
            ImEvent::Contacts(page) if page.number == 2 => Some(Ok(page)),
            ImEvent::Failed { number: 2, word, .. } => {
                Some(Err(format!("list not available: {word}")))
            }
            _ => None,
        })?;
        if page.is_anew {
            anew += 1;
            seen.clear();
        }
        if anew > ANEW_MAX {
            return Err("the list keeps changing: try again".to_owned().into());
        }
        (after, since) = (page.upto, page.since);
        for contact in page.contacts {
            match contact.is_gone() {
                true => seen.remove(&contact.address),
                false => seen.insert(contact.address.clone(), contact),
            };
        }
        if !page.more {
            return Ok(seen.into_values().collect());
        }
    }
}

/// The list for people.
fn table(all: &[Arc<Contact>]) {
    let address = |one: &Arc<Contact>| one.address.as_str().len();
    let width = all.iter().map(address).max().unwrap_or(0).max(7);
    out!("{:<width$} {:<13} NAME", "CONTACT", "STATE");
    for one in all {
        let (state, name) = (state(one), escaped(&one.name));
        out!("{:<width$} {state:<13} {name}{}", one.address.as_str(), beside(one));
    }
}

/// State of the subscription between the two, in words.
pub(super) fn state(one: &Contact) -> String {
    let words = match (one.subscription.to, one.subscription.from) {
        (Half::Subscribed, Half::Subscribed) => vec!["friends"],
        (to, from) => {
            let to = [(to == Half::Subscribed, "sees"), (to == Half::Pending, "asked")];
            let from = [(from == Half::Subscribed, "seen"), (from == Half::Pending, "asks")];
            let all = to.into_iter().chain(from);
            all.filter(|(is, _)| *is).map(|(_, word)| word).collect()
        }
    };
    let blocked = one.is_blocked.then_some("blocked");
    let words: Vec<&str> = words.into_iter().chain(blocked).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(",") }
}

/// Its groups, and what it said when it asked.
fn beside(one: &Contact) -> String {
    let groups = one.groups.iter().map(|group| format!(" [{}]", escaped(group)));
    let greeting = match &*one.greeting {
        "" => String::new(),
        greeting => format!(" \"{}\"", escaped(greeting)),
    };
    groups.collect::<String>() + &greeting
}

/// A contact as JSON.
pub(super) fn shown(one: &Contact) -> serde_json::Value {
    json!({
        "address": one.address.as_str(),
        "listed": one.is_listed,
        "name": &*one.name,
        "groups": one.groups.iter().map(|group| &**group).collect::<Vec<_>>(),
        "sees": word(one.subscription.to),
        "seen": word(one.subscription.from),
        "approved": one.subscription.approved,
        "greeting": &*one.greeting,
        "blocked": one.is_blocked,
        "version": one.version,
    })
}

fn word(half: Half) -> &'static str {
    match half {
        Half::None => "none",
        Half::Pending => "pending",
        Half::Subscribed => "subscribed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::account::AccountAddress;
    use model::chat::Subscription;

    #[test]
    fn what_is_between_two_is_said_in_words() {
        let address = AccountAddress::parse("bob", "a.example").expect("right");
        let nobody = Contact::nobody(address);
        assert_eq!(state(&nobody), "-");
        for (to, from, is_blocked, expected) in [
            (Half::Subscribed, Half::Subscribed, false, "friends"),
            (Half::Subscribed, Half::Subscribed, true, "friends,blocked"),
            (Half::Subscribed, Half::Pending, false, "sees,asks"),
            (Half::Pending, Half::Subscribed, false, "asked,seen"),
            (Half::None, Half::Pending, false, "asks"),
            (Half::None, Half::None, true, "blocked"),
        ] {
            let subscription = Subscription { to, from, approved: false };
            let one = Contact { subscription, is_blocked, ..nobody.clone() };
            assert_eq!(state(&one), expected);
        }
        let groups = ["wo\nrk".into()].into();
        let one = Contact { groups, greeting: "\x1b[2J".into(), ..nobody };
        assert_eq!(beside(&one), " [wo\\u000ark] \"\\u001b[2J\"");
    }
}
