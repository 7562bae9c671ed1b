//! Extensions: each is a [`Feature`], a constant in the file that has its code, and [`FEATURES`]
//! lists them.
//!
//! From the list are derived: which function answers a question or takes an element of the stream
//! (by its namespace), features and identities in answers to disco#info and with them the
//! capabilities, the services in disco#items, and claims, from which the DOAP file and the tables
//! of `docs/xmpp.md` are made. A new extension is its file and its line in the list. The tables of
//! namespaces are sorted while compiling. Invariant: a namespace has one feature, or this does not
//! compile.

use super::session::Session;
use super::{Advertised, End, Out, archive, features, inline, nodes};
use super::{quiet, receipts, stream_management};
use crate::claims::Xep;
use crate::fault::StanzaFault;
use crate::render::STANZA_IDS;
use crate::stream::SESSION;
use crate::xml::scan::Element;
use base::time::Now;
use model::chat::foreign::ForeignDomains;
use model::chat::{CHANNEL_SERVICE, CHATROOM_SERVICE, GROUP_SERVICE};
use model::limits::ChatLimits;

/// All features, in the order in which answers to disco#info have theirs.
const FEATURES: &[Feature] = &[
    features::disco::FEATURE,
    features::ping::FEATURE,
    features::version::FEATURE,
    features::time::FEATURE,
    features::carbons::FEATURE,
    features::blocking::FEATURE,
    features::reporting::FEATURE,
    features::accounts::COMMANDS_FEATURE,
    STANZA_IDS_FEATURE,
    features::push::FEATURE,
    archive::FEATURE,
    nodes::FEATURE,
    nodes::bookmarks::FEATURE,
    nodes::vcard::FEATURE,
    nodes::private::FEATURE,
    nodes::last_there::FEATURE,
    features::accounts::REGISTRATION_FEATURE,
    features::services::FEATURE,
    features::roster::FEATURE,
    SESSION_FEATURE,
    ROOMS_FEATURE,
    features::uploads::FEATURE,
    quiet::FEATURE,
    stream_management::FEATURE,
    inline::FEATURE,
    receipts::FEATURE,
    features::advertised::FEATURE,
    features::capabilities::FEATURE,
    nodes::avatar::FEATURE,
    nodes::displayed::FEATURE,
    nodes::settings::FEATURE,
];

/// An extension as this server has it, or several that one file has.
pub(super) struct Feature {
    /// Claims of it.
    pub(super) claims: &'static [Xep],
    /// When `server` and `services` are shown, and the services answer. A condition of those is
    /// `Always` or `WithFiles`, for a question to them knows no other.
    pub(super) offered: Offered,
    /// Features and identities of the server (XEP-0030 3.1), the latter as XML.
    pub(super) server: (&'static [&'static str], &'static str),
    /// Features and identities of an account, likewise.
    pub(super) account: (&'static [&'static str], &'static str),
    /// Services of a domain.
    pub(super) services: &'static [DomainService],
    /// Namespaces of what a login by Bind 2 may switch on (XEP-0386 3).
    pub(super) inline: &'static [&'static str],
    /// Questions, by the namespaces of their elements.
    pub(super) questions: &'static [Questions],
    /// Elements of the stream that are no stanzas, by their namespace.
    pub(super) elements: Option<StreamElements>,
}

impl Feature {
    /// A feature without any part.
    pub(super) const NONE: Feature = Feature {
        claims: &[],
        offered: Offered::Always,
        server: (&[], ""),
        account: (&[], ""),
        services: &[],
        inline: &[],
        questions: &[],
        elements: None,
    };
}

/// Condition under which a feature is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Offered {
    Always,
    /// Clients may change their account here.
    WithAccounts,
    /// The operator names services (XEP-0215).
    WithServices,
    /// Files can be sent.
    WithFiles,
}

/// Conditions that hold.
#[derive(Clone, Copy, Default)]
pub(super) struct Offers {
    pub(super) accounts: bool,
    pub(super) services: bool,
    pub(super) files: bool,
}

impl Offers {
    const fn has(self, offered: Offered) -> bool {
        match offered {
            Offered::Always => true,
            Offered::WithAccounts => self.accounts,
            Offered::WithServices => self.services,
            Offered::WithFiles => self.files,
        }
    }
}

/// Content of an answer; `None`: the question is answered already, or will be.
pub(super) type Answer = Result<Option<String>, StanzaFault>;

/// Answers a device that asks the server or its own account.
pub(super) type DeviceAnswers = fn(&mut Session, &Question<'_, '_, '_>, &mut Out) -> Answer;
/// Answers a user of another domain who asks the server.
type DomainAnswers = fn(&DomainQuestion<'_, '_, '_>) -> Result<String, StanzaFault>;

/// Questions whose element has this namespace.
#[derive(Clone, Copy)]
pub(super) struct Questions {
    pub(super) namespace: &'static str,
    pub(super) device: DeviceAnswers,
    /// `None`: a question of another domain gets `service-unavailable`.
    pub(super) domain: Option<DomainAnswers>,
    /// Elements that only an account's own server may send to its devices, to set something.
    pub(super) own_sets: &'static [&'static str],
}

impl Questions {
    /// Questions of devices alone.
    pub(super) const fn of_devices(namespace: &'static str, device: DeviceAnswers) -> Questions {
        Questions { namespace, device, domain: None, own_sets: &[] }
    }
}

/// A question of a device to the server or to its own account.
pub(super) struct Question<'q, 't, 'a> {
    pub(super) now: Now,
    pub(super) asked: &'q Element<'t, 'a>,
    pub(super) is_set: bool,
    /// Whether it is addressed to the server; if not, to the own account.
    pub(super) is_for_server: bool,
    /// Its id, and to whom it is, as the device wrote it.
    pub(super) about: (Option<&'q str>, Option<&'q str>),
    /// The most bytes of a file; without a storage none.
    pub(super) file_bytes_max: u64,
}

impl Question<'_, '_, '_> {
    /// Refuses anything but a get of this element.
    pub(super) fn gets(&self, name: &str) -> Result<(), StanzaFault> {
        let is_it = !self.is_set && self.asked.name() == name;
        is_it.then_some(()).ok_or(StanzaFault::ServiceUnavailable)
    }

    /// Refuses a question to the server.
    pub(super) fn for_account(&self) -> Result<(), StanzaFault> {
        (!self.is_for_server).then_some(()).ok_or(StanzaFault::ServiceUnavailable)
    }
}

/// A question of another domain to this one, or about the domains of this one; it gets something.
pub(super) struct DomainQuestion<'q, 't, 'a> {
    pub(super) now: Now,
    pub(super) asked: &'q Element<'t, 'a>,
    /// The domain that is asked.
    pub(super) to: Option<Box<str>>,
    pub(super) takes_files: bool,
    pub(super) domains: &'q ForeignDomains,
    pub(super) advertised: &'q Advertised,
}

impl DomainQuestion<'_, '_, '_> {
    /// Refuses any other element.
    pub(super) fn gets(&self, name: &str) -> Result<(), StanzaFault> {
        (self.asked.name() == name).then_some(()).ok_or(StanzaFault::ServiceUnavailable)
    }
}

/// A service of a domain, at an address of its own.
pub(super) struct DomainService {
    /// How its address begins, before the domain.
    pub(super) prefix: &'static str,
    /// Its name in lists of services.
    pub(super) name: &'static str,
    /// Answers a device that asks it; `None`: its questions go elsewhere.
    pub(super) device: Option<DeviceAnswers>,
}

/// Elements of the stream of this namespace.
#[derive(Clone, Copy)]
pub(super) struct StreamElements {
    pub(super) namespace: &'static str,
    pub(super) take: fn(&mut Session, &ChatLimits, &Element<'_, '_>, &mut Out) -> Result<(), End>,
}

/// Questions with elements of this namespace.
pub(super) fn questions(namespace: &str) -> Option<&'static Questions> {
    let at = QUESTIONS.binary_search_by(|it| it.namespace.cmp(namespace)).ok()?;
    Some(&QUESTIONS[at])
}

/// Elements of the stream of this namespace.
pub(super) fn elements(namespace: &str) -> Option<&'static StreamElements> {
    ELEMENTS.iter().find(|it| it.namespace == namespace)
}

/// Whether an element sets what only the account's own server sets at its devices, such as a
/// roster (RFC 6121 2.3.3).
pub(super) fn is_of_lists(asked: &Element<'_, '_>) -> bool {
    questions(asked.namespace()).is_some_and(|it| it.own_sets.contains(&asked.name()))
}

/// Claims of all features.
pub(crate) fn claims() -> impl Iterator<Item = &'static Xep> {
    FEATURES.iter().flat_map(|it| it.claims)
}

/// Features and identities of the server.
pub(super) fn of_server(offers: Offers) -> (Vec<&'static str>, String) {
    let offered = || FEATURES.iter().filter(move |it| offers.has(it.offered));
    (
        offered().flat_map(|it| it.server.0).copied().collect(),
        offered().map(|it| it.server.1).collect(),
    )
}

/// Features and identities of an account.
pub(super) fn of_account() -> (Vec<&'static str>, String) {
    let features = FEATURES.iter().flat_map(|it| it.account.0).copied().collect();
    (features, FEATURES.iter().map(|it| it.account.1).collect())
}

/// Services of a domain.
pub(super) fn services(offers: Offers) -> impl Iterator<Item = &'static DomainService> {
    FEATURES.iter().filter(move |it| offers.has(it.offered)).flat_map(|it| it.services)
}

/// Namespaces of what a login by Bind 2 may switch on.
pub(super) fn inline() -> impl Iterator<Item = &'static str> {
    FEATURES.iter().flat_map(|it| it.inline).copied()
}

/// Stable ids of stanzas (XEP-0359), which `render` writes.
const STANZA_IDS_FEATURE: Feature = Feature {
    claims: &[Xep::complete(
        359,
        ("Unique and Stable Stanza IDs", "0.7.0"),
        "",
        "xmpp/test_archive.py::test_a_carbon_bears_the_id_of_the_archive",
    )],
    account: (&[STANZA_IDS], ""),
    ..Feature::NONE
};

/// The session of RFC 3921, which older clients ask for.
const SESSION_FEATURE: Feature = Feature {
    questions: &[Questions::of_devices(SESSION, |_, question, _| {
        let is_it = question.is_set && question.asked.name() == "session";
        is_it.then(|| Some(String::new())).ok_or(StanzaFault::ServiceUnavailable)
    })],
    ..Feature::NONE
};

/// Addresses of rooms, whose stanzas go by address (`rooms`).
const ROOMS_FEATURE: Feature = Feature {
    services: &[
        DomainService { prefix: GROUP_SERVICE, name: "Rooms", device: None },
        DomainService { prefix: CHANNEL_SERVICE, name: "Channels", device: None },
        DomainService { prefix: CHATROOM_SERVICE, name: "Chatrooms", device: None },
    ],
    ..Feature::NONE
};

/// Questions of all features, in the order of their namespaces.
const QUESTIONS: [Questions; QUESTIONS_COUNT] = {
    let mut all = [FEATURES[0].questions[0]; QUESTIONS_COUNT];
    let (mut feature, mut count) = (0, 0);
    while feature < FEATURES.len() {
        let mut at = 0;
        while at < FEATURES[feature].questions.len() {
            // Those before it are sorted: it goes down to its place.
            let mut place = count;
            let new = FEATURES[feature].questions[at];
            while place > 0 && is_before(new.namespace, all[place - 1].namespace) {
                all[place] = all[place - 1];
                place -= 1;
            }
            all[place] = new;
            (at, count) = (at + 1, count + 1);
        }
        feature += 1;
    }
    let mut at = 1;
    while at < QUESTIONS_COUNT {
        assert!(is_before(all[at - 1].namespace, all[at].namespace), "two features, one namespace");
        at += 1;
    }
    all
};

const QUESTIONS_COUNT: usize = {
    let (mut feature, mut count) = (0, 0);
    while feature < FEATURES.len() {
        count += FEATURES[feature].questions.len();
        feature += 1;
    }
    count
};

/// Elements of the stream of all features. They are few.
const ELEMENTS: [StreamElements; 2] = {
    let mut all = [stream_management::ELEMENTS; 2];
    let (mut feature, mut count) = (0, 0);
    while feature < FEATURES.len() {
        if let Some(elements) = FEATURES[feature].elements {
            all[count] = elements;
            count += 1;
        }
        feature += 1;
    }
    assert!(count == all.len(), "as many as there are");
    all
};

/// The order of texts, while compiling.
const fn is_before(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() {
        if one[at] != other[at] {
            return one[at] < other[at];
        }
        at += 1;
    }
    one.len() < other.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_namespace_is_found_and_no_other() {
        for feature in FEATURES {
            for it in feature.questions {
                assert_eq!(questions(it.namespace).map(|it| it.namespace), Some(it.namespace));
            }
            if let Some(it) = feature.elements {
                assert!(elements(it.namespace).is_some(), "{}", it.namespace);
            }
        }
        for other in ["", "urn:xmpp:pin", "urn:xmpp:ping2", "zzz"] {
            assert!(questions(other).is_none() && elements(other).is_none(), "{other}");
        }
    }

    #[test]
    fn services_are_offered_always_or_with_files() {
        for it in FEATURES.iter().filter(|it| !it.services.is_empty()) {
            assert!(matches!(it.offered, Offered::Always | Offered::WithFiles));
        }
    }

    #[test]
    fn no_feature_is_said_twice() {
        let all = Offers { accounts: true, services: true, files: true };
        for (features, _) in [of_server(all), of_account()] {
            let mut distinct = features.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), features.len(), "{features:?}");
        }
    }
}
