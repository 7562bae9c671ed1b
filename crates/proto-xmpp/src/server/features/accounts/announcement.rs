//! Announcement of an administrator to everybody who is online (XEP-0133 4.23): a headline of the
//! domain.

use crate::server::Out;
use crate::server::session::Session;
use crate::stanza::StanzaReply;
use crate::xml::text;
use model::ports::users::Announcement;

impl Session {
    /// Writes the announcement to a device that wants messages.
    pub(in crate::server) fn write_announcement(&mut self, it: &Announcement, out: &mut Out) {
        if !self.has(Session::AVAILABLE) {
            return;
        }
        let (name, from, to, id) = ("message", Some(self.domain()), self.jid(), None);
        let head = StanzaReply { name, from, to, id };
        head.open("headline", out.bytes());
        for (name, words) in [("subject", &it.subject), ("body", &it.body)] {
            if !words.is_empty() {
                out.bytes().extend_from_slice(format!("<{name}>").as_bytes());
                text::put(words, out.bytes());
                out.bytes().extend_from_slice(format!("</{name}>").as_bytes());
            }
        }
        head.close(out.bytes());
        self.counts_sent(out);
    }
}
