//! Requests about accounts and groups of chat: whom they are about, and what is to be said.
//!
//! Invariant: an address that leaves this file is one that an account, or a group, may have.

use crate::fault::Fault;
use crate::texts::{AccountName, Base64, ContactsPlace, Decimal, GroupsPlace, MessageId16};
use base::hex;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::account::{AccountAddress, Addressee};
use model::chat::{
    CONTACTS_PAGE_MAX, ClientMessageId, ContactsRange, Content, GROUP_NAMED_MAX, GROUP_SERVICE,
    GROUP_TITLE_BYTES_MAX, GroupOrder, GroupVerb, HistoryRange, MEMBERS_PAGE_MAX, NewMessage,
    PAGE_MESSAGES_MAX, REASON_BYTES_MAX, RecallOrder,
};
use model::limits::ChatLimits;
use model::ports::chat::ErrandWhat;
use model::ports::log::ROW_KEY_BYTES_MAX;
use model::timeline::Seq;
use schemars::JsonSchema;
use serde::Deserialize;

/// Seconds of the longest mute: ten years.
const MUTE_S_MAX: u64 = 10 * 365 * 24 * 3_600;

/// Accounts that one broadcast names.
pub(crate) const BROADCAST_ACCOUNTS_MAX: usize = 10_000;

/// Bytes of a broadcast's body: a message whose every byte is an escape, and that many names.
pub(crate) fn body_bytes_max(limits: &ChatLimits) -> usize {
    let message = limits.text_bytes_max as usize * 6 + limits.extra_bytes_max as usize * 4 / 3;
    message + BROADCAST_ACCOUNTS_MAX * 330 + 16 * 1024
}

/// Content of a message.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChatSaying")]
pub(crate) struct SayingBody {
    /// Kind of the message: 1 is text, 1,000 and above are an application's own. Below, the
    /// server's.
    #[serde(default = "text_kind")]
    kind: u16,
    /// For people, and to be searched; at most text_bytes_max bytes. One of `text` and
    /// `extra_base64` at least.
    #[serde(default)]
    text: String,
    /// Bytes for programs; at most extra_bytes_max.
    #[serde(default)]
    #[schemars(with = "Base64")]
    extra_base64: String,
    /// Whether the message counts as unread until it is read.
    #[serde(default = "yes")]
    counts: bool,
}

fn text_kind() -> u16 {
    Content::TEXT
}

fn yes() -> bool {
    true
}

impl SayingBody {
    /// The content, within the limits.
    pub(crate) fn content(&self, limits: &ChatLimits) -> Result<Content, Fault> {
        let extra = STANDARD
            .decode(&self.extra_base64)
            .map_err(|error| Fault::bad(format!("`extra_base64` is not base64: {error}")))?;
        let (text_max, extra_max) = (limits.text_bytes_max, limits.extra_bytes_max);
        if self.text.len() > text_max as usize || extra.len() > extra_max as usize {
            return Err(Fault::too_large(format!(
                "the text of a message has at most {text_max} bytes, `extra` at most {extra_max}"
            )));
        }
        let (kind, text, counts) = (self.kind, self.text.as_str().into(), self.counts);
        let extra = extra.into();
        let content = Content { kind, text, extra, counts, ..Content::default() };
        if content.text.is_empty() && content.extra.is_empty() {
            return Err(Fault::bad("a message needs a text or `extra`"));
        }
        if content.is_reserved() {
            return Err(Fault::bad("only the server itself sends messages of this kind"));
        }
        Ok(content)
    }
}

/// A message to one account or group.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChatMessageOrder")]
pub(crate) struct MessageBody {
    /// Account or group.
    #[schemars(with = "AccountName")]
    to: String,
    /// The application's own id for it, unique for who says it: sent again with it, it is there
    /// once. Without it one is made up.
    #[schemars(with = "Option<MessageId16>")]
    client_id: Option<String>,
    /// Content of the message.
    message: SayingBody,
}

impl MessageBody {
    /// The message; `made_up`: an id for one that has none.
    pub(crate) fn message(
        &self,
        limits: &ChatLimits,
        made_up: impl FnOnce() -> ClientMessageId,
    ) -> Result<NewMessage, Fault> {
        let to = addressee("to", &self.to)?;
        let client_id = client_id(self.client_id.as_deref())?;
        let content = self.message.content(limits)?;
        Ok(NewMessage { to, client_id: client_id.unwrap_or_else(made_up), content })
    }
}

/// A message to many accounts.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChatBroadcastOrder")]
pub(crate) struct BroadcastBody {
    /// Sender of the message.
    #[serde(default = "system_name")]
    #[schemars(with = "AccountName")]
    pub(crate) from: String,
    /// Accounts that get the message, at most 10,000. One of `accounts` and `all`.
    #[schemars(with = "Option<Vec<AccountName>>", length(min = 1, max = BROADCAST_ACCOUNTS_MAX))]
    pub(crate) accounts: Option<Vec<String>>,
    /// When true: to every account of the book.
    #[serde(default)]
    pub(crate) all: bool,
    /// The application's own id for it: begun again with it, nobody has it twice. Without it one
    /// is made up.
    #[schemars(with = "Option<MessageId16>")]
    client_id: Option<String>,
    /// Content of the message.
    pub(crate) message: SayingBody,
}

fn system_name() -> String {
    model::ports::chat::SYSTEM_NAME.into()
}

impl BroadcastBody {
    /// Receivers of the message; `None`: all accounts.
    pub(crate) fn targets(&self) -> Result<Option<Vec<Addressee>>, Fault> {
        match (&self.accounts, self.all) {
            (None, true) => Ok(None),
            (Some(names), false) if (1..=BROADCAST_ACCOUNTS_MAX).contains(&names.len()) => names
                .iter()
                .map(|name| addressee("accounts", name))
                .collect::<Result<_, _>>()
                .map(Some),
            _ => Err(Fault::bad(format!(
                "give either `accounts`, 1 to {BROADCAST_ACCOUNTS_MAX} of them, or `all: true`"
            ))),
        }
    }

    /// Its id, if it has one.
    pub(crate) fn client_id(&self) -> Result<Option<ClientMessageId>, Fault> {
        client_id(self.client_id.as_deref())
    }
}

/// Change of a group.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChatGroupChange")]
pub(crate) struct ChangeBody {
    /// Operation to carry out.
    #[schemars(extend("enum" = verbs()))]
    verb: String,
    /// The new title, for `rename`, or description, for `describe`; at most 256 bytes.
    #[serde(default)]
    title: String,
    /// Reason, for all other verbs: the members see it. At most 512 bytes.
    #[serde(default)]
    #[schemars(length(max = REASON_BYTES_MAX))]
    reason: String,
    /// Members that the operation is about; at most 128 at once.
    #[serde(default)]
    #[schemars(with = "Vec<AccountName>", length(max = GROUP_NAMED_MAX))]
    members: Vec<String>,
    /// The application's own id for it: asked again with it, nothing changes twice.
    #[schemars(with = "Option<MessageId16>")]
    client_id: Option<String>,
}

/// Operations of an operator on an existing group.
fn verbs() -> Vec<&'static str> {
    let is_ones_own = |verb: &GroupVerb| matches!(verb, GroupVerb::Create | GroupVerb::Leave);
    let verbs = GroupVerb::ALL.iter().filter(|verb| !is_ones_own(verb));
    verbs.map(|verb| verb.word()).collect()
}

impl ChangeBody {
    /// The order for this group.
    pub(crate) fn order(
        &self,
        group: &AccountAddress,
        made_up: impl FnOnce() -> ClientMessageId,
    ) -> Result<GroupOrder, Fault> {
        let known = verbs().contains(&self.verb.as_str());
        let verb = GroupVerb::ALL.iter().find(|verb| known && verb.word() == self.verb);
        let verb = *verb.ok_or_else(|| no_verb(&verbs()))?;
        let members = members(&self.members)?;
        if verb.names_members() && members.is_empty() {
            return Err(Fault::bad("`members` must name at least one account for this verb"));
        }
        Ok(GroupOrder {
            group: Some(group.clone().into()),
            client_id: client_id(self.client_id.as_deref())?.unwrap_or_else(made_up),
            verb,
            title: match verb.has_title() {
                true => title(&self.title)?,
                false => at_most(("reason", &self.reason), REASON_BYTES_MAX)?,
            },
            members,
        })
    }
}

/// A group that is to be made.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChatGroupOrder")]
pub(crate) struct GroupBody {
    /// Owner of the group.
    #[schemars(with = "AccountName")]
    pub(crate) owner: String,
    /// Its address, `NAME@conference.DOMAIN`; left out, it follows from owner and `client_id`.
    #[schemars(with = "Option<AccountName>")]
    group: Option<String>,
    /// Its title; at most 256 bytes.
    #[serde(default)]
    title: String,
    /// Its members besides the owner; at most 128 at once.
    #[serde(default)]
    #[schemars(with = "Vec<AccountName>", length(max = GROUP_NAMED_MAX))]
    members: Vec<String>,
    /// The application's own id for it: asked again with it, no second group is made.
    #[schemars(with = "Option<MessageId16>")]
    client_id: Option<String>,
}

impl GroupBody {
    /// The order.
    pub(crate) fn order(
        &self,
        domain: &str,
        made_up: impl FnOnce() -> ClientMessageId,
    ) -> Result<GroupOrder, Fault> {
        let named = self.group.as_ref().map(|name| group(name, domain)).transpose()?;
        Ok(GroupOrder {
            group: named.map(Into::into),
            client_id: client_id(self.client_id.as_deref())?.unwrap_or_else(made_up),
            verb: GroupVerb::Create,
            title: title(&self.title)?,
            members: members(&self.members)?,
        })
    }
}

/// Time for which an account may send nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChatMute")]
pub(crate) struct MuteBody {
    /// For so many seconds from now on.
    #[schemars(range(min = 1, max = MUTE_S_MAX))]
    seconds: u64,
}

impl MuteBody {
    /// The Unix second, at this Unix millisecond.
    pub(crate) fn until_s(&self, now_ms: u64) -> Result<u32, Fault> {
        if !(1..=MUTE_S_MAX).contains(&self.seconds) {
            return Err(Fault::bad(format!("`seconds` must be 1 to {MUTE_S_MAX}")));
        }
        Ok(u32::try_from(now_ms / 1_000 + self.seconds).unwrap_or(u32::MAX))
    }
}

/// A message that is to be called back.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChatRecall")]
pub(crate) struct RecallBody {
    /// The other of the conversation; of a group, left out.
    #[schemars(with = "Option<AccountName>")]
    with: Option<String>,
    /// The message's place in the conversation.
    #[schemars(range(min = 1))]
    pub(crate) seq: Seq,
}

impl RecallBody {
    /// Other side of the conversation.
    pub(crate) fn with(&self) -> Result<Option<Addressee>, Fault> {
        if self.seq == 0 {
            return Err(Fault::bad("`seq` must be at least 1"));
        }
        self.with.as_ref().map(|with| addressee("with", with)).transpose()
    }

    /// The recall of the message from this conversation; no reason is given.
    pub(crate) fn errand(&self, with: Addressee) -> ErrandWhat {
        ErrandWhat::Recall(Box::new(RecallOrder { with, seq: self.seq, reason: Box::default() }))
    }
}

/// Query of a list of conversations.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConversationsQuery {
    /// The `next` of the page before.
    #[schemars(with = "Option<Decimal>")]
    pub(crate) before: Option<Seq>,
    /// Only conversations with groups, hidden ones included.
    pub(crate) groups: Option<bool>,
    /// Conversations on the page, 1 to 256; 50 when left out.
    #[schemars(range(min = 1, max = PAGE_MESSAGES_MAX))]
    pub(crate) limit: Option<u16>,
}

/// Query of a history.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    /// The other of the conversation, or a group; of a group's own history, left out.
    #[schemars(with = "Option<AccountName>")]
    with: Option<String>,
    /// Messages behind this place, forwards. One of `after` and `before`; neither: the last ones.
    after: Option<Seq>,
    /// Messages before this place, backwards.
    before: Option<Seq>,
    /// Messages on the page, 1 to 256; 50 when left out.
    #[schemars(range(min = 1, max = PAGE_MESSAGES_MAX))]
    limit: Option<u16>,
}

impl HistoryQuery {
    /// The part that is wanted; `of`: of this group, whatever the query says.
    pub(crate) fn range(&self, of: Option<&AccountAddress>) -> Result<HistoryRange, Fault> {
        let with = match (of, &self.with) {
            (Some(group), None) => group.clone().into(),
            (None, Some(with)) => addressee("with", with)?,
            (Some(_), Some(_)) => {
                return Err(Fault::bad("omit `with` for the history of a group"));
            }
            (None, None) => {
                return Err(Fault::bad("`with` is missing: the other account of the conversation"));
            }
        };
        let (from, backwards) = match (self.after, self.before) {
            (Some(after), None) => (after, false),
            (None, before) => (before.unwrap_or(Seq::MAX), true),
            _ => return Err(Fault::bad("give either `after` or `before`")),
        };
        Ok(HistoryRange { with, from, backwards, count: page(self.limit)? })
    }
}

/// Query of the members of a group.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MembersQuery {
    /// The `next` of the page before.
    pub(crate) after: Option<u32>,
    /// Its `version`: with another one a list begins again.
    #[schemars(with = "Option<Decimal>")]
    pub(crate) version: Option<u64>,
    /// Members on the page.
    #[schemars(range(min = 1, max = MEMBERS_PAGE_MAX))]
    limit: Option<u16>,
}

impl MembersQuery {
    /// Number of members on the page.
    pub(crate) fn count(&self) -> Result<u16, Fault> {
        match self.limit.unwrap_or(MEMBERS_PAGE_MAX) {
            count @ 1..=MEMBERS_PAGE_MAX => Ok(count),
            _ => Err(Fault::bad(format!("`limit` must be 1 to {MEMBERS_PAGE_MAX}"))),
        }
    }
}

/// Query of a list of all groups.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupsQuery {
    /// The `next` of the page before.
    #[schemars(with = "Option<GroupsPlace>")]
    after: Option<String>,
    /// Groups on the page, 1 to 256; 50 when left out.
    #[schemars(range(min = 1, max = PAGE_MESSAGES_MAX))]
    limit: Option<u16>,
}

impl GroupsQuery {
    /// The part that is wanted: of which shard, behind what, and how many.
    pub(crate) fn part(&self) -> Result<(u16, Box<[u8]>, u16), Fault> {
        let (shard, key) = behind(self.after.as_deref(), |shard, key| {
            let key = hex::decode(key).filter(|key| key.len() <= ROW_KEY_BYTES_MAX)?;
            Some((shard.parse().ok()?, key))
        })?;
        Ok((shard, key, page(self.limit)?))
    }
}

/// Query of an account's contacts.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContactsQuery {
    /// The `next` of the page before.
    #[schemars(with = "Option<ContactsPlace>")]
    after: Option<String>,
    /// Contacts on the page, 1 to 256; 50 when left out.
    #[schemars(range(min = 1, max = CONTACTS_PAGE_MAX))]
    limit: Option<u16>,
}

impl ContactsQuery {
    /// The part that is wanted.
    pub(crate) fn range(&self) -> Result<ContactsRange, Fault> {
        let (after, since) = behind(self.after.as_deref(), |after, since| {
            Some((after.parse().ok()?, since.parse().ok()?))
        })?;
        Ok(ContactsRange { after, since, count: page(self.limit)?.min(CONTACTS_PAGE_MAX) })
    }
}

/// The place of two parts behind which a page begins: at first that of all.
fn behind<T: Default>(
    after: Option<&str>,
    read: impl FnOnce(&str, &str) -> Option<T>,
) -> Result<T, Fault> {
    let Some(text) = after else { return Ok(T::default()) };
    let place = text.split_once('-').and_then(|(one, other)| read(one, other));
    place.ok_or_else(|| Fault::bad("`after` must be the `next` of the previous page"))
}

/// A verb that there is none of.
pub(super) fn no_verb(verbs: &[&str]) -> Fault {
    Fault::bad(format!("`verb` must be one of `{}`", verbs.join("`, `")))
}

/// Messages on a page.
pub(crate) fn page(limit: Option<u16>) -> Result<u16, Fault> {
    const DEFAULT: u16 = 50;
    match limit.unwrap_or(DEFAULT) {
        count @ 1..=PAGE_MESSAGES_MAX => Ok(count),
        _ => Err(Fault::bad(format!("`limit` must be 1 to {PAGE_MESSAGES_MAX}"))),
    }
}

/// A checked account, of a path: its domain, where it names none, is this one.
pub(crate) fn account(text: &str, domain: &str) -> Result<AccountAddress, Fault> {
    let address = AccountAddress::parse(text, domain);
    let address = address.map_err(|fault| Fault::bad(format!("the account: {fault}")))?;
    match address.is_group() || address.is_chatroom() {
        false => Ok(address),
        true => Err(Fault::bad("this is the address of a group or room, not of an account")),
    }
}

/// A checked group, likewise.
pub(crate) fn group(text: &str, domain: &str) -> Result<AccountAddress, Fault> {
    let address = AccountAddress::parse(text, &format!("{GROUP_SERVICE}{domain}"));
    let address = address.map_err(|fault| Fault::bad(format!("the group: {fault}")))?;
    match address.is_group() {
        true => Ok(address),
        false => Err(Fault::bad(format!(
            "the address of a group has the form NAME@{GROUP_SERVICE}{domain}"
        ))),
    }
}

pub(super) fn addressee(field: &str, text: &str) -> Result<Addressee, Fault> {
    Addressee::parse(text).map_err(|fault| Fault::bad(format!("`{field}`: {fault}")))
}

pub(super) fn members(names: &[String]) -> Result<Vec<Addressee>, Fault> {
    if names.len() > GROUP_NAMED_MAX {
        return Err(Fault::bad(format!("`members` can name at most {GROUP_NAMED_MAX} accounts")));
    }
    names.iter().map(|name| addressee("members", name)).collect()
}

pub(super) fn title(text: &str) -> Result<Box<str>, Fault> {
    at_most(("title", text), GROUP_TITLE_BYTES_MAX)
}

fn at_most((field, text): (&str, &str), bytes_max: usize) -> Result<Box<str>, Fault> {
    match text.len() <= bytes_max {
        true => Ok(text.into()),
        false => Err(Fault::bad(format!("`{field}` must have at most {bytes_max} bytes"))),
    }
}

pub(super) fn client_id(text: Option<&str>) -> Result<Option<ClientMessageId>, Fault> {
    let Some(text) = text else { return Ok(None) };
    let bytes = hex::decode_array(&text.replace('-', ""));
    let id = bytes.map(|bytes| Some(ClientMessageId(bytes)));
    id.ok_or_else(|| Fault::bad("`client_id` must be a UUID: 32 hexadecimal digits"))
}
