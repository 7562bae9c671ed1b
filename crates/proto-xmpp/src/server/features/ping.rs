//! Pings (XEP-0199), of devices, of other domains, and of the server to a device that is silent.

use crate::claims::Xep;
use crate::server::Out;
use crate::server::feature::{Answer, Feature, Question, Questions};
use crate::server::session::Session;
use crate::stanza::StanzaReply;

pub(in crate::server) const PING: &str = "urn:xmpp:ping";

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[Xep::complete(
        199,
        ("XMPP Ping", "2.0.1"),
        "",
        "xmpp/test_prosody.py::test_questions_pass_both_ways",
    )],
    server: (&[PING], ""),
    questions: &[Questions {
        domain: Some(|question| question.gets("ping").map(|()| String::new())),
        ..Questions::of_devices(PING, answer)
    }],
    ..Feature::NONE
};

fn answer(_: &mut Session, question: &Question<'_, '_, '_>, out: &mut Out) -> Answer {
    if question.asked.name() == "ping" {
        out.beat();
    }
    question.gets("ping").map(|()| Some(String::new()))
}

impl Session {
    /// Asks the device whether it is there (XEP-0199 4.1).
    pub(in crate::server) fn write_ping(&mut self, out: &mut Out) {
        let ping =
            StanzaReply { name: "iq", from: Some(self.domain()), to: self.jid(), id: Some("ping") };
        ping.put("get", &format!("<ping xmlns='{PING}'/>"), out.bytes());
        self.counts_sent(out);
    }
}

#[cfg(test)]
mod tests {
    use crate::server::tests::harness::*;

    #[test]
    fn the_server_and_the_own_account_answer_and_a_set_is_no_ping() {
        for to in ["", " to='a.example'", " to='ann@a.example'"] {
            let ping = format!("<iq type='get' id='1'{to}><ping xmlns='urn:xmpp:ping'/></iq>");
            let said = says(&mut bound(), &ping);
            assert!(said.starts_with("<iq type='result' id='1'"), "{said}");
            let said = says(&mut bound(), &ping.replace("'get'", "'set'"));
            assert!(said.contains("<service-unavailable"), "{said}");
        }
    }
}
