//! Data of another server, in the form that the API accepts.
//!
//! Invariant: whoever is of the host that moves is called by its bare name, and nobody else.

use super::contents::Batched;
use base::hash::HashKey;
use base::hex;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use migration::{MovedItem, MovedNode, MovedStanza, MovedTime};
use model::account::AccountAddress;
use model::chat::{NodeAccess, NodeChange, NodeItem, NodeOptions, NodeSpace};
use proto_xmpp::jid::Jid;
use proto_xmpp::moving;
use serde_json::{Value, json};

/// Key of hashes of imported data. It needs no secret: two texts with one hash would both be of the
/// account that chose them.
pub(super) const HASH: HashKey = HashKey::new(0x686f_6c64, 0x6d6f_7665);

/// Items of a node in one order, and their bytes.
const ITEMS_MAX: usize = 64;
const ITEMS_BYTES_MAX: usize = 256 << 10;

/// The host that moves, there and here.
#[derive(Default)]
pub(super) struct Addresses {
    pub(super) there: String,
    pub(super) here: String,
}

impl Addresses {
    /// How an account is called here; `None`: it cannot be one.
    pub(super) fn account(&self, jid: &str) -> Option<String> {
        self.named(&Jid::parse(jid)?.account?)
    }

    /// How an account that is blocked is called here, or a whole domain; or why it is neither.
    pub(super) fn blocked(&self, jid: &str) -> Result<String, &'static str> {
        let jid = Jid::parse(jid).ok_or("a blocked address that is not an account")?;
        if jid.resource.is_some() {
            return Err("a block of a single resource");
        }
        match (&jid.account, AccountAddress::of_domain(&jid.domain)) {
            (Some(account), _) => {
                self.named(account).ok_or("a blocked address that is not an account")
            }
            (None, Some(domain)) if *jid.domain != *self.there => Ok(domain.as_str().to_owned()),
            (None, _) => Err("a block of the imported domain itself"),
        }
    }

    /// The domain that it has here, once that is known.
    pub(super) fn domain(&self) -> &str {
        if self.here.is_empty() { &self.there } else { &self.here }
    }

    fn named(&self, account: &AccountAddress) -> Option<String> {
        Some(match account.domain() == self.there {
            true => account.name().to_owned(),
            false => account.as_str().to_owned(),
        })
    }

    /// Whether it is of the host that moves.
    pub(super) fn is_here(&self, name: &str) -> bool {
        !name.contains('@')
    }
}

/// A message of somebody's archive: when it was said, and what is kept of it until it is its turn.
pub(super) fn record(
    addresses: &Addresses,
    item: &MovedItem,
    moved: &MovedStanza,
) -> Result<(u64, Value), &'static str> {
    let at_ms = match &moved.at {
        MovedTime::UnixMs(at_ms) => *at_ms,
        MovedTime::Stamp(stamp) => {
            moving::moment(stamp).ok_or("its timestamp is invalid")?.floor_ms
        }
    };
    let kept = moving::message(&moved.stanza.write())?;
    let own = item.owner.as_str();
    let (from, device) = match &kept.from {
        Some((account, device)) => {
            (addresses.named(account).ok_or("its sender is not an account")?, &**device)
        }
        None => (own.to_owned(), ""),
    };
    let to = match &kept.to {
        Some(account) => addresses.named(account).ok_or("its recipient is not an account")?,
        None => own.to_owned(),
    };
    if from != own && to != own {
        return Err("neither sent nor received by the owner of the archive");
    }
    // Both of two have it in their archives: it is told by who said it.
    let is_own = addresses.is_here(&from);
    let (account, with) = if is_own { (&from, &to) } else { (&to, &from) };
    let mut inboxes = vec![from.as_str(), to.as_str()];
    inboxes.dedup();
    inboxes.retain(|name| addresses.is_here(name));
    let content = &kept.content;
    Ok((
        at_ms,
        json!({
            "place": item.place, "archive": own, "waiting": moved.is_waiting, "inboxes": inboxes,
            "account": account, "with": with, "own": is_own, "device": cut(device),
            "id": kept.id, "client_id": kept.client_id.map(|id| hex::encode(&id.0)),
            "archive_id": moved.id.as_deref().filter(|id| is_uuid(id)),
            "kind": content.kind, "text": content.text,
            "extra_base64": STANDARD.encode(&content.extra),
        }),
    ))
}

/// Whether an archive's id tells a message from all others: a UUID.
fn is_uuid(id: &str) -> bool {
    id.len() == 36 && hex::decode_array::<16>(&id.replace('-', "")).is_some()
}

/// A device's name, as far as it may be one here.
fn cut(device: &str) -> &str {
    if device.len() <= model::chat::DEVICE_NAME_BYTES_MAX { device } else { "" }
}

/// A hash that tells the conversation of a message from others.
pub(super) fn told_between(message: &Value) -> u64 {
    let text = |key: &str| message[key].as_str().unwrap_or_default();
    let (account, with) = (text("account"), text("with"));
    let (one, other) = (account.min(with), account.max(with));
    HASH.of(&[one.as_bytes(), b" ", other.as_bytes()])
}

/// A hash that tells one message from others, whichever copy of it this is.
pub(super) fn told_apart(message: &Value) -> u64 {
    let text = |key: &str| message[key].as_str().unwrap_or_default().as_bytes();
    let (id, kind) = (text("id"), message["kind"].to_string());
    let own = message["own"] == true;
    let parts = [text("account"), text("with"), &[u8::from(own)], id, kind.as_bytes()];
    let said = [text("client_id"), text("text"), text("extra_base64")];
    let lengths: Vec<u8> =
        parts.iter().chain(&said).flat_map(|part| (part.len() as u32).to_le_bytes()).collect();
    let all: Vec<&[u8]> = [&*lengths].into_iter().chain(parts).chain(said).collect();
    HASH.of(&all)
}

/// The id of something that brings none: the same of the same parts.
pub(super) fn made_id(parts: &[&[u8]]) -> String {
    let half = |half: &[u8]| HASH.of(&[&[half], parts].concat()).to_be_bytes();
    hex::encode(&[half(b"1"), half(b"2")].concat())
}

/// The order for a message.
pub(super) fn message_of(at_ms: u64, mut message: Value) -> Batched {
    let is_waiting = message["waiting"] == true;
    let known = message["client_id"].as_str().or_else(|| message["archive_id"].as_str());
    let client_id = match known {
        Some(id) => id.to_owned(),
        None => {
            let told = told_apart(&message).to_be_bytes();
            hex::encode(&[at_ms.to_be_bytes(), told].concat())
        }
    };
    let inboxes = message["inboxes"].as_array().into_iter().flatten();
    let inboxes = inboxes.filter_map(Value::as_str).map(String::from).collect();
    let place = message["place"].as_str().unwrap_or_default().to_owned();
    let mut taken = |key: &str| message[key].take();
    let order = json!({
        "account": taken("account"),
        "what": { "message": {
            "with": taken("with"), "own": taken("own"), "device": taken("device"),
            "at_ms": at_ms, "client_id": client_id,
            "message": {
                "kind": taken("kind"), "text": taken("text"),
                "extra_base64": taken("extra_base64"), "counts": is_waiting,
            },
        }},
    });
    let what = if is_waiting { "queued messages" } else { "messages" };
    Batched { place, what, order, inboxes, is_waiting, of_room: None }
}

/// Items of a node, as a change of it.
pub(super) fn published(node: &MovedNode) -> Vec<NodeChange> {
    let access = node.access.as_deref().map(|model| match model {
        "open" => NodeAccess::Open,
        "whitelist" => NodeAccess::Members,
        _ => NodeAccess::Presence,
    });
    let items_max = node.items_max.as_deref().and_then(|count| match count {
        "max" => Some(u32::MAX),
        count => count.parse().ok(),
    });
    // One that keeps more than one keeps all that it has.
    let items_max = items_max.or_else(|| (node.items.len() > 1).then_some(u32::MAX));
    let options = NodeOptions { access, items_max, ..NodeOptions::default() };
    let publish: Vec<NodeItem> = node
        .items
        .iter()
        .map(|(id, payload)| {
            let id = if id.is_empty() { "current" } else { id };
            NodeItem { id: id.into(), payload: payload.write().into_bytes().into() }
        })
        .collect();
    let badge = publish.last().and_then(|item| moving::badge(&node.node, item));
    let change = NodeChange::of(NodeSpace::Published, node.node.as_str());
    vec![NodeChange { publish, options: Some(Box::new(options)), badge, ..change }]
}

/// The orders for a change of a node: of so many items several.
pub(super) fn node_json(owner: &str, change: &NodeChange) -> Vec<Value> {
    let mut slices: Vec<Vec<Value>> = vec![Vec::new()];
    let mut bytes = 0;
    for item in &change.publish {
        bytes += item.payload.len();
        let last = slices.last().map_or(0, Vec::len);
        if last > 0 && (last == ITEMS_MAX || bytes > ITEMS_BYTES_MAX) {
            slices.push(Vec::new());
            bytes = item.payload.len();
        }
        let payload = STANDARD.encode(&item.payload);
        let item = json!({ "id": item.id, "payload_base64": payload });
        if let Some(slice) = slices.last_mut() {
            slice.push(item);
        }
    }
    let options = change.options.as_deref();
    let access = options.and_then(|it| it.access).map(|access| match access {
        NodeAccess::Open => "open",
        NodeAccess::Members => "members",
        NodeAccess::Presence | NodeAccess::Groups => "presence",
    });
    let items_max = options.and_then(|it| it.items_max);
    let order = |items: Vec<Value>| {
        let mut node = json!({
            "node": change.node, "kept": change.space == NodeSpace::Kept, "access": access,
            "items_max": items_max, "items": items, "badge": change.badge,
        });
        // What is not said is left out.
        if let Value::Object(fields) = &mut node {
            fields.retain(|_, value| !value.is_null());
        }
        json!({ "account": owner, "what": { "node": node } })
    };
    slices.into_iter().map(order).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_and_domains_of_others_come_as_blocked_and_nothing_else_does() {
        let addresses = Addresses { there: "a.example".into(), here: "b.example".into() };
        let blocked = |jid| addresses.blocked(jid).map_err(|why| why.len() > 5);
        for (jid, called) in [
            ("bob@a.example", Ok("bob")),
            ("mallory@c.example", Ok("mallory@c.example")),
            ("Spam.example", Ok("@spam.example")),
            ("conference.c.example", Ok("@conference.c.example")),
            ("a.example", Err(true)),
            ("mallory@c.example/phone", Err(true)),
            ("c.example/x", Err(true)),
            ("x y@c.example", Err(true)),
        ] {
            assert_eq!(blocked(jid), called.map(str::to_owned), "{jid}");
        }
    }
}
