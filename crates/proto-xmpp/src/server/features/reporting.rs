//! Reports with a block (XEP-0377): an account that blocks another one reports it to the operator,
//! with the messages that are the reason.
//!
//! ```text
//! <block> <item jid='…'> <report reason='urn:xmpp:reporting:spam'> <stanza-id by='…' id='…'/> …
//! ```
//! A report is a part of an item of a block ([`blocking`](super::blocking)). Messages are named by
//! their ids in the account's own archive (XEP-0359); ids that another archive gave, such as that
//! of a room, are counted and not looked for. A report that is dropped leaves the block as it is. A
//! block that fails may leave its report: a client that tries again reports again.
//! Invariant: a stanza with a malformed report blocks nobody.

use crate::archive::read_id;
use crate::claims::Xep;
use crate::fault::StanzaFault;
use crate::render::STANZA_IDS;
use crate::server::feature::Feature;
use crate::xml::scan::Element;
use model::account::{AccountAddress, Addressee};
use model::chat::{
    ABUSE_TEXT_BYTES_MAX, ARCHIVE_NAMED_MAX, AbuseReason, AbuseReport, ArchiveId, ForwardConsent,
    PeopleAsk,
};

const REPORTING: &str = "urn:xmpp:reporting:1";

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[Xep::partial(
        377,
        ("Blocking Command Reports", "0.4.1"),
        "reports and the consent to forward them reach the operator as events; none is forwarded",
        "xmpp/test_reports.py::test_a_report_reaches_the_operator_with_its_messages",
    )],
    server: (&[REPORTING], ""),
    ..Feature::NONE
};

/// The report in an item that `account` blocks, if it has one.
pub(super) fn report(
    item: &Element<'_, '_>,
    (of, account): (&AccountAddress, &str),
) -> Result<Option<PeopleAsk>, StanzaFault> {
    let Some(report) = item.child("report", REPORTING) else { return Ok(None) };
    let reason = report.attribute("reason").ok_or(StanzaFault::BadRequest)?;
    let reason = match &*reason {
        "urn:xmpp:reporting:spam" => AbuseReason::Spam,
        "urn:xmpp:reporting:abuse" => AbuseReason::Abuse,
        _ => AbuseReason::Other,
    };
    let text = report.child("text", REPORTING).map(|text| text.text()).unwrap_or_default();
    let text = text[..text.floor_char_boundary(ABUSE_TEXT_BYTES_MAX)].into();
    let ids = report.children().filter(|it| it.is("stanza-id", STANZA_IDS));
    let all: Vec<Option<ArchiveId>> = ids.map(|id| own_id(&id, account)).collect();
    let named: Vec<ArchiveId> = all.iter().flatten().copied().take(ARCHIVE_NAMED_MAX).collect();
    let unread = (all.len() - named.len()) as u32;
    let of = Addressee::from(of.clone());
    let has = |name| report.child(name, REPORTING).is_some();
    let consent = ForwardConsent { origin: has("report-origin"), third_party: has("third-party") };
    let report = AbuseReport { of, reason, text, named, unread, consent };
    Ok(Some(PeopleAsk::Report(Box::new(report))))
}

/// The id of a message, if the archive of this account gave it.
fn own_id(id: &Element<'_, '_>, account: &str) -> Option<ArchiveId> {
    id.attribute("by").filter(|by| **by == *account)?;
    read_id(&id.attribute("id")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::id_text;
    use crate::server::tests::harness::*;
    use crate::server::tests::people::asked;
    use model::chat::{ChatDelivery, ContactOrder};

    const ID: ArchiveId = ArchiveId { number: 7, seq: 3, pair: 5 };

    fn block(item: &str) -> String {
        format!("<iq type='set' id='x'><block xmlns='urn:xmpp:blocking'>{item}</block></iq>")
    }

    fn item(jid: &str, reason: &str, inner: &str) -> String {
        format!(
            "<item jid='{jid}'><report xmlns='{REPORTING}' reason='urn:xmpp:reporting:{reason}'>\
             {inner}</report></item>"
        )
    }

    fn stanza_id(by: &str, id: &str) -> String {
        format!("<stanza-id xmlns='{STANZA_IDS}' by='{by}' id='{id}'/>")
    }

    #[test]
    fn a_block_with_a_report_is_both_and_answered_once() {
        let mut side = available();
        let id = id_text(ID);
        let inner = stanza_id("ann@a.example", &id)
            + &stanza_id("x@conference.a.example", &id)
            + &stanza_id("ann@a.example", "none")
            + "<text xml:lang='en'>cheap &amp; loud</text><third-party/>";
        for (jid, reason) in
            [("bob@a.example", "spam"), ("eve@b.example", "abuse"), ("x@y.example", "other")]
        {
            assert_eq!(says(&mut side, &block(&item(jid, reason, &inner))), "");
            let both = asked(&mut side);
            let [(first, PeopleAsk::Report(report)), (second, PeopleAsk::Wish(wish))] = &both[..]
            else {
                panic!("{both:?}")
            };
            assert_eq!((wish.contact.as_str(), &wish.order), (jid, &ContactOrder::Block));
            assert_eq!((report.of.as_str(), report.reason.word()), (jid, reason));
            assert_eq!((&report.named[..], report.unread), (&[ID][..], 2));
            assert_eq!(&*report.text, "cheap & loud");
            let consent = ForwardConsent { origin: false, third_party: true };
            assert_eq!(report.consent, consent);
            assert_eq!(told(&mut side, ChatDelivery::Done { number: *first }), "");
            let done = told(&mut side, ChatDelivery::Done { number: *second });
            assert_eq!(done, "<iq type='result' id='x' to='ann@a.example/desk'></iq>");
        }
    }

    #[test]
    fn a_report_is_read_up_to_its_limits() {
        let mut side = available();
        let ids = stanza_id("ann@a.example", &id_text(ID)).repeat(ARCHIVE_NAMED_MAX + 3);
        let text = format!("<text>{}</text>", "\u{e9}".repeat(ABUSE_TEXT_BYTES_MAX));
        says(&mut side, &block(&item("bob@a.example", "spam", &(ids + &text))));
        let both = asked(&mut side);
        let (_, PeopleAsk::Report(report)) = &both[0] else { panic!("{both:?}") };
        assert_eq!((report.named.len(), report.unread), (ARCHIVE_NAMED_MAX, 3));
        assert_eq!(report.text.len(), ABUSE_TEXT_BYTES_MAX);
        assert_eq!(report.consent, ForwardConsent::default());
    }

    #[test]
    fn a_report_without_a_reason_is_refused_and_in_an_unblock_there_is_none() {
        let mut side = available();
        let without = format!("<item jid='bob@a.example'><report xmlns='{REPORTING}'/></item>");
        let said = says(&mut side, &block(&without));
        assert!(said.contains("<bad-request"), "{said}");
        assert_eq!(asked(&mut side), [], "nor is anybody blocked");
        let unblock = block(&item("bob@a.example", "spam", "")).replace("block ", "unblock ");
        says(&mut side, &unblock.replace("/block>", "/unblock>"));
        let all = asked(&mut side);
        assert!(matches!(&all[..], [(_, PeopleAsk::Wish(_))]), "{all:?}");
    }
}
