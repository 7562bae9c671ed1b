//! Requests of sessions about nodes, of their own account or of another, and their way to that
//! account's home.
//!
//! Invariant: each request is answered once: by the home of the nodes' account, or with a fault.

use super::access::{Standing, readable};
use super::items::Whose;
use super::node::Node;
use super::{NodeName, Task, fault_for};
use crate::conversations::bookmarks::Published;
use crate::service::flow::Flow;
use crate::sessions::Requester;
use crate::word::{PeerReply, PeerRequest, ReplyTo};
use crate::{Chat, Effects};
use base::encoding::Encoding;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::*;
use model::counters::ChatCounter;
use model::id::ConnRef;
use model::pressure::Pressure;
use model::timeline::TimelineId;

/// A request about the nodes of an account, on its way to their home.
#[derive(Debug, Encoding)]
pub struct NodesAsked {
    /// The account that makes the request.
    pub(crate) from: AccountAddress,
    pub(crate) by: TimelineId,
    /// The account of the nodes.
    pub(crate) of: AccountAddress,
    pub(crate) inbox: TimelineId,
    pub(crate) ask: NodesAsk,
}

/// The receiver of an answer.
pub(super) enum Reply {
    Session(Requester),
    /// A session that publishes bookmarks.
    Publisher(Requester, Box<Published>),
    /// A flow of some shard.
    Flow(ReplyTo),
}

impl NodesAsked {
    /// Approximate memory beside the request itself, bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<NodesAsked>() + weight_of(&self.ask)
    }
}

/// Makes a request about the nodes of another account.
async fn ask(
    mut flow: Flow,
    wait: Requester,
    by: (AccountAddress, TimelineId),
    of: (AccountAddress, NodesAsk),
) {
    let result = ask_owner(&mut flow, by, of).await;
    let (chat, _, fx) = flow.state();
    chat.reply_nodes(Reply::Session(wait), result, fx);
}

async fn ask_owner(
    flow: &mut Flow,
    (from, by): (AccountAddress, TimelineId),
    (of, ask): (AccountAddress, NodesAsk),
) -> Result<NodesFound, NodesFault> {
    let id = flow.account(&of, weight_of(&ask)).await.map_err(fault_for)?;
    let (chat, _, _) = flow.state();
    if chat.people.blocks(by, &of) {
        return Err(NodesFault::Blocked);
    }
    let inbox = of.inbox(chat.settings.home, id);
    let home = chat.settings.shard_at(inbox);
    let asked = Box::new(NodesAsked { from, by, of, inbox, ask });
    match flow.request(home, PeerRequest::Nodes(asked)).await.map_err(fault_for)? {
        PeerReply::Nodes(result) => *result,
        _ => Err(NodesFault::Busy),
    }
}

impl Chat {
    /// Handles a session's request about nodes.
    pub(crate) fn ask_nodes(
        &mut self,
        now: Now,
        from: ConnRef,
        asked: NodesRequest,
        fx: &mut Effects,
    ) {
        let NodesRequest { session, number, of, ask } = asked;
        let Some(asker) = self.asker(from, session) else { return };
        fx.counters.count(ChatCounter::NodesAsked);
        let wait = Requester { conn: from, session, number };
        let (by, address) = (asker.inbox, asker.address);
        if changes(&ask) && self.pressure >= Pressure::Stores {
            return self.reply_nodes(Reply::Session(wait), Err(NodesFault::Busy), fx);
        }
        if let NodesAsk::Items(wanted) = &ask
            && wanted.len() > NODES_ASKED_MAX
        {
            return self.reply_nodes(Reply::Session(wait), Err(NodesFault::TooLarge), fx);
        }
        let whose = of.map(|of| of.within(address.domain()));
        match whose.filter(|of| *of != address) {
            None => {
                let (inbox, of) = (by, address.clone());
                let asked = Box::new(NodesAsked { from: address.clone(), by, of, inbox, ask });
                let task = Task::Ask(asked, Reply::Session(wait));
                self.for_nodes(now, (inbox, &address), task, fx);
            }
            Some(of) if of.is_group() => {
                self.reply_nodes(Reply::Session(wait), Err(NodesFault::UnknownAccount), fx);
            }
            Some(_) if !may_ask(&ask) => {
                self.reply_nodes(Reply::Session(wait), Err(NodesFault::Forbidden), fx);
            }
            Some(of) => {
                if !self.begin(|flow| self::ask(flow, wait, (address, by), (of, ask))) {
                    self.reply_nodes(Reply::Session(wait), Err(NodesFault::Busy), fx);
                }
            }
        }
    }

    /// Handles another shard's request about nodes of an account of this one.
    pub(crate) fn nodes_asked(
        &mut self,
        now: Now,
        to: ReplyTo,
        asked: Box<NodesAsked>,
        fx: &mut Effects,
    ) {
        let (inbox, of) = (asked.inbox, asked.of.clone());
        self.for_nodes(now, (inbox, &of), Task::Ask(asked, Reply::Flow(to)), fx);
    }

    pub(super) fn reply_nodes(
        &mut self,
        reply: Reply,
        result: Result<NodesFound, NodesFault>,
        fx: &mut Effects,
    ) {
        match reply {
            Reply::Publisher(wait, published) => {
                if result.is_ok() {
                    self.bookmarks.are_published(*published);
                }
                self.reply_nodes(Reply::Session(wait), result, fx);
            }
            Reply::Session(Requester { conn, session, number }) => {
                if result.is_err() {
                    fx.counters.count(ChatCounter::NodesFailed);
                }
                let answer = ChatDelivery::Nodes(Box::new(NodesAnswer { number, result }));
                self.answer_session((conn, session), answer, fx);
            }
            Reply::Flow(to) => self.reply(to, Ok(PeerReply::Nodes(Box::new(result))), fx),
        }
    }

    /// Answers a request whose requester has been checked.
    pub(super) fn answer_asked(
        &mut self,
        now: Now,
        inbox: TimelineId,
        (asked, reply): (NodesAsked, Reply),
        standing: &Standing,
        fx: &mut Effects,
    ) {
        let NodesAsked { from, by, ask, .. } = asked;
        if *standing == Standing::Blocked || (*standing != Standing::Owner && !may_ask(&ask)) {
            return self.reply_nodes(reply, Err(NodesFault::UnknownAccount), fx);
        }
        match ask {
            NodesAsk::Items(wanted) => {
                let whose = Whose::Asked(reply);
                self.read_items(now, inbox, (&wanted, whose), standing, fx);
            }
            NodesAsk::Change(changes) => {
                self.order_items(now, (inbox, from), (changes, reply), standing, fx);
            }
            NodesAsk::Subscribe(node) => {
                let may = self.look_at_node(inbox, &node, standing).map(|_| ());
                match may {
                    Ok(()) => {
                        let who = (from, by, true);
                        self.change_subscriber(now, inbox, (node, who, reply), fx);
                    }
                    Err(fault) => self.reply_nodes(reply, Err(fault), fx),
                }
            }
            NodesAsk::Unsubscribe(node) => {
                self.change_subscriber(now, inbox, (node, (from, by, false), reply), fx);
            }
            NodesAsk::Names => {
                let may_read = |node: &Node| standing.may_read(node.readers()).is_ok();
                let names = self.names((inbox, NodeSpace::Published), may_read);
                let sees = !matches!(standing, Standing::Other { sees: false, .. });
                // A requester that may not see the account learns of none of its nodes.
                let names = (sees || !names.is_empty()).then_some(NodesFound::Names(names));
                self.reply_nodes(reply, names.ok_or(NodesFault::UnknownAccount), fx);
            }
            NodesAsk::Subscriptions => {
                let is_it =
                    |(other, inbox): &(AccountAddress, TimelineId)| *other == from && *inbox == by;
                let names = self.names((inbox, NodeSpace::Published), |node| {
                    node.subscribers.iter().any(is_it)
                });
                self.reply_nodes(reply, Ok(NodesFound::Names(names)), fx);
            }
            NodesAsk::KeptNames => {
                let names = self.names((inbox, NodeSpace::Kept), |_| true);
                self.reply_nodes(reply, Ok(NodesFound::Names(names)), fx);
            }
            NodesAsk::Node(node) => {
                let found = self.look_at_node(inbox, &node, standing);
                let found = found.map(|node| NodesFound::Node(Box::new(node)));
                self.reply_nodes(reply, found, fx);
            }
            NodesAsk::Accounts(node) => {
                let accounts = self.accounts_of(inbox, node);
                self.reply_nodes(reply, accounts, fx);
            }
            NodesAsk::LastThere => {
                let found = self.last_there(now, inbox, standing);
                self.reply_nodes(reply, found, fx);
            }
            ask => self.change_node(now, inbox, (ask, reply), fx),
        }
    }

    /// Changes items of the account's nodes; bookmarks that are replaced are read first.
    fn order_items(
        &mut self,
        now: Now,
        (inbox, from): (TimelineId, AccountAddress),
        (changes, reply): (Vec<NodeChange>, Reply),
        standing: &Standing,
        fx: &mut Effects,
    ) {
        match (self.bookmarks_replaced(&changes), reply) {
            (Some(wanted), Reply::Session(wait)) if !self.is_of_bookmark(wait) => {
                let whose = Whose::Replaced(Box::new((from, changes, wait)));
                self.read_items(now, inbox, (&[wanted], whose), standing, fx);
            }
            (_, reply) => self.change_items(now, inbox, (changes.into(), reply), fx),
        }
    }

    fn last_there(
        &self,
        now: Now,
        inbox: TimelineId,
        standing: &Standing,
    ) -> Result<NodesFound, NodesFault> {
        match standing {
            Standing::Other { sees: false, .. } => Err(NodesFault::NotSubscribed),
            _ => {
                let ago_s = self.last_there_s(now, inbox).ok_or(NodesFault::UnknownItem)?;
                Ok(NodesFound::LastThere { ago_s })
            }
        }
    }

    fn names(
        &self,
        (inbox, space): (TimelineId, NodeSpace),
        is_so: impl Fn(&Node) -> bool,
    ) -> Box<[Box<str>]> {
        let of = self.nodes.of(inbox);
        let nodes = of.iter().flat_map(|of| &of.nodes);
        let is_listed =
            |(name, node): &(&NodeName, &Node)| name.0 == space && !node.is_gone && is_so(node);
        nodes.filter(is_listed).map(|(name, _)| name.1.clone()).collect()
    }

    fn look_at_node(
        &self,
        inbox: TimelineId,
        node: &str,
        standing: &Standing,
    ) -> Result<NodeFound, NodesFault> {
        let name = (NodeSpace::Published, node.into());
        let of = self.nodes.of(inbox).ok_or(NodesFault::Busy)?;
        let node = readable(of, &name, standing)?;
        Ok(NodeFound { config: node.config.clone(), items: node.items.len() as u32 })
    }

    fn accounts_of(&self, inbox: TimelineId, node: Box<str>) -> Result<NodesFound, NodesFault> {
        let name = (NodeSpace::Published, node);
        let of = self.nodes.of(inbox).ok_or(NodesFault::Busy)?;
        let node = of.node(&name).ok_or(NodesFault::UnknownNode)?;
        let subscribers = node.subscribers.iter().map(|(address, _)| address.clone()).collect();
        Ok(NodesFound::Accounts { subscribers, members: node.members.clone().into() })
    }
}

/// Whether other accounts may make this request.
fn may_ask(ask: &NodesAsk) -> bool {
    matches!(
        ask,
        NodesAsk::Items(_)
            | NodesAsk::Names
            | NodesAsk::Node(_)
            | NodesAsk::Subscribe(_)
            | NodesAsk::Unsubscribe(_)
            | NodesAsk::Subscriptions
            | NodesAsk::LastThere
    )
}

/// Whether the request may write large amounts.
fn changes(ask: &NodesAsk) -> bool {
    matches!(
        ask,
        NodesAsk::Change(_)
            | NodesAsk::Create(..)
            | NodesAsk::Configure(..)
            | NodesAsk::Subscribe(_)
            | NodesAsk::Members(..)
    )
}

/// Approximate memory of a request beside itself, bytes.
fn weight_of(ask: &NodesAsk) -> usize {
    let wanted = |wanted: &ItemsWanted| {
        let ids = match &wanted.which {
            ItemsChosen::Ids(ids) => ids.iter().map(|id| 16 + id.len()).sum(),
            _ => ITEM_ID_BYTES_MAX,
        };
        size_of::<ItemsWanted>() + wanted.node.len() + ids
    };
    match ask {
        NodesAsk::Items(parts) => parts.iter().map(wanted).sum(),
        NodesAsk::Change(changes) => {
            let of = |change: &NodeChange| -> usize {
                let items: usize = change.publish.iter().map(NodeItem::weight).sum();
                items + change.retract.iter().map(|id| 16 + id.len()).sum::<usize>()
            };
            changes.iter().map(of).sum()
        }
        _ => NODE_NAME_BYTES_MAX,
    }
}
