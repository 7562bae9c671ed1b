//! Order of stanzas: a stanza that depends on earlier ones waits until they are answered (RFC 6120
//! 10.1).
//!
//! The service works on many things at once. Where a stanza depends on one before it that has no
//! answer yet, the device is not read further until it has: then the stanza is shown again. Stanzas
//! that do not depend on each other do not wait. Invariant: whatever a stanza waits for is counted
//! by [`Busy::waiting`](crate::server::busy::Busy::waiting), and its answer has the device read
//! again.

use crate::jid::Jid;
use crate::server::archive::is_asked;
use crate::server::nodes::is_of_nodes;
use crate::server::session::Session;
use crate::stanza::kind;
use crate::xml::scan::{CLIENT, Element};

impl Session {
    /// Whether a stanza depends on one before it that has no answer.
    pub(in crate::server) fn comes_behind(&self, stanza: &Element<'_, '_>) -> bool {
        let Some(busy) = self.busy.as_ref().filter(|busy| busy.waiting() > 0) else { return false };
        if stanza.namespace() != CLIENT || matches!(&*kind(stanza), "result" | "error") {
            return false;
        }
        let asked = stanza.children().next().filter(|_| stanza.name() == "iq");
        let is_set = kind(stanza) == "set";
        // Rosters and block lists say who hears whom; changes of them keep their own order.
        let lists = busy.asks.iter().any(|asking| asking.changes());
        if lists && !(is_set && asked.is_some()) {
            return true;
        }
        let reads_nodes = asked.is_some_and(|asked| is_of_nodes(&asked)) && !is_set;
        if reads_nodes && busy.nodes.iter().any(|asking| asking.changes()) {
            return true;
        }
        let is_of_archive = asked.is_some_and(|asked| is_asked(&asked));
        if is_of_archive && !busy.sends.is_empty() {
            return true;
        }
        let changes_rooms = busy.rooms.as_ref().is_some_and(|rooms| rooms.is_changing());
        changes_rooms && stanza.name() != "presence" && self.is_for_room(stanza)
    }

    fn is_for_room(&self, stanza: &Element<'_, '_>) -> bool {
        let to = stanza.attribute("to").and_then(|to| Jid::parse(&to));
        to.is_some_and(|to| self.is_of_rooms(&to) || self.is_live(&to))
    }
}
