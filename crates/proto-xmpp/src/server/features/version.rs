//! Name and version of the server (XEP-0092).

use crate::claims::Xep;
use crate::server::feature::{Feature, Questions};

const VERSION: &str = "jabber:iq:version";

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[Xep::complete(
        92,
        ("Software Version", "1.1"),
        "",
        "xmpp/test_talk.py::test_the_server_says_what_it_is_and_does",
    )],
    server: (&[VERSION], ""),
    questions: &[Questions {
        domain: Some(|question| question.gets("query").map(|()| version())),
        ..Questions::of_devices(VERSION, |_, question, _| {
            question.gets("query").map(|()| Some(version()))
        })
    }],
    ..Feature::NONE
};

fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("<query xmlns='{VERSION}'><name>Holdline</name><version>{version}</version></query>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests::harness::*;

    #[test]
    fn the_server_says_its_name_and_version() {
        let ask = "<iq type='get' id='1' to='a.example'><query xmlns='jabber:iq:version'/></iq>";
        let said = says(&mut bound(), ask);
        assert!(said.contains(&version()), "{said}");
        let said = says(&mut bound(), &ask.replace("'get'", "'set'"));
        assert!(said.contains("<service-unavailable"), "{said}");
    }
}
