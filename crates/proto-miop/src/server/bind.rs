//! From a Bind's bytes to the model's `Bind`, for all versions (MIOP 4.3, 5.6, 6).
//!
//! Names are checked here, once; proofs are not: the hub has the secrets.

use crate::codec::frame::Frame;
use crate::codec::property::cap;
use crate::codec::text::Text;
use crate::codec::{FrameFault, Version};
use crate::sign::{self, Claim};
use base::hex;
use model::id::{DeviceId, MessageId, ProductKey, Tag};
use model::link::Link;
use model::machine::Input;
use model::request::{Bind, HeartbeatWish, Proof, Resume};

/// Decodes the Bind of a version 7 BIND.
pub fn newest(frame: &Frame<'_>, input: &Input<'_>) -> Result<Bind, FrameFault> {
    let props = &frame.props;
    let product = props.product_key.ok_or(FrameFault::MissingProperty)?;
    let device = props.device_id.ok_or(FrameFault::MissingProperty)?;
    let (want_s, min_s, max_s) = props.heartbeat_wish.unwrap_or_default();
    let resume = match (props.resume_token, props.session_epoch) {
        (Some(token), Some(epoch)) => Some(Resume { token, epoch }),
        (None, None) => None,
        _ => return Err(FrameFault::MissingProperty),
    };
    let mut bind = blank(Version::V7, product, device, input.link)?;
    bind.proof = newest_proof(frame, input.link)?;
    bind.heartbeat = HeartbeatWish { want_s, min_s, max_s };
    bind.inflight_max = props.max_inflight.unwrap_or(0);
    bind.last_id = props.last_msg_id.map(MessageId);
    bind.resume = resume;
    bind.pulls = props.caps.unwrap_or(0) & cap::PULLS != 0;
    bind.tags = tags(&props.tags, usize::from(input.limits.pushes.tags_a_device_max))?;
    Ok(bind)
}

/// Decodes a classic Bind, and returns its `u`.
pub fn classic<'a>(
    version: Version,
    props: Text<'a>,
    link: &Link,
) -> Result<(Bind, &'a str), FrameFault> {
    let u = props.value("u").ok_or(FrameFault::MissingProperty)?;
    let (device, product) = u.split_once('@').ok_or(FrameFault::BadName)?;
    let mut bind = blank(version, product.as_bytes(), device.as_bytes(), link)?;
    // Nothing in a BindAck could tell the device another heartbeat, so its wish is all it accepts.
    let t = props.number("t")?.unwrap_or(0).min(u64::from(u16::MAX)) as u16;
    bind.heartbeat = HeartbeatWish { want_s: t, min_s: t, max_s: t };
    if props.value("authtype") == Some(sign::CLASSIC_AUTHTYPE) {
        let device_ms = props.number("ts")?.ok_or(FrameFault::MissingProperty)?;
        let sign = props.value("sign").ok_or(FrameFault::MissingProperty)?;
        let sign = hex::decode_array(sign).ok_or(FrameFault::BadProperty)?;
        let [ts, t] = ["ts", "t"].map(|key| props.value(key).unwrap_or_default());
        let signed = sign::classic(u, ts, t).into();
        bind.proof = Proof::Classic { signed, sign, device_ms };
    }
    Ok((bind, u))
}

/// A Bind that says who it is and proves it at most by the certificate of its connection.
fn blank(version: Version, product: &[u8], device: &[u8], link: &Link) -> Result<Bind, FrameFault> {
    Ok(Bind {
        term: 0,
        product: ProductKey::from_bytes(product).map_err(|_| FrameFault::BadName)?,
        device: DeviceId::from_bytes(device).map_err(|_| FrameFault::BadName)?,
        proof: certificate(link),
        protocol: version.name(),
        peer: None,
        from_loopback: link.near,
        crowded: link.crowded,
        heartbeat: HeartbeatWish::default(),
        inflight_max: 0,
        last_id: None,
        resume: None,
        pulls: false,
        tags: None,
    })
}

fn certificate(link: &Link) -> Proof {
    let identity = link.tls.as_ref().and_then(|tls| tls.identity.clone());
    identity.map_or(Proof::None, Proof::Certificate)
}

fn newest_proof(frame: &Frame<'_>, link: &Link) -> Result<Proof, FrameFault> {
    let props = &frame.props;
    match props.auth_type.unwrap_or(0) {
        0 | 3 => Ok(certificate(link)),
        1 => {
            let device_ms = props.client_ts.ok_or(FrameFault::MissingProperty)?;
            let nonce = props.client_nonce.ok_or(FrameFault::MissingProperty)?;
            let claim = Claim {
                product: props.product_key.unwrap_or_default(),
                device: props.device_id.unwrap_or_default(),
                client_ts: device_ms,
                client_nonce: &nonce,
                caps: props.caps.unwrap_or(0),
            };
            Ok(Proof::Hmac {
                key_id: props.key_id.unwrap_or(0),
                signed: claim.bytes().into(),
                mac: props.mac.ok_or(FrameFault::MissingProperty)?,
                nonce,
                device_ms,
                challenged: false,
            })
        }
        2 => Ok(Proof::Token(props.token.ok_or(FrameFault::MissingProperty)?.into())),
        _ => Err(FrameFault::BadProperty),
    }
}

/// The tags that are to be set: none at all leave them, a single empty one sets to nothing.
fn tags(tags: &[&[u8]], count_max: usize) -> Result<Option<Vec<Tag>>, FrameFault> {
    match tags {
        [] => Ok(None),
        [[]] => Ok(Some(Vec::new())),
        _ if tags.len() > count_max => Err(FrameFault::TooLarge),
        _ => {
            let tag = |bytes: &&[u8]| Tag::from_bytes(bytes).map_err(|_| FrameFault::BadName);
            tags.iter().map(tag).collect::<Result<_, _>>().map(Some)
        }
    }
}
