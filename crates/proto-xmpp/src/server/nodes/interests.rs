//! Nodes in which a device is interested, by the name that it gives to its features
//! ([`capabilities`]).
//!
//! The name is a hash of what the device says when it is asked, so what one device has said is true
//! of each that has the same name. Nothing is kept here while a device is asked: the question's id
//! has the name. Invariant: what does not come to its hash is not told to be proved.

use crate::server::Out;
use crate::server::features::capabilities::{self, CAPS, NEW_CAPS};
use crate::server::iq::DISCO_INFO;
use crate::server::session::Session;
use crate::stanza::StanzaReply;
use crate::xml::scan::Element;
use crate::xml::text::escaped;
use model::chat::{
    ChatRequest, INTERESTS_MAX, NODE_NAME_BYTES_MAX, PROFILE_BYTES_MAX, ProfileRequest, ProfileSaid,
};

/// How ids of questions for a profile begin.
const QUESTION: &str = "caps:";

/// Ending of the features that name interests (XEP-0060 9.2).
const NOTIFY: &str = "+notify";

impl Session {
    /// A device is there, and may say what it is.
    pub(in crate::server) fn says_profile(&mut self, presence: &Element<'_, '_>, out: &mut Out) {
        let newer = presence.child("c", NEW_CAPS).and_then(|caps| capabilities::named(&caps));
        let profile = newer.or_else(|| {
            let caps = presence.child("c", CAPS)?;
            let value = |name: &str| caps.attribute(name).unwrap_or_default();
            let (node, hash, version) = (value("node"), value("hash"), value("ver"));
            // 5.1: a hash that is not known here says nothing.
            let is_known = matches!(&*hash, "sha-1" | "sha-256") && !version.is_empty();
            is_known.then(|| format!("{node}#{version}"))
        });
        if let Some(profile) = profile.filter(|profile| profile.len() <= PROFILE_BYTES_MAX) {
            self.says_of_profile(ProfileSaid::Has(profile.into()), out);
        }
    }

    fn says_of_profile(&mut self, said: ProfileSaid, out: &mut Out) {
        let session = self.session;
        out.say(ChatRequest::Profile(Box::new(ProfileRequest { session, said })));
    }

    /// The device is asked what it is (6.2).
    pub(in crate::server) fn asks_profile(&mut self, profile: &str, out: &mut Out) {
        let id = format!("{QUESTION}{profile}");
        let (from, id) = (Some(self.domain()), Some(&*id));
        let head = StanzaReply { name: "iq", from, to: self.jid(), id };
        let query = format!("<query xmlns='{DISCO_INFO}' node='{}'/>", escaped(profile));
        head.put("get", &query, out.bytes());
        self.counts_sent(out);
    }

    /// The device has answered a question of the server.
    pub(in crate::server) fn hears_answer(
        &mut self,
        iq: &Element<'_, '_>,
        is_result: bool,
        out: &mut Out,
    ) {
        let id = iq.attribute("id").unwrap_or_default();
        let Some(profile) = id.strip_prefix(QUESTION) else { return };
        let query = iq.child("query", DISCO_INFO).filter(|_| is_result);
        let interests = query.map(|query| {
            let features = capabilities::features_of(&query);
            let nodes = features.iter().filter_map(|feature| feature.strip_suffix(NOTIFY));
            let nodes = nodes.filter(|node| (1..=NODE_NAME_BYTES_MAX).contains(&node.len()));
            nodes.take(INTERESTS_MAX).map(Box::from).collect()
        });
        let is_proved = query.is_some_and(|query| capabilities::proves(&query, profile));
        let profile = profile.into();
        self.says_of_profile(ProfileSaid::Is { profile, interests, is_proved }, out);
    }
}
