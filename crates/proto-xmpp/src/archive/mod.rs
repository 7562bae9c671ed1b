//! Questions about archives (XEP-0313 with `#extended`, XEP-0059): read, and the elements of their
//! answers.
//!
//! ```text
//! <query xmlns='urn:xmpp:mam:2' queryid='…'>
//!   <x xmlns='jabber:x:data' type='submit'> a field each: with, start, end, before-id, … </x>
//!   <set xmlns='http://jabber.org/protocol/rsm'> max, after, before </set>  <flip-page/>
//! </query>
//! ```
//! A form is taken whole or not at all: a value that is none is `bad-request`, a field that is not
//! known `feature-not-implemented`, an id that nobody has given `item-not-found`. Invariant: the id
//! of a message is the same text wherever it stands, and is read as it was written.

use crate::fault::StanzaFault;
use crate::forms::{FORMS, fields};
use crate::jid::Jid;
use crate::moment::moment;
use crate::render::room;
use crate::stanza::timestamp;
use crate::xml::scan::Element;
use crate::xml::text;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use model::account::{AccountAddress, Addressee};
use model::chat::{
    ARCHIVE_NAMED_MAX, ArchiveId, ArchivePage, ArchiveRange, ChatMessage, PAGE_MESSAGES_MAX,
};

/// The namespace of archives (XEP-0313 7).
pub const MAM: &str = "urn:xmpp:mam:2";
/// Features of a server that supports all of XEP-0313 7, and reads `include-groupchat`.
pub const MAM_FEATURES: [&str; 3] =
    [MAM, "urn:xmpp:mam:2#extended", "urn:xmpp:mam:2#groupchat-field"];

/// The namespace of parts of a result (XEP-0059 7).
pub(crate) const RSM: &str = "http://jabber.org/protocol/rsm";

/// Longest `queryid`, bytes: it is said again with each message. A longer one is a bad request.
pub const QUERY_ID_BYTES_MAX: usize = 256;

/// Messages of a page whose size is not asked for.
const PAGE_MESSAGES: u16 = 50;

/// The fields that are known (XEP-0313 4.1).
const FIELDS: [&str; 8] =
    ["FORM_TYPE", "with", "start", "end", "before-id", "after-id", "ids", "include-groupchat"];

/// Query of an archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiveQuery {
    /// The messages that are wanted; none: nobody can have any such, or a count was asked for, and
    /// nothing is counted.
    pub range: Option<Box<ArchiveRange>>,
    /// Whether the whole range must be on one page, even if that is empty.
    pub is_whole: bool,
    /// Given back with each message.
    pub query_id: Option<Box<str>>,
    /// Only what was said on this device of whom it is with.
    pub device: Option<(AccountAddress, Box<str>)>,
    /// Of a room: only what this account said there.
    pub speaker: Option<AccountAddress>,
    /// The page is wanted in reverse.
    pub flips: bool,
}

impl ArchiveQuery {
    /// Reads one about the archive of an account. Messages in rooms are in the archives of the
    /// rooms.
    pub fn read(query: &Element<'_, '_>) -> Result<ArchiveQuery, StanzaFault> {
        ArchiveQuery::of(query, None)
    }

    /// Reads one about the archive of a room: whom it is with is who said it (XEP-0313 5.1.2).
    pub fn of_room(
        query: &Element<'_, '_>,
        room: &AccountAddress,
    ) -> Result<ArchiveQuery, StanzaFault> {
        ArchiveQuery::of(query, Some(room))
    }

    fn of(
        query: &Element<'_, '_>,
        room: Option<&AccountAddress>,
    ) -> Result<ArchiveQuery, StanzaFault> {
        if query.attribute("node").is_some() {
            return Err(StanzaFault::ItemNotFound);
        }
        let query_id: Option<Box<str>> = query.attribute("queryid").map(Into::into);
        if query_id.as_ref().is_some_and(|id| id.len() > QUERY_ID_BYTES_MAX) {
            return Err(StanzaFault::BadRequest);
        }
        let form = at_most_one(query, ("x", FORMS))?.map(|form| Form::read(&form)).transpose()?;
        let form = form.unwrap_or_default();
        let paging = at_most_one(query, ("set", RSM))?.map(|set| Paging::read(&set)).transpose()?;
        let paging = paging.unwrap_or_default();
        let page_ends = paging.before.as_deref().filter(|id| !id.is_empty());
        let with = form.with.as_ref().and_then(|with| with.account.clone());
        let range = ArchiveRange {
            with: room.cloned().or(with).map(Addressee::from),
            after: ids_of([form.after.as_deref(), paging.after.as_deref()])?,
            before: ids_of([form.before.as_deref(), page_ends])?,
            named: ids_of(form.ids.iter().map(|id| Some(&**id)))?,
            since_ms: form.since_ms,
            until_ms: form.until_ms.unwrap_or(u64::MAX),
            backwards: paging.before.is_some() && paging.after.is_none(),
            count: paging.most.unwrap_or(PAGE_MESSAGES),
        };
        // Of a domain itself nothing is kept, and of a room nothing but with the room.
        let is_kept = |account: &AccountAddress| room.is_some() || !account.is_group();
        let has_none = |with: &Jid| !with.account.as_ref().is_some_and(is_kept);
        let is_nobody = form.with.as_ref().is_some_and(has_none);
        let has_ids = [&range.after, &range.before, &range.named].iter().any(|it| !it.is_empty());
        if is_nobody && has_ids {
            return Err(StanzaFault::ItemNotFound);
        }
        let speaker = room.and_then(|room| speaker_of(room, form.with.as_ref()?)).transpose()?;
        let with = form.with.filter(|with| room != with.account.as_ref());
        let device = with.and_then(|with| Some((with.account?, with.resource?)));
        let asks = !is_nobody && range.count > 0;
        Ok(ArchiveQuery {
            range: asks.then(|| Box::new(range)),
            is_whole: is_nobody,
            query_id,
            device,
            speaker,
            flips: query.child("flip-page", MAM).is_some(),
        })
    }

    /// Whether a message is among those that are wanted, of a page of them.
    pub fn has(&self, message: &ChatMessage) -> bool {
        let is_of = |(account, device): &(AccountAddress, Box<str>)| {
            message.from == *account && message.device == *device
        };
        let is_its = |speaker: &AccountAddress| message.from == *speaker;
        self.device.as_ref().is_none_or(is_of) && self.speaker.as_ref().is_none_or(is_its)
    }
}

/// Account that `with` names in a query of a room's archive: an occupant's, or the account itself.
/// The room's own address means everybody: `None`.
fn speaker_of(room: &AccountAddress, with: &Jid) -> Option<Result<AccountAddress, StanzaFault>> {
    let account = with.account.as_ref()?;
    match (&with.resource, account == room) {
        (None, true) => None,
        (Some(nick), true) => {
            let of_nick = room::account_of(nick, room::domain_of(room));
            Some(of_nick.ok_or(StanzaFault::ItemNotFound))
        }
        (_, false) => Some(Ok(account.clone())),
    }
}

/// A form that was filled in.
#[derive(Default)]
struct Form {
    with: Option<Jid>,
    since_ms: u64,
    until_ms: Option<u64>,
    after: Option<Box<str>>,
    before: Option<Box<str>>,
    ids: Vec<Box<str>>,
}

impl Form {
    fn read(form: &Element<'_, '_>) -> Result<Form, StanzaFault> {
        const BAD: StanzaFault = StanzaFault::BadRequest;
        if form.attribute("type").as_deref() != Some("submit") {
            return Err(BAD);
        }
        let (mut read, mut seen, mut is_ours) = (Form::default(), Vec::new(), false);
        for (name, mut values) in fields(form) {
            let name = name.ok_or(BAD)?;
            let known = FIELDS.into_iter().find(|known| *known == name);
            let name = known.ok_or(StanzaFault::FeatureNotImplemented)?;
            if seen.contains(&name) {
                return Err(BAD);
            }
            seen.push(name);
            values.retain(|value| !value.is_empty()); // what is left empty is not asked for
            if name == "ids" {
                if values.len() > ARCHIVE_NAMED_MAX {
                    return Err(StanzaFault::PolicyViolation);
                }
                read.ids = values.into_iter().map(Into::into).collect();
                continue;
            }
            if values.len() > 1 {
                return Err(BAD);
            }
            let Some(value) = values.pop() else { continue };
            match name {
                "FORM_TYPE" if value == MAM => is_ours = true,
                "with" => read.with = Some(Jid::parse(&value).ok_or(BAD)?),
                "start" => read.since_ms = moment(&value).ok_or(BAD)?.ceil_ms,
                "end" => read.until_ms = Some(moment(&value).ok_or(BAD)?.floor_ms),
                "before-id" => read.before = Some(value.into()),
                "after-id" => read.after = Some(value.into()),
                // There are no groups in that of an account, wanted or not.
                "include-groupchat" if ["0", "1", "false", "true"].contains(&&*value) => {}
                _ => return Err(BAD),
            }
        }
        if is_ours { Ok(read) } else { Err(BAD) }
    }
}

/// Which page of a result (XEP-0059 2).
#[derive(Default)]
pub(crate) struct Paging {
    pub(crate) most: Option<u16>,
    pub(crate) after: Option<Box<str>>,
    /// Empty: the last page.
    pub(crate) before: Option<Box<str>>,
}

impl Paging {
    pub(crate) fn read(set: &Element<'_, '_>) -> Result<Paging, StanzaFault> {
        if set.child("index", RSM).is_some() {
            return Err(StanzaFault::FeatureNotImplemented);
        }
        let [most, after, before] = [
            at_most_one(set, ("max", RSM))?,
            at_most_one(set, ("after", RSM))?,
            at_most_one(set, ("before", RSM))?,
        ]
        .map(|child| child.map(|child| Box::<str>::from(child.text().trim())));
        let most = match most {
            // However many digits there are, it is not more than a page.
            Some(most) if is_number(&most) => {
                Some(most.parse().unwrap_or(u16::MAX).min(PAGE_MESSAGES_MAX))
            }
            Some(_) => return Err(StanzaFault::BadRequest),
            None => None,
        };
        Ok(Paging { most, after: after.filter(|id| !id.is_empty()), before })
    }
}

pub(crate) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

pub(crate) fn at_most_one<'t, 'a>(
    of: &Element<'t, 'a>,
    (name, namespace): (&str, &str),
) -> Result<Option<Element<'t, 'a>>, StanzaFault> {
    let mut all = of.children().filter(|child| child.is(name, namespace));
    match (all.next(), all.next()) {
        (one, None) => Ok(one),
        _ => Err(StanzaFault::BadRequest),
    }
}

/// Ids of messages, of which each is one that was given.
fn ids_of<'a>(
    texts: impl IntoIterator<Item = Option<&'a str>>,
) -> Result<Vec<ArchiveId>, StanzaFault> {
    let read = |text| read_id(text).ok_or(StanzaFault::ItemNotFound);
    texts.into_iter().flatten().map(read).collect()
}

/// Bits of an id that say the place in the conversation.
const SEQ_BITS: u32 = 128 - 64 - ArchiveId::PAIR_BITS;

/// An id as it is written.
///
/// ```text
/// number 64 | pair 24 | place in the conversation 40
/// ```
pub fn id_text(id: ArchiveId) -> String {
    id.text()
}

/// Reads an archive id; `None`: no server of this kind wrote the text.
pub fn read_id(text: &str) -> Option<ArchiveId> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
    let all = u128::from_be_bytes(bytes.try_into().ok()?);
    let (number, place) = ((all >> 64) as u64, all as u64);
    let (pair, seq) = ((place >> SEQ_BITS) as u32, place & ((1 << SEQ_BITS) - 1));
    Some(ArchiveId { number, seq, pair })
}

/// The form that may be filled in (XEP-0313 4.1.5).
pub fn form() -> String {
    let kind = |name: &str| match name {
        "FORM_TYPE" => "hidden",
        "with" => "jid-single",
        "include-groupchat" => "boolean",
        "ids" => "list-multi",
        _ => "text-single",
    };
    let inner = |name: &str| match name {
        "FORM_TYPE" => format!("<value>{MAM}</value>"),
        "ids" => "<validate xmlns='http://jabber.org/protocol/xdata-validate' \
                  datatype='xs:string'><open/></validate>"
            .to_owned(),
        _ => String::new(),
    };
    let field =
        |name: &str| format!("<field type='{}' var='{name}'>{}</field>", kind(name), inner(name));
    let fields: String = FIELDS.map(field).concat();
    format!("<query xmlns='{MAM}'><x xmlns='{FORMS}' type='form'>{fields}</x></query>")
}

/// Archiving preferences (XEP-0441 3): everything is kept.
pub fn preferences() -> String {
    format!("<prefs xmlns='{MAM}' default='always'><always/><never/></prefs>")
}

/// The end of a page (XEP-0313 4.3): where it begins and ends, and whether that is all.
pub fn fin(page: &ArchivePage, backwards: bool) -> String {
    let ends = [page.messages.first(), page.messages.last()];
    let [mut first, mut last] = ends.map(|message| message.map(|it| ArchiveId::of(it)));
    // The next page goes on there, whether or not that message was wanted.
    match backwards {
        true => first = page.goes_on.or(first),
        false => last = page.goes_on.or(last),
    }
    let (first, last) = (first.or(last), last.or(first));
    let element = |name: &str, id: Option<ArchiveId>| {
        id.map_or_else(String::new, |id| format!("<{name}>{}</{name}>", id_text(id)))
    };
    end(page.goes_on.is_none(), &(element("first", first) + &element("last", last)))
}

/// The end of a page that has nothing; of a count that is not known.
pub fn fin_of_nothing(is_whole: bool) -> String {
    end(is_whole, "")
}

fn end(is_whole: bool, set: &str) -> String {
    let complete = if is_whole { " complete='true'" } else { "" };
    format!("<fin xmlns='{MAM}'{complete}><set xmlns='{RSM}'>{set}</set></fin>")
}

/// The first and the last message there are (XEP-0313 5).
pub fn metadata(first: Option<&ChatMessage>, last: Option<&ChatMessage>) -> String {
    let element = |name: &str, message: Option<&ChatMessage>| {
        message.map_or_else(String::new, |message| {
            let (id, at) = (id_text(ArchiveId::of(message)), timestamp(message.at_ms));
            format!("<{name} id='{id}' timestamp='{at}'/>")
        })
    };
    let ends = element("start", first) + &element("end", last);
    format!("<metadata xmlns='{MAM}'>{ends}</metadata>")
}

/// Writes a message of a page in its `result` element (XEP-0313 4.2).
pub fn put_result(
    (message, stanza): (&ChatMessage, &[u8]),
    (owner, reader): (&str, &str),
    query_id: Option<&str>,
    out: &mut Vec<u8>,
) {
    let put = |text: &str, out: &mut Vec<u8>| text::put_value(text, out);
    out.extend_from_slice(b"<message from='");
    put(owner, out);
    out.extend_from_slice(b"' to='");
    put(reader, out);
    out.extend_from_slice(format!("'><result xmlns='{MAM}'").as_bytes());
    crate::stanza::put_attribute("queryid", query_id, out);
    let (id, at) = (id_text(ArchiveId::of(message)), timestamp(message.at_ms));
    let head = format!(
        " id='{id}'><forwarded xmlns='{}'><delay xmlns='{}' stamp='{at}'/>",
        crate::render::FORWARD,
        crate::render::DELAY
    );
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(stanza);
    out.extend_from_slice(b"</forwarded></result></message>");
}

#[cfg(test)]
mod tests;
