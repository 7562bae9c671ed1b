//! The server's time (XEP-0202), in UTC.

use crate::claims::Xep;
use crate::server::feature::{Feature, Questions};
use crate::stanza::timestamp;
use base::time::Now;

const TIME: &str = "urn:xmpp:time";

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[Xep::complete(
        202,
        ("Entity Time", "2.0"),
        "",
        "xmpp/test_talk.py::test_the_server_says_what_it_is_and_does",
    )],
    server: (&[TIME], ""),
    questions: &[Questions {
        domain: Some(|question| question.gets("time").map(|()| time(question.now))),
        ..Questions::of_devices(TIME, |_, question, _| {
            question.gets("time").map(|()| Some(time(question.now)))
        })
    }],
    ..Feature::NONE
};

fn time(now: Now) -> String {
    let utc = timestamp(now.wall_ms);
    format!("<time xmlns='{TIME}'><tzo>+00:00</tzo><utc>{utc}</utc></time>")
}

#[cfg(test)]
mod tests {
    use crate::server::tests::harness::*;

    #[test]
    fn the_server_says_its_time() {
        let ask = "<iq type='get' id='1' to='a.example'><time xmlns='urn:xmpp:time'/></iq>";
        let said = says(&mut bound(), ask);
        let time = "<tzo>+00:00</tzo><utc>2023-11-14T22:13:20.000Z</utc></time></iq>";
        assert!(said.ends_with(time), "{said}");
    }
}
