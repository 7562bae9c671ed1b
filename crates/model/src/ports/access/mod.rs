//! Port of access: the broker's questions before a client may connect, publish or subscribe.
//!
//! An answer is immediate (a cached password, a certificate, a denial for all) or takes a while (a
//! slow hash, a question to another server): then the broker hands the question out and gets the
//! answer later, on the same shard. Rules are checked when a subscription is made, not for each
//! message, unless the filter reaches beyond what may be read.

pub mod bans;

use self::bans::BanAct;
use crate::id::ShardId;
use crate::link::ChannelBindings;
use crate::service::ServiceKind;
use crate::session::Denial;
use base::encoding::Encoding;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The SASL method of an anonymous client (RFC 4505).
pub const ANONYMOUS: &str = "ANONYMOUS";

/// The SASL method of a client that authenticates by its certificate alone (RFC 4422 A).
pub const EXTERNAL: &str = "EXTERNAL";

/// The way to users and rules. One serves all shards; calls do not block.
pub trait Access: Send + Sync {
    /// Whether this client may come in.
    fn admit(&self, now_s: u32, question: &Question) -> Admission;

    /// The grant of a known client after the rules changed, or after a restart; `None`: its earlier
    /// grant stays. A grant that has expired (`0 < until_s <= now_s`) ends the connection.
    fn renew(&self, who: &Who<'_>) -> Option<Grant>;

    /// Rules that access control of another process [encoded](Rules::encoded); `None`: they cannot
    /// be read.
    fn rules(&self, encoded: &[u8]) -> Option<Arc<dyn Rules>> {
        let _ = encoded;
        None
    }

    /// Whether this client may have its identifier, which it chose itself.
    fn may_be(&self, who: &Who<'_>) -> bool {
        let _ = who;
        true
    }

    /// Whether clients of this listener may show a password of the book, or prove that they have
    /// it: then they may also come by what stands for one.
    fn takes_passwords(&self, door: u8) -> bool {
        let _ = door;
        true
    }

    /// Whether a session that was granted to this user as `account` (`None`: as none of the book)
    /// goes on: its account is there, and no order has ended the sessions that were begun before.
    fn holds(&self, user: &str, account: Option<GrantedAccount>) -> bool {
        let _ = (user, account);
        true
    }

    /// Whether the account with this number, which went by this name, was removed. False where that
    /// is not known.
    fn is_removed(&self, user: &str, uid: u64) -> bool {
        let _ = (user, uid);
        false
    }

    /// Whether a client, user or address is banned; if so, the ban counts this act. The client is
    /// "" for a protocol whose clients are not banned by name.
    fn is_banned(&self, now_s: u32, who: &Who<'_>, address: Option<IpAddr>, act: BanAct) -> bool {
        let _ = (now_s, who, address, act);
        false
    }

    /// The only account that may use this name.
    fn owner(&self, user: &str) -> NameOwner {
        let _ = user;
        NameOwner::Unknown
    }

    /// Rises whenever users or rules change: then every session is [renewed](Self::renew).
    fn version(&self) -> u64;

    /// A service of a shard has looked again at all its sessions, and began when this was the
    /// version.
    fn renewed(&self, by: (ServiceKind, ShardId), version: u64) {
        let _ = (by, version);
    }
}

/// Fields of a client's log-in that decide whether it is admitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// Its identifier.
    pub client_id: Box<str>,
    /// Claimed user.
    pub user: Option<Box<str>>,
    /// Its password, or a token.
    pub password: Option<Box<[u8]>>,
    /// Identity in its verified certificate, or of its pre-shared key.
    pub certificate: Option<Box<str>>,
    /// An exchange: method and data; or [`ANONYMOUS`], or [`EXTERNAL`].
    pub method: Option<(Box<str>, Box<[u8]>)>,
    /// Where the exchange stands, as [`Admission::Continue`] gave it.
    pub dialogue: Option<Box<[u8]>>,
    /// Channel bindings of the connection that the exchange may use (RFC 5056). Absent where none
    /// is offered.
    pub bindings: Option<Box<ChannelBindings>>,
    /// Its address.
    pub peer: SocketAddr,
    /// Whether the client is on this machine, as its socket says.
    pub near: bool,
    /// The listener it came through.
    pub door: u8,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// The protocol: `mqtt31`, `mqtt311`, `mqtt5`.
    pub protocol: &'static str,
}

/// The answer to a question.
#[derive(Clone, Debug)]
pub enum Admission {
    /// Come in. `data`: the last word of an exchange.
    Granted(Grant, Option<Box<[u8]>>),
    /// Stay out.
    Refused(Denial),
    /// The client must answer `data`; `dialogue` is given back with its answer.
    Continue {
        /// Data for the client.
        data: Box<[u8]>,
        /// State of the dialogue, which the next question repeats.
        dialogue: Box<[u8]>,
    },
    /// The answer takes a while: hand the question out.
    Later,
}

/// Permissions of a client from now on.
#[derive(Clone, Debug)]
pub struct Grant {
    /// User to whom the client's sessions are bound. `None`: anonymous.
    pub user: Option<Arc<str>>,
    /// Topics that it may publish to and read; `None`: all.
    pub rules: Option<Arc<dyn Rules>>,
    /// Unix second at which the grant ends; 0: never.
    pub until_s: u32,
    /// The client's account, if the book has one.
    pub account: Option<GrantedAccount>,
    /// Whether the client has shown its password, or a token that stands for it: then it may be
    /// given a token for its next login. A client with any other proof shows that each time.
    pub by_password: bool,
}

impl Grant {
    /// Grant of everything, to anybody.
    pub const OPEN: Grant =
        Grant { user: None, rules: None, until_s: 0, account: None, by_password: false };
}

/// Owner of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameOwner {
    /// The account of the book with this number, which is never given twice.
    Account(u64),
    /// A user of the operator's files.
    File,
    /// Neither the book nor the files know the name: its client has a proof of another kind (a
    /// token, a certificate, a service), or none.
    Unknown,
}

/// An account as a session was granted it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encoding)]
pub struct GrantedAccount {
    /// The account's number, never given twice.
    pub uid: u64,
    /// Its epoch then. A session with a lower one than the account's ends.
    pub epoch: u64,
}

/// The answer of an LDAP server about a name and a password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LdapVerdict {
    /// The password is right.
    Right {
        /// The user's name, from the entry's attribute of names, in lower case.
        name: Box<str>,
        /// The user is a superuser.
        is_super: bool,
    },
    /// The password is wrong.
    Wrong,
    /// The password is right, and the user is not in the group that may log in.
    NotMember,
    /// The server has no entry for the name.
    Unknown,
}

/// Client that a rule is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Who<'a> {
    /// The client identifier.
    pub client_id: &'a str,
    /// The user.
    pub user: Option<&'a str>,
}

/// Action on a topic that rules decide about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Act {
    /// Publish to it.
    Publish,
    /// Be sent a message that was published to it.
    Read,
}

/// Overlap of a subscription with what may be read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reach {
    /// Every topic that the filter matches may be read.
    All,
    /// Some may: each message is looked at.
    Partly,
    /// The subscription is refused, because nothing of it may be read.
    Nothing,
}

/// Compiled rules, shared by all clients that they apply to.
pub trait Rules: Send + Sync + std::fmt::Debug {
    /// Whether this may be done with a topic name.
    fn may(&self, who: &Who<'_>, act: Act, topic: &str) -> bool;

    /// How far a filter (the part after `$share/group/`) reaches.
    fn reach(&self, who: &Who<'_>, filter: &str) -> Reach;

    /// The rules for another process, where [`Access::rules`] reads them. Empty: they have no such
    /// form, and permit nothing there.
    fn encoded(&self) -> Box<[u8]> {
        Box::default()
    }

    /// Whether they came with the proof itself (a token, an answer of a service): then a
    /// [renewal](Access::renew) does not replace them, it can only end the session.
    fn fixed(&self) -> bool {
        false
    }
}

/// Access control that admits every client and allows everything: for tests, and for a server whose
/// operator chose so.
#[derive(Clone, Copy, Debug)]
pub struct AllowAll;

impl Access for AllowAll {
    fn admit(&self, _: u32, question: &Question) -> Admission {
        let user = question.user.as_deref().map(Arc::from);
        Admission::Granted(Grant { user, ..Grant::OPEN }, None)
    }

    fn renew(&self, _: &Who<'_>) -> Option<Grant> {
        None
    }

    fn version(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Everything;

    impl Rules for Everything {
        fn may(&self, _: &Who<'_>, _: Act, _: &str) -> bool {
            true
        }

        fn reach(&self, _: &Who<'_>, _: &str) -> Reach {
            Reach::All
        }
    }

    #[test]
    fn open_doors_let_everybody_in_by_the_name_they_give() {
        let who = Who { client_id: "c", user: Some("ann") };
        let question = Question {
            client_id: "c".into(),
            user: Some("ann".into()),
            password: None,
            certificate: None,
            method: None,
            dialogue: None,
            bindings: None,
            peer: ([127, 0, 0, 1], 1).into(),
            near: false,
            door: 0,
            tls: false,
            protocol: "mqtt5",
        };
        let Admission::Granted(grant, None) = AllowAll.admit(0, &question) else {
            panic!("it was not let in");
        };
        assert_eq!((grant.user.as_deref(), grant.until_s), (Some("ann"), 0));
        assert!(grant.rules.is_none() && AllowAll.renew(&who).is_none() && AllowAll.may_be(&who));
        assert_eq!(AllowAll.version(), 0);
        assert!(!Everything.fixed(), "rules that say nothing of it are asked each time");
    }
}
