//! Access to nodes: the rights of a requester, by the account's tie with it.
//!
//! The tie is read from its row, also when it is in memory: a read comes behind every earlier
//! write. Invariant: a blocked requester gets the answer for an account that does not exist.

use super::node::Node;
use super::{NodeName, Step, Task, nodes_fault};
use crate::log::{Answered, PendingCall};
use crate::people::{self, Tie};
use crate::{Chat, Effects};
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{NodeAccess, NodesFault};
use model::ports::log::{Call, Done, Read, Table};
use model::timeline::TimelineId;

/// The relation of a requester to an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    Owner,
    Other {
        address: AccountAddress,
        /// The requester sees the account's presence.
        sees: bool,
        groups: Box<[Box<str>]>,
    },
    Blocked,
}

impl Standing {
    /// The relation of the account with this address and inbox, by the tie with it.
    pub(super) fn of(address: &AccountAddress, by: TimelineId, tie: Option<&Tie>) -> Standing {
        let Some(tie) = tie else {
            return Standing::Other {
                address: address.clone(),
                sees: false,
                groups: Box::default(),
            };
        };
        if tie.contact.is_blocked {
            return Standing::Blocked;
        }
        let is_it = tie.peer == Some(by);
        Standing::Other {
            address: address.clone(),
            sees: is_it && tie.is_seen(),
            groups: if is_it { tie.contact.groups.clone() } else { Box::default() },
        }
    }

    /// Whether the requester may read a node with these readers.
    pub(super) fn may_read(&self, readers: Readers) -> Result<(), NodesFault> {
        match self {
            Standing::Owner => Ok(()),
            Standing::Blocked => Err(NodesFault::UnknownAccount),
            Standing::Other { address, sees, groups } => readers.have(address, *sees, groups),
        }
    }
}

/// The readers of a node beside its account, by its configuration.
#[derive(Clone, Copy)]
pub(super) struct Readers<'a> {
    pub access: NodeAccess,
    pub groups: &'a [Box<str>],
    /// Sorted by address.
    pub members: &'a [AccountAddress],
}

impl Readers<'_> {
    /// Whether an account that is not blocked is a reader: one that `sees` the owner's presence or
    /// not, and that the owner has in these groups.
    pub(super) fn have(
        self,
        address: &AccountAddress,
        sees: bool,
        groups: &[Box<str>],
    ) -> Result<(), NodesFault> {
        let (may, fault) = match self.access {
            NodeAccess::Open => return Ok(()),
            NodeAccess::Presence => (sees, NodesFault::NotSubscribed),
            NodeAccess::Groups => {
                let is_in = groups.iter().any(|group| self.groups.contains(group));
                (sees && is_in, NodesFault::NotInGroup)
            }
            NodeAccess::Members => {
                (self.members.binary_search(address).is_ok(), NodesFault::NotMember)
            }
        };
        may.then_some(()).ok_or(fault)
    }
}

impl Chat {
    /// Reads the account's tie with a requester.
    pub(super) fn read_standing(&mut self, inbox: TimelineId, task: Task, fx: &mut Effects) {
        let Some(of) = self.nodes.of_mut(inbox) else { return };
        let Some((who, _)) = task.asker() else { return };
        let key = people::key_of(inbox, who.as_str());
        of.step = Step::Tie(Box::new(task));
        let read = Read::Row { table: Table::ChatContacts, key };
        self.log.ask(PendingCall::Nodes(inbox), Call::Read(read), fx);
    }

    /// Handles the tie with a requester.
    pub(super) fn standing_read(
        &mut self,
        now: Now,
        inbox: TimelineId,
        task: Task,
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some((who, by)) = task.asker().map(|(who, by)| (who.clone(), by)) else { return };
        let tie = match result {
            Ok(Done::Row(None)) => Ok(None),
            Ok(Done::Row(Some(row))) => {
                Tie::decode(who.clone(), &row).map(Some).ok_or(NodesFault::StoreFailed)
            }
            Ok(_) => Err(NodesFault::StoreFailed),
            Err(error) => Err(nodes_fault(error)),
        };
        let standing = tie.map(|tie| Standing::of(&who, by, tie.as_ref()));
        match (task, standing) {
            (Task::Ask(asked, reply), Ok(standing)) => {
                self.answer_asked(now, inbox, (*asked, reply), &standing, fx);
            }
            (Task::Last(wanted), Ok(standing)) => {
                self.read_last_items(now, inbox, *wanted, &standing, fx);
            }
            (task, Err(fault)) => {
                let address = self.nodes.of(inbox).map(|of| of.address.clone());
                if let Some(address) = address {
                    self.refuse_nodes(now, (inbox, &address), task, fault, fx);
                }
            }
            (Task::Present(..), Ok(_)) => {}
        }
    }
}

impl Task {
    /// The requester, unless it is the account itself.
    fn asker(&self) -> Option<(&AccountAddress, TimelineId)> {
        match self {
            Task::Ask(asked, _) => Some((&asked.from, asked.by)),
            Task::Last(wanted) => Some((&wanted.from, wanted.by)),
            Task::Present(..) => None,
        }
    }
}

/// The node of a name, if the requester may read it.
pub(super) fn readable<'a>(
    of: &'a super::NodesOf,
    name: &NodeName,
    standing: &Standing,
) -> Result<&'a Node, NodesFault> {
    if *standing == Standing::Blocked {
        return Err(NodesFault::UnknownAccount);
    }
    let node = of.node(name).ok_or(NodesFault::UnknownNode)?;
    standing.may_read(node.readers()).map(|()| node)
}
