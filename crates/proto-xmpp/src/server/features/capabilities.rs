//! Entity capabilities (XEP-0115, XEP-0390): names for what somebody can do.
//!
//! A name is a hash of what is said to a question for it, by SHA-1 or SHA-256, in the form of the
//! older document or that of the newer. Invariant: what does not come to its hash proves nothing.

use crate::claims::Xep;
use crate::forms::{FORMS, fields};
use crate::server::DISCO_INFO;
use crate::server::feature::Feature;
use crate::xml::scan::{Element, Scan};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use sha2::Sha256;

/// The older form.
pub(crate) const CAPS: &str = "http://jabber.org/protocol/caps";
/// The newer.
pub(crate) const NEW_CAPS: &str = "urn:xmpp:caps";

/// How nodes of the newer form begin (XEP-0390 3.2).
const NEW_NODE: &str = "urn:xmpp:caps#";

/// Hashes with the names of their algorithms (XEP-0300).
const HASHES: &str = "urn:xmpp:hashes:2";

/// The algorithm of the newer form that is looked at, and offered.
const ALGORITHM: &str = "sha-256";

/// Node of this server's capabilities.
const NODE: &str = "urn:x-holdline:server";

/// Separator of the parts of an identity: no character of XML.
const BETWEEN: &str = "\u{1}";

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[
        Xep::complete(
            115,
            ("Entity Capabilities", "1.6.0"),
            "by sha-1 and sha-256",
            "xmpp/test_pep.py::\
             test_one_sets_it_and_the_other_is_told_and_fetches_it_over_a_kill_too",
        ),
        Xep::complete(
            390,
            ("Entity Capabilities 2.0", "0.3.2"),
            "",
            "server/features/capabilities.rs::the_newer_form_comes_to_its_hashes",
        ),
    ],
    ..Feature::NONE
};

/// Features in a device's answer.
pub(crate) fn features_of(query: &Element<'_, '_>) -> Vec<String> {
    let features = query.children().filter(|it| it.is("feature", DISCO_INFO));
    features.filter_map(|it| it.attribute("var").map(|it| it.into_owned())).collect()
}

/// A device's answer, in order; `None`: it is ill-formed (XEP-0115 5.4).
struct Said {
    identities: Vec<String>,
    features: Vec<String>,
    /// Each form's type, and its fields with their values, names first.
    forms: Vec<(String, Vec<Vec<String>>)>,
}

impl Said {
    fn of(query: &Element<'_, '_>) -> Option<Said> {
        let identities = query.children().filter(|it| it.is("identity", DISCO_INFO)).map(|it| {
            let value = |name: &str| it.attribute(name).unwrap_or_default().into_owned();
            ["category", "type", "xml:lang", "name"].map(value).join(BETWEEN)
        });
        let (identities, features) = (sorted(identities.collect())?, sorted(features_of(query))?);
        let mut forms = Vec::new();
        for form in query.children().filter(|it| it.is("x", FORMS)) {
            // What is deeper than what is kept of a stanza is read anew.
            let scan = Scan::element(form.whole().as_bytes()).ok()?;
            forms.extend(form_of(&scan.root()));
        }
        forms.sort_unstable();
        let is_twice = forms.windows(2).any(|two| two[0].0 == two[1].0);
        (!is_twice).then_some(Said { identities, features, forms })
    }

    /// Input of the hash of XEP-0115 5.1. `None`: a part that looked like two would prove something
    /// else (XEP-0390 4.1).
    fn flat(&self) -> Option<String> {
        let identities = self.identities.iter().map(|it| it.replace(BETWEEN, "/"));
        let mut parts: Vec<String> = identities.collect();
        // Here the order is that of what is written.
        parts.sort_unstable();
        parts.extend(self.features.iter().cloned());
        for (kind, fields) in &self.forms {
            parts.push(kind.clone());
            parts.extend(fields.iter().flatten().cloned());
        }
        let is_plain = parts.iter().all(|part| !part.contains('<'));
        is_plain.then(|| parts.iter().map(|part| format!("{part}<")).collect())
    }

    /// Input of the hash of XEP-0390 4.1: each level has an end of its own, which no text has.
    fn nested(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let end = |end: u8, out: &mut Vec<u8>| out.push(end);
        for feature in &self.features {
            out.extend_from_slice(feature.as_bytes());
            end(0x1f, &mut out);
        }
        end(0x1c, &mut out);
        for identity in &self.identities {
            for part in identity.split(BETWEEN) {
                out.extend_from_slice(part.as_bytes());
                end(0x1f, &mut out);
            }
            end(0x1e, &mut out);
        }
        end(0x1c, &mut out);
        let put_field = |field: &[String], out: &mut Vec<u8>| {
            for part in field {
                out.extend_from_slice(part.as_bytes());
                out.push(0x1f);
            }
            out.push(0x1e);
        };
        let mut forms: Vec<Vec<u8>> = Vec::new();
        for (kind, fields) in &self.forms {
            let type_of_form = vec!["FORM_TYPE".to_owned(), kind.clone()];
            let mut written: Vec<Vec<u8>> = Vec::new();
            for field in fields.iter().chain([&type_of_form]) {
                let mut bytes = Vec::new();
                put_field(field, &mut bytes);
                written.push(bytes);
            }
            written.sort_unstable();
            forms.push([written.concat(), vec![0x1d]].concat());
        }
        forms.sort_unstable();
        out.extend(forms.concat());
        end(0x1c, &mut out);
        out
    }
}

/// Whether what was said comes to a profile's name.
pub(crate) fn proves(query: &Element<'_, '_>, profile: &str) -> bool {
    let Some(said) = Said::of(query) else { return false };
    if let Some(hash) = profile.strip_prefix(NEW_NODE) {
        return *hash == format!("{ALGORITHM}.{}", STANDARD.encode(Sha256::digest(said.nested())));
    }
    let Some((flat, (_, version))) = said.flat().zip(profile.rsplit_once('#')) else {
        return false;
    };
    version == STANDARD.encode(Sha1::digest(&flat))
        || version == STANDARD.encode(Sha256::digest(&flat))
}

/// The name of what a device can do, by the newer form (XEP-0390 3).
pub(crate) fn named(caps: &Element<'_, '_>) -> Option<String> {
    let mut hashes = caps.children().filter(|it| it.is("hash", HASHES));
    let hash = hashes.find(|it| it.attribute("algo").as_deref() == Some(ALGORITHM))?;
    Some(format!("{NEW_NODE}{ALGORITHM}.{}", hash.text().trim()))
}

/// Capabilities in both forms, and the nodes under which the features are listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Capabilities {
    /// As XML.
    pub(crate) elements: String,
    nodes: [String; 2],
}

impl Capabilities {
    /// Of what answers a question without a node.
    pub(crate) fn of(info: &str) -> Option<Capabilities> {
        let scan = Scan::element(info.as_bytes()).ok()?;
        let said = Said::of(&scan.root())?;
        let version = STANDARD.encode(Sha1::digest(said.flat()?));
        let hash = STANDARD.encode(Sha256::digest(said.nested()));
        let elements = format!(
            "<c xmlns='{CAPS}' hash='sha-1' node='{NODE}' ver='{version}'/>\
             <c xmlns='{NEW_CAPS}'><hash xmlns='{HASHES}' algo='{ALGORITHM}'>{hash}</hash></c>"
        );
        let nodes = [format!("{NODE}#{version}"), format!("{NEW_NODE}{ALGORITHM}.{hash}")];
        Some(Capabilities { elements, nodes })
    }

    /// Whether they are listed under this node.
    pub(crate) fn is_at(&self, node: &str) -> bool {
        self.nodes.iter().any(|it| it == node)
    }
}

/// All of these in order, if each is there once.
fn sorted(mut all: Vec<String>) -> Option<Vec<String>> {
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    (all.len() == count).then_some(all)
}

/// A form's type, and its fields in order; `None`: it has no type (XEP-0115 5.4.3.6).
fn form_of(form: &Element<'_, '_>) -> Option<(String, Vec<Vec<String>>)> {
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
    kind.map(|kind| (kind, said))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(inner: &str) -> String {
        format!("<query xmlns='{DISCO_INFO}'>{inner}</query>")
    }

    fn version(inner: &str) -> Option<String> {
        let query = query(inner);
        let flat = Said::of(&Scan::element(query.as_bytes()).expect("XML").root())?.flat()?;
        Some(STANDARD.encode(Sha1::digest(flat)))
    }

    fn is_proved(inner: &str, profile: &str) -> bool {
        let query = query(inner);
        proves(&Scan::element(query.as_bytes()).expect("XML").root(), profile)
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

    #[test]
    fn either_hash_proves_what_was_said() {
        // The text of XEP-0115 5.2, by SHA-256.
        let sha_256 = "Wr6IGEKhx6b9627gBmi/cCmpxXBc/GYq5zWuYfWGWoc=";
        assert!(is_proved(EXODUS, "x#QgayPKawpkPSDYmwT/WM94uAlu0="));
        assert!(is_proved(EXODUS, &format!("x#{sha_256}")));
        for other in ["x#", "x", "", "QgayPKawpkPSDYmwT/WM94uAlu0=", "urn:xmpp:caps#sha-256.x"] {
            assert!(!is_proved(EXODUS, other), "{other}");
        }
    }

    /// The first example of XEP-0390 5.
    #[test]
    fn the_newer_form_comes_to_its_hashes() {
        let features = [
            "http://jabber.org/protocol/si",
            "http://jabber.org/protocol/bytestreams",
            "http://jabber.org/protocol/chatstates",
            "http://jabber.org/protocol/disco#info",
            "http://jabber.org/protocol/disco#items",
            "urn:xmpp:ping",
            "jabber:iq:time",
            "jabber:iq:privacy",
            "jabber:iq:version",
            "http://jabber.org/protocol/rosterx",
            "urn:xmpp:time",
            "jabber:x:oob",
            "http://jabber.org/protocol/ibb",
            "http://jabber.org/protocol/si/profile/file-transfer",
            "urn:xmpp:receipts",
            "jabber:iq:roster",
            "jabber:iq:last",
        ];
        let features = features.map(|var| format!("<feature var='{var}'/>")).concat();
        let simple =
            format!("<identity category='client' name='BombusMod' type='mobile'/>{features}");
        let hash = "kzBZbkqJ3ADrj7v08reD1qcWUwNGHaidNUgD7nHpiw8=";
        assert!(is_proved(&simple, &format!("urn:xmpp:caps#sha-256.{hash}")));
    }

    #[test]
    fn what_is_offered_is_what_is_proved() {
        let info = query(EXODUS);
        let ours = Capabilities::of(&info).expect("well-formed");
        let scan = Scan::element(info.as_bytes()).expect("XML");
        assert!(ours.nodes.iter().all(|node| proves(&scan.root(), node) && ours.is_at(node)));
        assert!(!ours.is_at("") && ours.elements.contains("QgayPKawpkPSDYmwT/WM94uAlu0="));
        let elements = format!("<x>{}</x>", ours.elements);
        let scan = Scan::element(elements.as_bytes()).expect("XML");
        let newer = scan.root().child("c", NEW_CAPS).and_then(|it| named(&it));
        assert!(newer.is_some_and(|newer| ours.is_at(&newer)));
    }
}
