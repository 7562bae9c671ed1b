//! `[chat]`: `model::limits::ChatLimits`, and what else holds for accounts and conversations.

use base::section;
use base::setting::text;
use model::account::is_domain;
use model::limits::ChatLimits;

section! {
    /// `[chat]`: accounts and conversations.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ChatSection {
        /// Whose accounts those are that log in by a bare name: what stands behind the @ of their
        /// addresses. It is part of what is stored: with another one they are other accounts.
        domain: String = "localhost".into(), text("a host in lower case", is_domain);
        /// Whether listeners with IM in WebSockets at "/im" give browsers a page to talk, at /chat.
        page: bool = true;
        /// What bounds them.
        @part limits: ChatLimits;
    }
}
