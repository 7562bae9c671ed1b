//! Nodes (PEP): items that accounts of this shard publish, or store for themselves.
//!
//! ```text
//!                           ┌ not in memory: its rows are read
//! request ─► queue ─────────┤
//!                           └ one at a time ─► allowed? ┬─► items are read ─────────► answered
//!                                                       └─► items, then the node's row
//!                                                           are written ─► answered, notified
//!                                                                       └► litter deleted
//! ```
//! An account's nodes are stored at its home and held in memory without their items, which are read
//! when they are requested. The memory is a cache: accounts without requests are forgotten when
//! there are too many. Invariants: a change is answered when it is on stable storage; an item that
//! a node names exists; no account gets items that the owner does not let it read.

mod access;
mod asks;
mod change;
mod items;
mod last;
mod node;
mod notify;
mod profiles;
mod row;
mod told;

pub use asks::NodesAsked;
pub use last::LastAsked;
pub(crate) use notify::{Untold, UntoldNode};
pub(crate) use profiles::Interests;
pub use told::NodesTold;

use crate::accounts::fault_of;
use crate::log::{Answered, PendingCall};
use crate::sessions::Requester;
use crate::{Chat, Effects};
use access::Standing;
use asks::Reply;
use base::thin_queue::ThinQueue;
use base::time::{Instant, Now, earliest};
use change::Writing;
use items::Reading;
use last::{LastWanted, Lasts};
use model::account::AccountAddress;
use model::chat::{Availability, ChatFault, NodeSpace, NodesFault};
use model::counters::ChatCounter;
use model::ports::log::{Call, Done, ROWS_MAX, Read, Row, Table, Write};
use model::timeline::TimelineId;
use node::Node;
use profiles::Profiles;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Requests that may wait for the nodes of one account. A further one is answered as busy.
const LINE_MAX: usize = 1_024;

/// Cost of an account itself in memory, in nodes.
const BESIDE_NODES: usize = 4;

/// Rows that are deleted from the log at once.
const SWEPT_AT_ONCE_MAX: usize = 256;

/// A node of an account.
pub(crate) type NodeName = (NodeSpace, Box<str>);

/// Nodes of accounts of this shard in use, by inbox.
#[derive(Default)]
pub(crate) struct Nodes {
    /// None: the account has no nodes, and no request waits for them.
    known: HashMap<TimelineId, Option<Box<NodesOf>>>,
    /// Number of nodes and items of all accounts, and `BESIDE_NODES` for each account itself.
    weight: usize,
    /// Memory of waiting requests, bytes.
    waiting: u64,
    profiles: Profiles,
    lasts: Lasts,
}

/// The nodes of an account.
struct NodesOf {
    address: AccountAddress,
    step: Step,
    line: ThinQueue<Task>,
    nodes: BTreeMap<NodeName, Node>,
    /// The log may have rows that are not needed.
    is_untidy: bool,
}

/// The call that an account's nodes wait for.
#[derive(Default)]
enum Step {
    /// Reading their rows.
    #[default]
    Unread,
    Ready,
    /// Reading the account's tie with a requester.
    Tie(Box<Task>),
    /// Reading items.
    Reading(Box<Reading>),
    /// Writing this many items.
    Writing(Box<Writing>, usize),
    /// Writing the node's row.
    Settling(Box<Writing>),
    /// Deleting this many rows of litter; true: all deletions succeeded so far.
    Sweeping(NodeName, Vec<u64>, usize, bool),
    /// Deleting the row of a deleted node.
    Dropping(NodeName),
}

/// A task for the nodes of an account of this shard.
enum Task {
    /// A request about nodes.
    Ask(Box<NodesAsked>, Reply),
    /// A session's presence, to which the account's badge is added.
    Present(Requester, Option<Arc<Availability>>),
    /// A request for last items, of a session that comes online.
    Last(Box<LastWanted>),
}

impl Task {
    /// Approximate memory, bytes.
    fn bytes(&self) -> u64 {
        let beside = match self {
            Task::Ask(asked, _) => asked.weight(),
            Task::Present(..) | Task::Last(_) => 256,
        };
        (size_of::<Task>() + beside) as u64
    }
}

impl Nodes {
    fn of(&self, inbox: TimelineId) -> Option<&NodesOf> {
        self.known.get(&inbox)?.as_deref()
    }

    fn of_mut(&mut self, inbox: TimelineId) -> Option<&mut NodesOf> {
        self.known.get_mut(&inbox)?.as_deref_mut()
    }

    /// Frees the memory of an account without nodes and tasks.
    fn rest(&mut self, inbox: TimelineId) {
        if let Some(of) = self.known.get_mut(&inbox) {
            of.take_if(|of| of.is_idle() && of.nodes.is_empty());
        }
    }

    /// The weight of all nodes in memory, counted anew.
    fn weighed(&self) -> usize {
        let all = self.known.values().flatten().map(|of| of.weight());
        BESIDE_NODES * self.known.len() + all.sum::<usize>()
    }
}

impl NodesOf {
    fn new(address: AccountAddress, step: Step) -> NodesOf {
        NodesOf {
            address,
            step,
            line: ThinQueue::default(),
            nodes: BTreeMap::new(),
            is_untidy: false,
        }
    }

    fn is_idle(&self) -> bool {
        self.line.is_empty() && matches!(self.step, Step::Ready)
    }

    fn weight(&self) -> usize {
        self.nodes.values().map(Node::weight).sum()
    }

    /// The node of this name, unless it is deleted.
    fn node(&self, name: &NodeName) -> Option<&Node> {
        self.nodes.get(name).filter(|node| !node.is_gone)
    }

    /// The account's badge, from whichever node has one.
    fn badge(&self) -> Option<&str> {
        self.nodes.values().find_map(|node| node.badge.as_deref())
    }
}

impl Chat {
    /// Queues a task for the nodes of an account of this shard.
    fn for_nodes(
        &mut self,
        now: Now,
        (inbox, address): (TimelineId, &AccountAddress),
        task: Task,
        fx: &mut Effects,
    ) {
        let is_new = !self.nodes.known.contains_key(&inbox);
        let bytes = self.nodes.waiting + task.bytes();
        let is_full = self.nodes.of(inbox).is_some_and(|it| it.line.len() >= LINE_MAX)
            || bytes > self.settings.undistributed_max();
        if is_full || !self.log.may_ask() {
            return self.refuse_nodes(now, (inbox, address), task, NodesFault::Busy, fx);
        }
        if is_new {
            self.forget_idle_nodes();
            self.nodes.weight += BESIDE_NODES;
            fx.counters.count(ChatCounter::NodesLoaded);
        }
        self.nodes.waiting = bytes;
        let step = if is_new { Step::Unread } else { Step::Ready };
        let new = || Box::new(NodesOf::new(address.clone(), step));
        self.nodes.known.entry(inbox).or_default().get_or_insert_with(new).line.push_back(task);
        if is_new {
            return self.read_nodes(inbox, None, fx);
        }
        self.advance_nodes(now, inbox, fx);
    }

    /// With too many nodes and items in memory, forgets those of accounts without tasks.
    fn forget_idle_nodes(&mut self) {
        if self.nodes.weight >= self.settings.limits.chat.nodes_known_max as usize {
            self.nodes.known.retain(|_, of| of.as_ref().is_some_and(|of| !of.is_idle()));
            self.nodes.weight = self.nodes.weighed();
        }
    }

    fn read_nodes(&mut self, inbox: TimelineId, after: Option<Box<[u8]>>, fx: &mut Effects) {
        let (table, prefix) = (Table::ChatNodes, row::prefix(inbox));
        let read = Read::Rows { table, prefix, after, count: ROWS_MAX };
        self.log.ask(PendingCall::Nodes(inbox), Call::Read(read), fx);
    }

    /// Carries out tasks for an account's nodes until one has to wait for the log.
    fn advance_nodes(&mut self, now: Now, inbox: TimelineId, fx: &mut Effects) {
        while let Some(of) = self.nodes.of_mut(inbox)
            && matches!(of.step, Step::Ready)
        {
            let Some(task) = of.line.pop_front() else {
                if !self.tidy_nodes(inbox, fx) {
                    return self.nodes.rest(inbox);
                }
                continue;
            };
            let has_none = matches!(&task, Task::Last(wanted) if !of.has_last(wanted));
            self.nodes.waiting -= task.bytes();
            match task {
                Task::Ask(asked, reply) if asked.by == inbox => {
                    self.answer_asked(now, inbox, (*asked, reply), &Standing::Owner, fx);
                }
                Task::Last(wanted) if wanted.by == inbox => {
                    self.read_last_items(now, inbox, *wanted, &Standing::Owner, fx);
                }
                Task::Last(_) if has_none => self.last_over(),
                Task::Ask(..) | Task::Last(_) => self.read_standing(inbox, task, fx),
                Task::Present(wait, how) => self.present_shown(now, inbox, wait, how, fx),
            }
        }
    }

    /// Refuses a task that cannot be carried out now.
    fn refuse_nodes(
        &mut self,
        now: Now,
        (inbox, address): (TimelineId, &AccountAddress),
        task: Task,
        fault: NodesFault,
        fx: &mut Effects,
    ) {
        match task {
            Task::Ask(_, reply) => self.reply_nodes(reply, Err(fault), fx),
            // A missing badge does not stop a presence: it is sent without one.
            Task::Present(wait, mut how) => {
                if let Some(how) = &mut how {
                    Arc::make_mut(how).badge = None;
                }
                let task = crate::people::Task::Present(wait, how);
                self.for_person(now, (inbox, address), task, fx);
            }
            Task::Last(_) => {
                self.last_over();
                fx.counters.count(ChatCounter::NodeNewsLost);
            }
        }
    }

    /// Handles the log's answer to the call of an account's nodes.
    pub(crate) fn nodes_done(
        &mut self,
        now: Now,
        inbox: TimelineId,
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(of) = self.nodes.of_mut(inbox) else { return };
        match (std::mem::replace(&mut of.step, Step::Ready), result) {
            (Step::Unread, Ok(Done::Rows(rows))) => {
                return self.nodes_read(now, inbox, &rows, fx);
            }
            (Step::Unread, result) => {
                let fault = result.map_or_else(nodes_fault, |_| NodesFault::StoreFailed);
                return self.give_nodes_up(now, inbox, fault, fx);
            }
            (Step::Tie(task), result) => self.standing_read(now, inbox, *task, result, fx),
            (Step::Writing(writing, left), result) => {
                self.item_written(inbox, (writing, left), result, fx);
            }
            (Step::Settling(writing), Ok(_)) => self.node_written(now, inbox, *writing, fx),
            (Step::Settling(writing), Err(error)) => {
                self.reply_nodes(writing.reply, Err(nodes_fault(error)), fx);
            }
            (Step::Sweeping(name, numbers, left, is_whole), result) => {
                self.swept(inbox, name, (numbers, left, is_whole && result.is_ok()));
            }
            (Step::Dropping(name), Ok(_)) => {
                let gone = of.nodes.remove(&name).map_or(0, |node| node.weight());
                self.nodes.weight -= gone;
            }
            // A failed deletion is repeated after the next change.
            (Step::Dropping(_), Err(_)) => of.is_untidy = false,
            (step @ (Step::Ready | Step::Reading(_)), _) => of.step = step,
        }
        self.advance_nodes(now, inbox, fx);
    }

    /// Adds nodes that were read.
    fn nodes_read(&mut self, now: Now, inbox: TimelineId, rows: &[Row], fx: &mut Effects) {
        let Some(of) = self.nodes.of_mut(inbox) else { return };
        let mut weight = 0;
        for (key, value) in rows {
            let read = row::name_of(inbox, key).zip(Node::decode(value));
            let Some((name, node)) = read else {
                self.nodes.weight += weight;
                return self.give_nodes_up(now, inbox, NodesFault::StoreFailed, fx);
            };
            of.is_untidy |= node.is_gone;
            weight += node.weight();
            of.nodes.insert(name, node);
        }
        let more = rows.last().filter(|_| rows.len() >= ROWS_MAX);
        if more.is_some() {
            of.step = Step::Unread;
        }
        self.nodes.weight += weight;
        if let Some((last, _)) = more {
            return self.read_nodes(inbox, Some(last.clone()), fx);
        }
        self.advance_nodes(now, inbox, fx);
    }

    /// Refuses all tasks of an account whose nodes cannot be read now.
    fn give_nodes_up(&mut self, now: Now, inbox: TimelineId, fault: NodesFault, fx: &mut Effects) {
        let Some(of) = self.nodes.known.remove(&inbox) else { return };
        self.nodes.weight -= BESIDE_NODES;
        let Some(of) = of else { return };
        self.nodes.weight -= of.weight();
        for task in of.line {
            self.nodes.waiting -= task.bytes();
            self.refuse_nodes(now, (inbox, &of.address), task, fault, fx);
        }
    }

    /// Deletes rows that an account's nodes do not need any more, one node at a time. False: none
    /// is left.
    fn tidy_nodes(&mut self, inbox: TimelineId, fx: &mut Effects) -> bool {
        let Some(of) = self.nodes.of_mut(inbox).filter(|of| of.is_untidy) else {
            return false;
        };
        let untidy = |node: &Node| node.is_gone || !node.litter.is_empty();
        let Some((name, node)) = of.nodes.iter().find(|(_, node)| untidy(node)) else {
            of.is_untidy = false;
            return false;
        };
        let (name, numbers) = (name.clone(), &node.litter);
        let most = numbers.len().min(SWEPT_AT_ONCE_MAX);
        let numbers = numbers[..most].to_vec();
        let keys: Vec<_> = match numbers.is_empty() {
            true => vec![(Table::ChatNodes, row::node_key(inbox, &name))],
            false => {
                let key = |number: &u64| (Table::ChatItems, row::item_key(inbox, &name, *number));
                numbers.iter().map(key).collect()
            }
        };
        of.step = match numbers.is_empty() {
            true => Step::Dropping(name),
            false => Step::Sweeping(name, numbers, keys.len(), true),
        };
        for (table, key) in keys {
            self.log.ask(PendingCall::Nodes(inbox), Call::Write(Write::Delete { table, key }), fx);
        }
        true
    }

    /// Handles the deletion of a row of litter.
    fn swept(
        &mut self,
        inbox: TimelineId,
        name: NodeName,
        (numbers, left, is_whole): (Vec<u64>, usize, bool),
    ) {
        let Some(of) = self.nodes.of_mut(inbox) else { return };
        if left > 1 {
            of.step = Step::Sweeping(name, numbers, left - 1, is_whole);
            return;
        }
        of.is_untidy &= is_whole;
        if let Some(node) = of.nodes.get_mut(&name).filter(|_| is_whole) {
            node.litter.retain(|number| !numbers.contains(number));
            self.nodes.weight -= numbers.len();
        }
    }

    /// Handles a session's presence; the account's badge is added if the session wants that.
    pub(crate) fn present_with_badge(
        &mut self,
        now: Now,
        (inbox, address): (TimelineId, &AccountAddress),
        (wait, how): (Requester, Option<Arc<Availability>>),
        fx: &mut Effects,
    ) {
        let wants = how.as_ref().is_some_and(|how| how.badge.is_some());
        let is_behind = self.nodes.of(inbox).is_some_and(|of| !of.line.is_empty());
        if wants || is_behind {
            return self.for_nodes(now, (inbox, address), Task::Present(wait, how), fx);
        }
        let task = crate::people::Task::Present(wait, how);
        self.for_person(now, (inbox, address), task, fx);
    }

    /// Adds the account's badge to a session's presence.
    fn present_shown(
        &mut self,
        now: Now,
        inbox: TimelineId,
        wait: Requester,
        mut how: Option<Arc<Availability>>,
        fx: &mut Effects,
    ) {
        let Some(of) = self.nodes.of(inbox) else { return };
        if let Some(how) = how.as_mut().filter(|how| how.badge.is_some()) {
            Arc::make_mut(how).badge = Some(of.badge().unwrap_or_default().into());
        }
        let (address, task) = (of.address.clone(), crate::people::Task::Present(wait, how));
        self.for_person(now, (inbox, &address), task, fx);
    }

    /// Asks devices for their profiles, and continues with last items; returns when to be called
    /// again.
    pub(crate) fn turn_nodes(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let profiles = self.turn_profiles(now, fx);
        let lasts = self.turn_lasts(now, fx);
        earliest([profiles, lasts])
    }

    pub(crate) fn audit_nodes(&self) {
        assert_eq!(self.nodes.weighed(), self.nodes.weight, "all nodes are counted");
        let all = || self.nodes.known.values().flatten();
        let waiting = all().flat_map(|of| of.line.iter()).map(Task::bytes);
        assert_eq!(waiting.sum::<u64>(), self.nodes.waiting, "all that waits is counted");
        for of in all() {
            for node in of.nodes.values() {
                let counts = |number: &u64| node.items.iter().any(|item| item.number == *number);
                assert!(!node.litter.iter().any(counts), "no litter counts");
                assert!(node.items.iter().all(|item| item.number < node.next));
            }
        }
        self.nodes.profiles.audit();
    }
}

/// The fault of a request about nodes that the log refused.
fn nodes_fault(error: model::ports::log::StoreError) -> NodesFault {
    fault_for(fault_of(error))
}

/// The fault of a request about nodes for a fault that occurred before.
fn fault_for(fault: ChatFault) -> NodesFault {
    match fault {
        ChatFault::UnknownAccount => NodesFault::UnknownAccount,
        ChatFault::StoreFull => NodesFault::StoreFull,
        ChatFault::Busy => NodesFault::Busy,
        ChatFault::RateLimited => NodesFault::RateLimited,
        ChatFault::TooLarge => NodesFault::TooLarge,
        _ => NodesFault::StoreFailed,
    }
}
