//! Names of hosts and services: a resolver's questions and answers.
//!
//! A question is handed over with a ticket and its answer comes later, by the way that the resolver
//! was given when it was created; nothing blocks. It does not know what an address is used for.
//! Invariant: each question is answered once, with records or with the reason why there are none.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Question to the domain name system. Names are in ASCII (RFC 5890).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NameQuestion {
    /// The addresses of a host: its A and AAAA records. One with a dot at its end is whole; another
    /// may be completed by what the system searches (resolv.conf(5), `search`).
    Addresses(Box<str>),
    /// Where a service of a domain is: SRV records (RFC 2782), of `_xmpp-server._tcp.example.org`.
    Services(Box<str>),
}

impl NameQuestion {
    /// The name that is asked about.
    pub fn name(&self) -> &str {
        match self {
            NameQuestion::Addresses(name) | NameQuestion::Services(name) => name,
        }
    }
}

/// Records that answer a question, at least one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameRecords {
    /// Addresses, in the resolver's order.
    Addresses(Arc<[IpAddr]>),
    /// Places of a service, in no order.
    Services(Arc<[ServiceRecord]>),
}

/// Place of a service (RFC 2782).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceRecord {
    /// Lower ones are tried first.
    pub priority: u16,
    /// Its part of the calls among those of its priority.
    pub weight: u16,
    /// The port.
    pub port: u16,
    /// The host; empty: the service is decidedly not offered (the target is the root).
    pub target: Box<str>,
}

/// Reason why a question has no records for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameFault {
    /// The name does not exist, or it has no records of this kind.
    Absent,
    /// The servers of names did not answer in time, or could not.
    Failed,
    /// The limit of waiting questions is reached.
    Busy,
    /// The question is not a valid name (RFC 1035 2.3.4).
    Malformed,
}

impl NameFault {
    /// Meaning of the fault, for people.
    pub const fn meaning(self) -> &'static str {
        match self {
            NameFault::Absent => "the name does not exist, or has no such records",
            NameFault::Failed => "the name servers did not answer",
            NameFault::Busy => "too many names are being looked up",
            NameFault::Malformed => "this is no name of a host",
        }
    }
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.meaning())
    }
}

/// Answer to a question.
pub type NameAnswer = Result<NameRecords, NameFault>;

/// Resolver of names of hosts and services.
pub trait NameResolver {
    /// Asks. The answer comes with the ticket, later than this call returns.
    fn ask(&mut self, ticket: u64, question: NameQuestion);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_a_name_and_a_fault_a_meaning() {
        let names =
            [NameQuestion::Addresses("a".into()), NameQuestion::Services("_b._tcp.a".into())];
        assert_eq!(names.each_ref().map(NameQuestion::name), ["a", "_b._tcp.a"]);
        let faults = [NameFault::Absent, NameFault::Failed, NameFault::Busy, NameFault::Malformed];
        let mut told = faults.map(|fault| fault.to_string()).to_vec();
        told.dedup();
        assert_eq!(told.len(), 4);
        assert_eq!(told[0], "the name does not exist, or has no such records");
    }
}
