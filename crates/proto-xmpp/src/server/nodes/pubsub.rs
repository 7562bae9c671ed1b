//! PubSub of accounts, for whoever may read and for who publishes (XEP-0060 5 to 7, XEP-0163).

use super::{PUBSUB, Want, Wanted, avatar, forms, payload};
use crate::archive::RSM;
use crate::jid::Jid;
use crate::server::session::Session;
use crate::xml::scan::Element;
use base::time::Now;
use model::chat::*;

/// The question of a `get` (6.5, 5.6).
pub(super) fn gets(pubsub: &Element<'_, '_>) -> Wanted {
    if let Some(items) = pubsub.child("items", PUBSUB) {
        return items_of(pubsub, &items);
    }
    match pubsub.child("subscriptions", PUBSUB) {
        Some(_) => Ok((Want::Subscriptions, NodesAsk::Subscriptions)),
        None => Err(NodesFault::Unknown),
    }
}

/// The ids of all items of a node (XEP-0060 5.5).
pub(super) fn all_of(node: Box<str>) -> (Want, NodesAsk) {
    let which = ItemsChosen::Last(u32::MAX);
    (Want::Names, NodesAsk::Items(one(node, which)))
}

fn one(node: Box<str>, which: ItemsChosen) -> Box<[ItemsWanted]> {
    [ItemsWanted { space: NodeSpace::Published, node, which }].into()
}

fn items_of(pubsub: &Element<'_, '_>, items: &Element<'_, '_>) -> Wanted {
    let node = name_of(items)?;
    let ids = ids_in(items)?;
    if ids.len() > NODE_CHANGE_MAX {
        return Err(NodesFault::TooLarge);
    }
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| NodesFault::Invalid);
    let most = items.attribute("max_items").map(|most| number(&most)).transpose()?;
    let set = pubsub.child("set", RSM);
    let text = |name: &str| {
        let child = set.and_then(|set| set.child(name, RSM));
        child.map(|child| Box::<str>::from(child.text()))
    };
    let max = text("max").map(|max| number(&max)).transpose()?;
    let which = match (ids.is_empty(), text("after"), text("before")) {
        (false, ..) => ItemsChosen::Ids(ids.into()),
        (true, Some(_), Some(_)) => return Err(NodesFault::Invalid),
        (true, Some(after), None) => ItemsChosen::After(Some(after), max.unwrap_or(u32::MAX)),
        (true, None, Some(before)) if before.is_empty() => {
            ItemsChosen::Last(max.unwrap_or(u32::MAX))
        }
        (true, None, Some(before)) => ItemsChosen::Before(before, max.unwrap_or(u32::MAX)),
        (true, None, None) if set.is_some() => ItemsChosen::After(None, max.unwrap_or(u32::MAX)),
        (true, None, None) => ItemsChosen::Last(most.unwrap_or(u32::MAX)),
    };
    Ok((Want::Items(node.clone(), set.is_some()), NodesAsk::Items(one(node, which))))
}

/// The ids of the items in an element; each has one.
fn ids_in(element: &Element<'_, '_>) -> Result<Vec<Box<str>>, NodesFault> {
    let items = element.children().filter(|it| it.is("item", PUBSUB));
    items.map(|item| item.attribute("id").map(Box::from).ok_or(NodesFault::Invalid)).collect()
}

/// The node that an element names.
pub(super) fn name_of(element: &Element<'_, '_>) -> Result<Box<str>, NodesFault> {
    let node = element.attribute("node").filter(|node| !node.is_empty());
    node.map(Box::from).ok_or(NodesFault::Invalid)
}

impl Session {
    /// The order of a `set` (6.1, 6.2, 7, 8.1).
    pub(super) fn sets_of_nodes(&mut self, now: Now, pubsub: &Element<'_, '_>) -> Wanted {
        let Some(first) = pubsub.children().find(|it| it.namespace() == PUBSUB) else {
            return Err(NodesFault::Invalid);
        };
        match first.name() {
            "publish" => self.publishes(now, pubsub, &first),
            "retract" => retracts(&first),
            "create" => {
                // XEP-0060 8.1.2: an instant node would have a name of the server's making.
                let node = name_of(&first).map_err(|_| NodesFault::NotSupported)?;
                let options = match pubsub.child("configure", PUBSUB) {
                    Some(configure) => forms::options(&configure)?,
                    None => NodeOptions::default(),
                };
                Ok((Want::Order, NodesAsk::Create(node, Box::new(options))))
            }
            "subscribe" | "unsubscribe" => {
                let node = name_of(&first)?;
                let jid = first.attribute("jid").ok_or(NodesFault::Invalid)?;
                let account = Jid::parse(&jid).and_then(|jid| jid.account);
                if account.is_none_or(|account| account.as_str() != self.account()) {
                    return Err(NodesFault::Invalid); // 6.1.3.1: another's JID
                }
                Ok(match first.name() {
                    "subscribe" => {
                        (Want::Subscribed(node.clone(), true), NodesAsk::Subscribe(node))
                    }
                    _ => (Want::Subscribed(node.clone(), false), NodesAsk::Unsubscribe(node)),
                })
            }
            _ => Err(NodesFault::Unknown),
        }
    }

    fn publishes(
        &mut self,
        now: Now,
        pubsub: &Element<'_, '_>,
        publish: &Element<'_, '_>,
    ) -> Wanted {
        let node = name_of(publish)?;
        let options = match pubsub.child("publish-options", PUBSUB) {
            // 7.1.5: what cannot be so is not as it must be.
            Some(options) => Some(forms::options(&options).map_err(|fault| match fault {
                NodesFault::NotSupported => NodesFault::OtherConfig,
                fault => fault,
            })?),
            None => None,
        };
        let mut items = Vec::new();
        for item in publish.children().filter(|it| it.is("item", PUBSUB)) {
            let mut children = item.children();
            let (Some(child), None) = (children.next(), children.next()) else {
                return Err(NodesFault::Invalid); // 7.1.3.6
            };
            let id = match item.attribute("id").filter(|id| !id.is_empty()) {
                Some(id) => id.into(),
                None => self.new_id(now),
            };
            items.push(NodeItem { id, payload: payload(&child)? });
        }
        if items.is_empty() {
            return Err(NodesFault::Invalid);
        }
        let badge = items.last().and_then(|last| avatar::badge(&node, last));
        let (publish, options) = (items, options.map(Box::new));
        let of = NodeChange::of(NodeSpace::Published, node.clone());
        let change = NodeChange { publish, options, badge, ..of };
        Ok((Want::Published(node), NodesAsk::Change(vec![change])))
    }

    /// An id for an item that comes without one (7.1.2).
    fn new_id(&mut self, now: Now) -> Box<str> {
        let named = self.name_one();
        format!("{:x}-{:x}-{named:x}", now.wall_ms, self.session.bits()).into()
    }
}

/// Items are taken back (7.2).
fn retracts(retract: &Element<'_, '_>) -> Wanted {
    let node = name_of(retract)?;
    let ids = ids_in(retract)?;
    if ids.is_empty() {
        return Err(NodesFault::Invalid);
    }
    let change = NodeChange {
        retract: ids,
        must_be_there: true,
        tells: matches!(retract.attribute("notify").as_deref(), Some("1" | "true")),
        ..NodeChange::of(NodeSpace::Published, node)
    };
    Ok((Want::Order, NodesAsk::Change(vec![change])))
}
