//! Answers about nodes, and notifications, as stanzas.

use super::super::Out;
use super::super::features::disco::{DISCO_INFO, DISCO_ITEMS, account_info, disco_info};
use super::super::session::Session;
use super::{PUBSUB, Want, bookmarks, forms, last_there, owner, private, vcard};
use crate::archive::RSM;
use crate::stanza::StanzaReply;
use crate::xml::text::escaped;
use model::chat::{NodeEvent, NodeFound, NodeItem, NodeItems, NodeNews, NodesFault, NodesFound};

const EVENT: &str = "http://jabber.org/protocol/pubsub#event";

/// Content of the answer; `account`: of the session, `to`: whom it asked.
pub(super) fn answer(
    want: &Want,
    found: NodesFound,
    (account, to): (&str, Option<&str>),
) -> Result<String, NodesFault> {
    let owner = escaped(to.unwrap_or(account));
    Ok(match (want, found) {
        (Want::Published(node), NodesFound::Done(ids)) => {
            let items: String = ids.iter().map(|id| item_head(id) + "/>").collect();
            let node = escaped(node);
            format!("<pubsub xmlns='{PUBSUB}'><publish node='{node}'>{items}</publish></pubsub>")
        }
        (Want::Subscribed(node, subscribes), NodesFound::Done(_)) => match subscribes {
            true => format!("<pubsub xmlns='{PUBSUB}'>{}</pubsub>", subscription(node, account)),
            false => String::new(),
        },
        (_, NodesFound::Done(_)) => String::new(),
        (Want::Subscriptions, NodesFound::Names(names)) => {
            let all: String = names.iter().map(|node| subscription(node, account)).collect();
            format!("<pubsub xmlns='{PUBSUB}'><subscriptions>{all}</subscriptions></pubsub>")
        }
        (Want::Account, NodesFound::Names(_)) => account_info(),
        (Want::Names, NodesFound::Names(names)) => {
            let item = |node: &str| format!("<item jid='{owner}' node='{}'/>", escaped(node));
            let items: String = names.iter().map(|node| item(node)).collect();
            format!("<query xmlns='{DISCO_ITEMS}'>{items}</query>")
        }
        (Want::Names, NodesFound::Items(parts)) => {
            let part = first(parts)?;
            let item =
                |item: &NodeItem| format!("<item jid='{owner}' name='{}'/>", escaped(&item.id));
            let items: String = part.items.iter().map(|it| item(it)).collect();
            format!("<query xmlns='{DISCO_ITEMS}'>{items}</query>")
        }
        (Want::Items(node, is_part), NodesFound::Items(parts)) => {
            items(node, &first(parts)?, *is_part)
        }
        (Want::Node(node), NodesFound::Node(found)) => node_info(node, &found),
        (Want::Configuration(node), NodesFound::Node(found)) => owner::form(node, &found.config),
        (Want::Members(node), found) => owner::accounts(node, &found, (account, true))?,
        (Want::Subscribers(node), found) => owner::accounts(node, &found, (account, false))?,
        (Want::VCard(is_own), NodesFound::Items(parts)) => vcard::vcard(&parts, *is_own)?,
        (Want::Private(element), NodesFound::Items(parts)) => private::kept(element, parts)?,
        (Want::Bookmarks, NodesFound::Items(parts)) => bookmarks::storage(&parts),
        (Want::LastThere, NodesFound::LastThere { ago_s }) => last_there::ago(ago_s),
        _ => return Err(NodesFault::Invalid),
    })
}

pub(super) fn first(parts: Box<[Result<NodeItems, NodesFault>]>) -> Result<NodeItems, NodesFault> {
    parts.into_vec().into_iter().next().unwrap_or(Err(NodesFault::Invalid))
}

fn item_head(id: &str) -> String {
    format!("<item id='{}'", escaped(id))
}

fn item(item: &NodeItem) -> String {
    let payload = String::from_utf8_lossy(&item.payload);
    format!("{}>{payload}</item>", item_head(&item.id))
}

/// Items (XEP-0060 6.5.2, 6.5.4).
fn items(node: &str, found: &NodeItems, is_part: bool) -> String {
    let inner: String = found.items.iter().map(|it| item(it)).collect();
    let items = format!("<items node='{}'>{inner}</items>", escaped(node));
    let set = match is_part || (found.items.len() as u32) < found.total {
        true => set(found),
        false => String::new(),
    };
    format!("<pubsub xmlns='{PUBSUB}'>{items}{set}</pubsub>")
}

/// Which part this is (XEP-0059 2.2).
fn set(found: &NodeItems) -> String {
    let ends = match (found.items.first(), found.items.last()) {
        (Some(first), Some(last)) => {
            let (first, last) = (escaped(&first.id), escaped(&last.id));
            format!("<first index='{}'>{first}</first><last>{last}</last>", found.index)
        }
        _ => String::new(),
    };
    format!("<set xmlns='{RSM}'>{ends}<count>{}</count></set>", found.total)
}

fn subscription(node: &str, account: &str) -> String {
    let (node, jid) = (escaped(node), escaped(account));
    format!("<subscription node='{node}' jid='{jid}' subscription='subscribed'/>")
}

/// How a node is (XEP-0060 5.3, 5.4).
fn node_info(node: &str, found: &NodeFound) -> String {
    let form = forms::information(&found.config);
    let identity = "<identity category='pubsub' type='leaf'/>";
    disco_info(Some(node), identity, [DISCO_INFO, DISCO_ITEMS, PUBSUB], &form)
}

impl Session {
    /// Writes a notification of a node's change (XEP-0060 7.1.2.1, 7.2.2.1, 8.4.2, 8.5.2).
    pub(in crate::server) fn node_news(&mut self, news: &NodeNews, out: &mut Out) {
        let node = escaped(&news.node);
        for event in &*news.events {
            let inner = match event {
                NodeEvent::Published(it) => format!("<items node='{node}'>{}</items>", item(it)),
                NodeEvent::Named(id) => {
                    format!("<items node='{node}'>{}/></items>", item_head(id))
                }
                NodeEvent::Retracted(id) => {
                    let id = escaped(id);
                    format!("<items node='{node}'><retract id='{id}'/></items>")
                }
                NodeEvent::Purged => format!("<purge node='{node}'/>"),
                NodeEvent::Deleted => format!("<delete node='{node}'/>"),
            };
            let id = format!("node{}", self.name_one());
            let (from, id) = (Some(news.from.as_str()), Some(&*id));
            let head = StanzaReply { name: "message", from, to: self.jid(), id };
            let event = format!("<event xmlns='{EVENT}'>{inner}</event>");
            head.put("headline", &event, out.bytes());
            self.counts_sent(out);
        }
    }
}
