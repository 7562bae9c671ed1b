//! Many different pushes in one request: a template, and variables for each device.
//!
//! All messages are checked before the first is sent: a batch with a fault sends nothing.
//! With an idempotency key, a push to no devices is ordered first, whose body is the hash of the
//! request: another request with the key is a conflict before anything is sent. Then each message
//! is ordered with a key of its own, so a repeated request goes on where the first one was cut off.
//! Invariant: a text of a template is used with every variable that it names, or not at all.

use super::PushBody;
use super::notification::NotificationBody;
use crate::fault::Fault;
use crate::texts::{Base64, DeviceName, ProductName};
use base::text::quoted;
use model::id::{MessageId, ProductKey};
use model::limits::Limits;
use model::ports::pushes::{PushOrder, PushTarget};
use model::push::Push;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Most messages of a batch.
pub(crate) const MESSAGES_MAX: usize = 1_000;

/// Longest body of a batch, and most bytes of all its pushes together.
pub(crate) const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Different pushes for devices of a product.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PushBatch")]
pub(crate) struct BatchBody {
    /// Key of the product.
    #[schemars(with = "ProductName")]
    pub(crate) product: String,
    /// Content of the messages that have none of their own.
    template: Option<TemplateBody>,
    /// The messages, one for each device.
    #[schemars(length(min = 1, max = MESSAGES_MAX))]
    messages: Vec<MessageBody>,
    /// As in a push.
    ttl_s: Option<u32>,
    /// As in a push.
    #[schemars(length(min = 1, max = Push::COLLAPSE_BYTES_MAX))]
    collapse_key: Option<String>,
    /// As in a push.
    #[schemars(extend("enum" = ["normal", "high"], "default" = "normal"))]
    priority: Option<String>,
    /// As in a push.
    #[serde(default)]
    silent: bool,
    /// As in a push.
    #[serde(default)]
    receipts: bool,
    /// As in a push, for all messages.
    send_at_ms: Option<u64>,
}

/// Content with variables: `{name}` stands for the message's variable of that name, `{{` and `}}`
/// for a brace.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PushTemplate")]
struct TemplateBody {
    /// As in a push. Texts and URLs may have variables.
    notification: Option<NotificationBody>,
    /// As in a push, with variables.
    #[schemars(length(min = 1))]
    body: Option<String>,
}

/// A message of a batch.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PushBatchMessage")]
struct MessageBody {
    /// The device.
    #[schemars(with = "DeviceName")]
    device: String,
    /// Variables of the template.
    #[serde(default)]
    variables: BTreeMap<String, String>,
    /// As in a push; instead of the template.
    notification: Option<NotificationBody>,
    /// As in a push; instead of the template.
    #[schemars(length(min = 1))]
    body: Option<String>,
    /// As in a push; instead of the template.
    #[schemars(with = "Option<Base64>", length(min = 1))]
    body_base64: Option<String>,
}

impl BatchBody {
    /// The orders, in the order of the messages. `id` is called only after all checks.
    pub(crate) fn orders(
        self,
        limits: &Limits,
        now_ms: u64,
        key: Option<&str>,
        mut id: impl FnMut() -> MessageId,
    ) -> Result<Vec<PushOrder>, Fault> {
        let count = self.messages.len();
        if !(1..=MESSAGES_MAX).contains(&count) {
            return Err(Fault::bad(format!(
                "`messages` has {count} messages; a batch has 1 to {MESSAGES_MAX}"
            )));
        }
        let BatchBody { product, template, messages, ttl_s, collapse_key, priority, .. } = self;
        let mut bytes = 0;
        let order = |(at, message): (usize, MessageBody)| {
            let within = |fault: Fault| fault.within(&format!("messages[{at}]"));
            let (device, mut content) = (message.device.clone(), message);
            let has_own = content.notification.is_some()
                || content.body.is_some()
                || content.body_base64.is_some();
            if let Some(template) = template.as_ref().filter(|_| !has_own) {
                let max = limits.pushes.push_bytes_max as usize;
                (content.notification, content.body) =
                    template.filled(&content.variables, max).map_err(Fault::bad).map_err(within)?;
            }
            let push = PushBody {
                product: product.clone(),
                device: Some(device),
                notification: content.notification,
                body: content.body,
                body_base64: content.body_base64,
                ttl_s,
                collapse_key: collapse_key.clone(),
                priority: priority.clone(),
                silent: self.silent,
                receipts: self.receipts,
                send_at_ms: self.send_at_ms,
                ..PushBody::default()
            };
            // No key of a request has a space.
            let key = key.map(|key| format!("batch {key}/{at}").into());
            let order = push.order(limits, now_ms, key, || MessageId(0)).map_err(within)?;
            bytes += order.body.len();
            if bytes > BATCH_BYTES_MAX {
                let words = format!("the batch's pushes have more than {BATCH_BYTES_MAX} bytes");
                return Err(within(Fault::too_large(words)));
            }
            Ok(order)
        };
        let orders = messages.into_iter().enumerate().map(order);
        let mut orders = orders.collect::<Result<Vec<_>, _>>()?;
        orders.iter_mut().for_each(|order| order.id = id());
        Ok(orders)
    }
}

/// The order that takes the key of a batch with this hash: a push to no devices, which is kept as
/// its key alone.
pub(crate) fn claim(
    product: ProductKey,
    id: MessageId,
    (key, hash): (&str, Box<[u8]>),
) -> PushOrder {
    PushOrder {
        silent: true,
        idempotency_key: Some(format!("batch {key}").into()),
        ..PushOrder::new(id, product, PushTarget::Devices(Vec::new()), hash)
    }
}

impl TemplateBody {
    /// Its content with these variables, each text of at most so many bytes.
    fn filled(
        &self,
        variables: &BTreeMap<String, String>,
        max: usize,
    ) -> Result<(Option<NotificationBody>, Option<String>), String> {
        let of = |text: &Option<String>| {
            text.as_ref().map(|text| fill(text, variables, max)).transpose()
        };
        let notification = |it: &NotificationBody| {
            let (title, body) = (of(&it.title)?, of(&it.body)?);
            let (image, link) = (of(&it.image)?, of(&it.link)?);
            let mut platforms = it.platforms.clone();
            for (_, part) in platforms.iter_mut().flat_map(|platforms| platforms.all()) {
                let Some(part) = part else { continue };
                for text in [&mut part.title, &mut part.body, &mut part.image, &mut part.link] {
                    *text = of(text)?;
                }
            }
            Ok::<_, String>(NotificationBody { title, body, image, link, platforms, ..it.clone() })
        };
        Ok((self.notification.as_ref().map(notification).transpose()?, of(&self.body)?))
    }
}

/// A text with its variables; an error says what is wrong.
fn fill(text: &str, variables: &BTreeMap<String, String>, max: usize) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        let (brace, behind) = from.split_at(1);
        out.push_str(before);
        rest = if let Some(behind) = behind.strip_prefix(brace) {
            out.push_str(brace);
            behind
        } else if let ("{", Some((name, behind))) = (brace, behind.split_once('}')) {
            let value = variables.get(name);
            out.push_str(value.ok_or_else(|| {
                format!("the template's variable {} is missing in `variables`", quoted(name))
            })?);
            behind
        } else {
            return Err(format!(
                "the template has a single {brace}: write {brace}{brace} for the character"
            ));
        };
        if out.len() > max {
            return Err(format!("a text has more than {max} bytes with its variables"));
        }
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, String> {
        let variables = [("name", "Ann"), ("a b", "{name}")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        fill(text, &variables.into(), 20)
    }

    #[test]
    fn the_pushes_of_a_batch_have_at_most_so_many_bytes_together() {
        let mut limits = Limits::default();
        limits.pushes.push_bytes_max = 512 * 1024;
        let text = "x".repeat(512 * 1024);
        for (count, fits) in [(16, true), (17, false), (1_000, false)] {
            let messages = vec![serde_json::json!({ "device": "d" }); count];
            let batch = serde_json::json!({
                "product": "shop", "template": { "body": text }, "messages": messages
            });
            let batch: BatchBody = serde_json::from_value(batch).expect("a batch");
            let orders = batch.orders(&limits, 0, None, || MessageId(1)).map(|orders| orders.len());
            let words = "in messages[16]: the batch's pushes have more than 8388608 bytes";
            let refused = Err(Fault::too_large(words));
            assert_eq!(orders, if fits { Ok(count) } else { refused }, "{count}");
        }
    }

    #[test]
    fn variables_are_put_in_once_and_braces_are_doubled() {
        for (text, expected) in [
            ("", ""),
            ("plain \u{e9}", "plain \u{e9}"),
            ("Hello {name}!", "Hello Ann!"),
            ("{name}{name}", "AnnAnn"),
            ("{a b}", "{name}"),
            ("{{name}}", "{name}"),
            ("{{{name}}}", "{Ann}"),
        ] {
            assert_eq!(filled(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_missing_or_malformed_is_named() {
        for (text, words) in [
            ("{nme}", "\"nme\" is missing"),
            ("{}", "\"\" is missing"),
            ("{name", "single {"),
            ("name}", "single }"),
            ("{name}{name}{name}{name}{name}{name}{name}", "more than 20 bytes"),
        ] {
            let why = filled(text).expect_err(text);
            assert!(why.contains(words), "{text}: {why}");
        }
    }
}
