//! Requests about chatrooms: which, and what is to be done to it.
//!
//! Invariant: an order that leaves this file makes sense by itself.

use super::chat::{addressee, no_verb};
use crate::fault::Fault;
use crate::texts::AccountName;
use model::account::{AccountAddress, Addressee};
use model::chat::{
    CHATROOM_NAMED_MAX, CHATROOM_SERVICE, ChatroomOrder, ChatroomVerb, PAGE_MESSAGES_MAX,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Change of a chatroom.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChatroomChange")]
pub(crate) struct ChatroomBody {
    /// Operation to carry out.
    #[schemars(extend("enum" = chatroom_verbs()))]
    verb: String,
    /// Title or announcement, of `create`, `rename` and `announce`; at most 1,024 bytes.
    #[serde(default)]
    text: String,
    /// Accounts that the operation is about; at most 64 at once, and of `promote` one.
    #[serde(default)]
    #[schemars(with = "Vec<AccountName>", length(max = CHATROOM_NAMED_MAX))]
    accounts: Vec<String>,
    /// For a new chatroom: messages that it keeps for those who join.
    #[serde(default)]
    keeps: u16,
    /// For a new chatroom: whether it keeps them over a restart.
    #[serde(default)]
    durable: bool,
}

fn chatroom_verbs() -> Vec<&'static str> {
    ChatroomVerb::ALL.iter().map(|verb| verb.word()).collect()
}

impl ChatroomBody {
    /// The order for this room.
    pub(crate) fn order(&self, room: &AccountAddress) -> Result<ChatroomOrder, Fault> {
        let verb = ChatroomVerb::of_word(&self.verb).ok_or_else(|| no_verb(&chatroom_verbs()))?;
        let accounts = self.accounts.iter().map(|name| addressee("accounts", name));
        let order = ChatroomOrder {
            room: room.clone().into(),
            verb,
            text: self.text.as_str().into(),
            accounts: accounts.collect::<Result<_, _>>()?,
            keeps: self.keeps,
            durable: self.durable,
        };
        match order.fault() {
            None => Ok(order),
            Some(_) => Err(Fault::bad(
                "`text` can have at most 1,024 bytes; `accounts` can name at most 64: for \
                 `promote` exactly one, for other verbs about accounts at least one, for the rest \
                 none",
            )),
        }
    }
}

/// Query of the list of chatrooms.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatroomsQuery {
    /// The `next` of the page before.
    #[schemars(with = "Option<AccountName>")]
    pub(crate) after: Option<String>,
    /// Chatrooms on the page, 1 to 256; 50 when left out.
    #[schemars(range(min = 1, max = PAGE_MESSAGES_MAX))]
    pub(crate) limit: Option<u16>,
}

/// A checked chatroom, of a path: its service, where it names none, is this domain's.
pub(crate) fn chatroom(text: &str, domain: &str) -> Result<AccountAddress, Fault> {
    let room = Addressee::parse(text).map_err(|fault| Fault::bad(format!("the room: {fault}")))?;
    room.chatroom_within(domain).ok_or_else(|| {
        Fault::bad(format!(
            "the address of a chatroom has the form NAME@{CHATROOM_SERVICE}{domain}"
        ))
    })
}
