//! When somebody was last there, and for how long the server has been (XEP-0012).
//!
//! The service answers of each account to those who see its presence. Invariant: all others get the
//! same answer, whether such an account exists or not.

use super::Want;
use crate::claims::Xep;
use crate::server::Out;
use crate::server::feature::{Answer, Feature, Question, Questions};
use crate::server::session::Session;
use base::time::Now;
use model::chat::NodesFault;

/// The namespace of last activity (XEP-0012 2).
pub(super) const LAST: &str = "jabber:iq:last";

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[Xep::partial(
        12,
        ("Last Activity", "1.2"),
        "from presence since the server's start; without the last status",
        "xmpp/test_server.py::test_who_sees_somebody_hears_when_that_was_last_there",
    )],
    server: (&[LAST], ""),
    account: (&[LAST], ""),
    questions: &[Questions {
        domain: Some(|question| question.gets("query").map(|()| uptime(question.now))),
        ..Questions::of_devices(LAST, answer)
    }],
    ..Feature::NONE
};

fn answer(session: &mut Session, question: &Question<'_, '_, '_>, out: &mut Out) -> Answer {
    match question.is_for_server {
        true => question.gets("query").map(|()| Some(uptime(question.now))),
        false => session.asks_own_nodes(question, out),
    }
}

/// An answer of so many seconds.
pub(super) fn ago(ago_s: u64) -> String {
    format!("<query xmlns='{LAST}' seconds='{ago_s}'/>")
}

/// Time since the server's start (XEP-0012 5).
fn uptime(now: Now) -> String {
    ago(u64::from(now.secs()))
}

impl Want {
    /// Why it is refused, as whoever asks may know it (XEP-0012 3, 9).
    pub(super) fn refusal(&self, fault: NodesFault) -> NodesFault {
        match (self, fault) {
            (Want::LastThere, NodesFault::UnknownAccount | NodesFault::NotSubscribed) => {
                NodesFault::Forbidden
            }
            (_, fault) => fault,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests::harness::*;
    use base::time::Instant;
    use model::account::Addressee;
    use model::chat::{ChatDelivery, NodesAnswer, NodesAsk, NodesFound};

    const QUERY: &str = "<query xmlns='jabber:iq:last'/>";

    fn get(to: &str) -> String {
        format!("<iq type='get' id='l'{to}>{QUERY}</iq>")
    }

    /// The number of what was asked of the service, and about whom.
    fn asked(side: &mut Side) -> (u32, Option<Addressee>) {
        match words(side).pop().expect("asked") {
            ChatRequest::Nodes(asked) if asked.ask == NodesAsk::LastThere => {
                (asked.number, asked.of)
            }
            other => panic!("{other:?}"),
        }
    }

    fn answered(side: &mut Side, to: &str, result: Result<NodesFound, NodesFault>) -> String {
        assert_eq!(says(side, &get(to)), "", "the service answers");
        let (number, _) = asked(side);
        told(side, ChatDelivery::Nodes(Box::new(NodesAnswer { number, result })))
    }

    #[test]
    fn an_account_is_asked_about_and_the_seconds_are_told() {
        let mut side = available();
        for (to, of) in
            [("", None), (" to='ann@a.example'", None), (" to='bob@a.example'", Some(()))]
        {
            assert_eq!(says(&mut side, &get(to)), "");
            let (number, whom) = asked(&mut side);
            assert_eq!(whom.map(|_| ()), of, "{to}");
            let result = Ok(NodesFound::LastThere { ago_s: 903 });
            let said =
                told(&mut side, ChatDelivery::Nodes(Box::new(NodesAnswer { number, result })));
            assert!(said.contains("<query xmlns='jabber:iq:last' seconds='903'/></iq>"), "{said}");
        }
    }

    #[test]
    fn who_may_not_know_is_told_the_same_of_somebody_and_of_nobody() {
        let mut side = available();
        let to = " to='bob@a.example'";
        let both = [NodesFault::NotSubscribed, NodesFault::UnknownAccount];
        let [one, other] = both.map(|fault| answered(&mut side, to, Err(fault)));
        assert_eq!(one, other);
        assert!(one.contains("<error type='auth'><forbidden xmlns="), "{one}");
        assert!(!one.contains("pubsub"), "{one}");
        let forgotten = answered(&mut side, to, Err(NodesFault::UnknownItem));
        assert!(forgotten.contains("<item-not-found"), "{forgotten}");
        let busy = answered(&mut side, to, Err(NodesFault::Busy));
        assert!(busy.contains("<resource-constraint"), "{busy}");
    }

    #[test]
    fn the_server_has_been_there_since_it_began() {
        let mut side = available();
        let said = says(&mut side, &get(" to='a.example'"));
        assert!(said.contains("<query xmlns='jabber:iq:last' seconds='1'/>"), "{said}");
        let later = Now::new(Instant::from_nanos(90_999_999_999), 1);
        assert_eq!(uptime(later), "<query xmlns='jabber:iq:last' seconds='90'/>");
        let set = get(" to='a.example'").replace("'get'", "'set'");
        assert!(says(&mut side, &set).contains("<service-unavailable"));
        assert!(words(&mut side).is_empty());
    }
}
