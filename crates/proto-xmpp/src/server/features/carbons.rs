//! The switch of carbons (XEP-0280): a device wants copies of what others of its account send.
//!
//! The copies themselves are written by `render`, with their namespace; Bind 2 has the switch in a
//! login (`inline`).

use crate::claims::Xep;
use crate::fault::StanzaFault;
use crate::render::CARBONS;
use crate::server::Out;
use crate::server::feature::{Answer, Feature, Question, Questions};
use crate::server::session::Session;

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[Xep::partial(
        280,
        ("Message Carbons", "1.0.1"),
        "copies of messages sent by the account's other devices; messages of others reach every \
         device directly, `<private/>` only the addressed one",
        "xmpp/test_devices.py::\
         test_what_is_private_reaches_the_device_that_it_is_for_and_no_other",
    )],
    server: (&[CARBONS], ""),
    inline: &[CARBONS],
    questions: &[Questions::of_devices(CARBONS, switches)],
    ..Feature::NONE
};

fn switches(session: &mut Session, question: &Question<'_, '_, '_>, _: &mut Out) -> Answer {
    match (question.asked.name(), question.is_set) {
        (name @ ("enable" | "disable"), true) => session.set(Session::CARBONS, name == "enable"),
        _ => return Err(StanzaFault::ServiceUnavailable),
    }
    Ok(Some(String::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests::harness::*;

    #[test]
    fn a_device_gets_copies_from_when_it_wants_them_until_it_does_not() {
        let mut side = available();
        let order = |verb: &str| format!("<iq type='set' id='1'><{verb} xmlns='{CARBONS}'/></iq>");
        for (seq, verb, is_copied) in [(13, "enable", true), (14, "disable", false)] {
            assert!(says(&mut side, &order(verb)).contains("type='result'"));
            let message = message("ann", "phone", "bob", "hi");
            let said = told(&mut side, model::chat::ChatDelivery::Message { seq, message });
            assert_eq!(said.contains("<sent xmlns='urn:xmpp:carbons:2'>"), is_copied, "{said}");
        }
        assert!(says(&mut side, &order("other")).contains("<service-unavailable"));
        let get = order("enable").replace("'set'", "'get'");
        assert!(says(&mut side, &get).contains("<service-unavailable"));
    }
}
