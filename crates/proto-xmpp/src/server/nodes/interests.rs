//! Entity capabilities (XEP-0115): what a device wants to be told of, by the name that it gives to
//! what it can do.
//!
//! The name is a hash of what the device says when it is asked, so what one device has said is true
//! of each that has the same name. Nothing is kept here while a device is asked: the question's id
//! has the name. Invariant: what does not come to its hash is not told to be proved.

use crate::forms::{FORMS, fields};
use crate::server::Out;
use crate::server::iq::DISCO_INFO;
use crate::server::session::Session;
use crate::stanza::StanzaReply;
use crate::xml::scan::{Element, Scan};
use crate::xml::text::escaped;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::chat::{
    ChatRequest, INTERESTS_MAX, NODE_NAME_BYTES_MAX, PROFILE_BYTES_MAX, ProfileRequest, ProfileSaid,
};
use sha1::{Digest, Sha1};

const CAPS: &str = "http://jabber.org/protocol/caps";

/// How ids of questions for a profile begin.
const QUESTION: &str = "caps:";

/// How what a device wants to be told of ends (XEP-0060 9.2).
const NOTIFY: &str = "+notify";

impl Session {
    /// A device is there, and may say what it is.
    pub(in crate::server) fn says_profile(&mut self, presence: &Element<'_, '_>, out: &mut Out) {
        let Some(caps) = presence.child("c", CAPS) else { return };
        let value = |name: &str| caps.attribute(name).unwrap_or_default();
        let (node, hash, version) = (value("node"), value("hash"), value("ver"));
        let profile = format!("{node}#{version}");
        // 5.1: a hash that is not known here says nothing.
        if hash != "sha-1" || version.is_empty() || profile.len() > PROFILE_BYTES_MAX {
            return;
        }
        self.says_of_profile(ProfileSaid::Has(profile.into()), out);
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
            let features = features_of(&query);
            let nodes = features.iter().filter_map(|feature| feature.strip_suffix(NOTIFY));
            let nodes = nodes.filter(|node| (1..=NODE_NAME_BYTES_MAX).contains(&node.len()));
            nodes.take(INTERESTS_MAX).map(Box::from).collect()
        });
        let proof = query.and_then(|query| version_of(&query));
        let is_proved = proof.is_some_and(|proof| profile.rsplit('#').next() == Some(&*proof));
        let profile = profile.into();
        self.says_of_profile(ProfileSaid::Is { profile, interests, is_proved }, out);
    }
}

fn features_of(query: &Element<'_, '_>) -> Vec<String> {
    let features = query.children().filter(|it| it.is("feature", DISCO_INFO));
    features.filter_map(|it| it.attribute("var").map(|it| it.into_owned())).collect()
}

/// The name that follows from what a device has said (5.1, 5.4); none: it is ill-formed.
fn version_of(query: &Element<'_, '_>) -> Option<String> {
    let identities = query.children().filter(|it| it.is("identity", DISCO_INFO)).map(|it| {
        let value = |name: &str| it.attribute(name).unwrap_or_default().into_owned();
        [value("category"), value("type"), value("xml:lang"), value("name")].join("/")
    });
    let mut said = sorted(identities.collect())?;
    said.append(&mut sorted(features_of(query))?);
    let mut forms = Vec::new();
    for form in query.children().filter(|it| it.is("x", FORMS)) {
        // What is deeper than what is kept of a stanza is read anew.
        let scan = Scan::element(form.whole().as_bytes()).ok()?;
        forms.extend(form_of(&scan.root()));
    }
    forms.sort_unstable();
    let is_twice = forms.windows(2).any(|two| two[0][0] == two[1][0]);
    said.extend(forms.into_iter().flatten());
    // A part of what is hashed that looked like two would prove something else (XEP-0390 4.1).
    let is_plain = said.iter().all(|part| !part.contains('<'));
    let all: String = said.iter().map(|part| format!("{part}<")).collect();
    (is_plain && !is_twice).then(|| STANDARD.encode(Sha1::digest(all.as_bytes())))
}

/// All of these in order, if each is there once.
fn sorted(mut all: Vec<String>) -> Option<Vec<String>> {
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    (all.len() == count).then_some(all)
}

/// What a form says, with its type first; none: it has none (5.4.3.6).
fn form_of(form: &Element<'_, '_>) -> Option<Vec<String>> {
    let (mut kind, mut said) = (None, Vec::new());
    for (name, values) in fields(form) {
        let name = name.unwrap_or_default().into_owned();
        let mut values: Vec<String> = values.into_iter().map(|it| it.into_owned()).collect();
        if name == "FORM_TYPE" {
            kind = values.into_iter().next();
            continue;
        }
        values.sort_unstable();
        values.insert(0, name);
        said.push(values);
    }
    said.sort_unstable();
    kind.map(|kind| std::iter::once(kind).chain(said.into_iter().flatten()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(inner: &str) -> Option<String> {
        let query = format!("<query xmlns='{DISCO_INFO}'>{inner}</query>");
        version_of(&Scan::element(query.as_bytes()).expect("XML").root())
    }

    const EXODUS: &str = "<identity category='client' name='Exodus 0.9.1' type='pc'/>\
        <feature var='http://jabber.org/protocol/caps'/>\
        <feature var='http://jabber.org/protocol/disco#info'/>\
        <feature var='http://jabber.org/protocol/disco#items'/>\
        <feature var='http://jabber.org/protocol/muc'/>";

    #[test]
    fn the_examples_of_the_document_come_to_its_hashes() {
        // XEP-0115 5.2.
        assert_eq!(version(EXODUS).as_deref(), Some("QgayPKawpkPSDYmwT/WM94uAlu0="));
        // 5.3.
        let field = |name: &str, values: &[&str]| {
            let values: String = values.iter().map(|it| format!("<value>{it}</value>")).collect();
            format!("<field var='{name}'>{values}</field>")
        };
        let form = field("FORM_TYPE", &["urn:xmpp:dataforms:softwareinfo"])
            + &field("ip_version", &["ipv6", "ipv4"])
            + &field("os", &["Mac"])
            + &field("os_version", &["10.5.1"])
            + &field("software", &["Psi"])
            + &field("software_version", &["0.11"]);
        let psi = format!(
            "<identity xml:lang='en' category='client' name='Psi 0.11' type='pc'/>\
            <identity xml:lang='el' category='client' name='\u{3a8} 0.11' type='pc'/>{}\
            <x xmlns='jabber:x:data' type='result'>{form}</x>",
            EXODUS.split_once("/>").expect("an identity").1
        );
        assert_eq!(version(&psi).as_deref(), Some("q07IKJEyjvHSyhy//CH0CxmKi8w="));
    }

    #[test]
    fn what_is_said_twice_or_looks_like_more_proves_nothing() {
        assert_eq!(
            version(&format!("{EXODUS}<feature var='http://jabber.org/protocol/muc'/>")),
            None
        );
        assert_eq!(version(&format!("{EXODUS}<feature var='a&lt;b'/>")), None);
        let form = "<x xmlns='jabber:x:data'><field var='FORM_TYPE'><value>a</value></field></x>";
        assert_eq!(version(&format!("{EXODUS}{form}{form}")), None);
        assert!(version(&format!("{EXODUS}{form}")).is_some());
    }
}
