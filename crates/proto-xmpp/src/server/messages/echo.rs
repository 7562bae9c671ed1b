//! Echo of a stanza in the error that answers it: its elements (RFC 6120 8.3.1), if they are small.
//!
//! Stanzas that wait for an answer of the service are kept until a device has none of them any
//! more, the newest of a few. Invariant: what is said back stands for the same in the error.

use crate::server::session::Session;
use crate::xml::scan::{Element, Scan};
use std::collections::VecDeque;

/// Bytes of a stanza that is said back.
const ECHO_BYTES_MAX: usize = 1_024;

/// Stanzas of a device that are kept for it.
const ECHOES_MAX: usize = 16;

/// A stanza that has no answer yet.
struct Echo {
    id: Option<Box<str>>,
    whole: Box<str>,
}

/// Stanzas that have no answer yet.
#[derive(Default)]
pub(in crate::server) struct Echoes(VecDeque<Echo>);

impl Echoes {
    /// Memory of the echoes, bytes, roughly.
    pub(in crate::server) fn weight(&self) -> usize {
        self.0.iter().map(|it| size_of::<Echo>() + it.whole.len()).sum()
    }

    /// Forgets all echoes: no stanza can be answered by an error any more.
    pub(in crate::server) fn clear(&mut self) {
        self.0.clear();
    }

    fn keep(&mut self, stanza: &Element<'_, '_>) {
        if self.0.len() >= ECHOES_MAX {
            self.0.pop_front();
        }
        let id = stanza.attribute("id").map(|id| Box::from(&*id));
        self.0.push_back(Echo { id, whole: stanza.whole().into() });
    }

    /// Echo for an error to the stanza of this name and id.
    fn take(&mut self, name: &str, id: Option<&str>) -> String {
        let is_it = |it: &Echo| {
            it.id.as_deref() == id && it.whole.get(1..).is_some_and(|rest| rest.starts_with(name))
        };
        let found = self.0.iter().rposition(is_it).and_then(|at| self.0.remove(at));
        let Some(Echo { whole, .. }) = found else { return String::new() };
        Scan::element(whole.as_bytes()).map_or_else(|_| String::new(), |scan| echo(&scan.root()))
    }
}

impl Session {
    /// A stanza is being heard: an error may answer it.
    pub(in crate::server) fn keeps_for_echo(&mut self, stanza: &Element<'_, '_>) {
        let is_small = stanza.whole().len() <= ECHO_BYTES_MAX;
        if is_small && !stanza.has_prefix() && stanza.children().next().is_some() {
            self.busy().echoes.keep(stanza);
        }
    }

    /// Echo for an error to a stanza.
    pub(in crate::server) fn echo_of(&mut self, name: &str, id: Option<&str>) -> String {
        self.busy.as_mut().map_or_else(String::new, |busy| busy.echoes.take(name, id))
    }
}

/// The elements of a stanza as they stand in an error, as far as they mean the same there.
pub(crate) fn echo(stanza: &Element<'_, '_>) -> String {
    let is_small = stanza.whole().len() <= ECHO_BYTES_MAX;
    let children = stanza.children().filter(|child| is_small && !child.has_prefix());
    children.map(|child| child.whole()).filter(|whole| Scan::alone(whole).is_ok()).collect()
}
