//! Authentication of a Bind: proofs, tokens, challenges; and the pace at which Binds are admitted.
//!
//! Secrets are compared in constant time. No state is kept per device: session tokens and bearer
//! tokens are MACs under the cluster's secret and are recomputed when a client presents one. A
//! session token becomes invalid when the product's secrets or accepted proofs change, and expires
//! no later than the proof that began the session; a kick since then is noted in the device's
//! record. After a restart the nonces of the previous process are unknown: a proof that may have
//! been signed before the restart must be made again over a challenge. A challenge is an
//! unpredictable number; the protocol machine confirms with `challenged` that a proof covers the
//! challenge it sent. The only state is the replay filter, the admission pace and the random
//! numbers for jitter.

pub(crate) mod replay;
pub(crate) mod terms;

use self::replay::{Nonce, Replay, SKEW_MS_MAX};
use crate::Settings;
use base::hash::HashKey;
use base::hex;
use base::pace::AdmissionPace;
use base::prng::Prng;
use base::time::Now;
use hmac::{Hmac, KeyInit, Mac};
use model::id::{DeviceId, DeviceUser, ProductKey};
use model::product::{AnonymousFrom, Product};
use model::request::{Bind, HeartbeatWish, Proof, Refusal};
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// Longest time after its proof that a session can be resumed with its token alone, seconds.
const RESUME_S_MAX: u32 = 24 * 3_600;

/// Verdict on a proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Proven {
    /// The proof is valid.
    Yes,
    /// The client must prove itself again, over this nonce.
    Challenge([u8; 16]),
    /// The proof is refused.
    No(Refusal),
}

/// Checks of proofs and tokens on one shard, with the admission pace.
pub(crate) struct Access {
    cluster: Hmac<Sha256>,
    node: Hmac<Sha256>,
    hash_key: HashKey,
    replay: Replay,
    challenges: u64,
    /// Unix millisecond at which this process started, if an earlier one ran before it; otherwise
    /// zero.
    began_ms: u64,
    pace: AdmissionPace,
    rng: Prng,
    retry_jitter_ms: u32,
}

/// Validity of a session token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resumable {
    /// Unix second until which the token is valid.
    pub until: u32,
    /// The session began with a certificate, which a client that resumes it must present again.
    pub certified: bool,
}

impl Access {
    /// Makes and checks tokens under the cluster's secret, and challenges under the node's.
    pub fn new(settings: &Settings) -> Access {
        Access {
            cluster: keyed(settings.secret.bytes()),
            node: keyed(&settings.node_secret),
            hash_key: settings.hash_key,
            replay: Replay::new(Replay::NONCES_MAX),
            challenges: 0,
            began_ms: 0,
            pace: AdmissionPace::new(settings.binds_per_s),
            rng: Prng::new(settings.seed),
            retry_jitter_ms: settings.limits.retry_jitter_ms,
        }
    }

    /// Applies changed settings: the Binds per second and the retry jitter.
    pub fn configure(&mut self, settings: &Settings) {
        self.pace.set_rate(settings.binds_per_s);
        self.retry_jitter_ms = settings.limits.retry_jitter_ms;
    }

    /// Admits a Bind, or returns the milliseconds after which the client should retry.
    pub fn admit(&mut self, now: Now) -> Result<(), u32> {
        self.pace.admit(now)
    }

    /// Time after which a client should retry: `base_ms` plus jitter, milliseconds.
    pub fn retry_ms(&mut self, base_ms: u32) -> u32 {
        let jitter = self.rng.below(u64::from(self.retry_jitter_ms) + 1);
        base_ms.saturating_add(jitter as u32)
    }

    /// The heartbeat of a device, seconds.
    pub fn heartbeat_s(&mut self, product: &Product, wish: HeartbeatWish) -> u16 {
        terms::heartbeat_s(product, wish, &mut self.rng)
    }

    /// Drops nonces that are too old to matter.
    pub fn turn(&mut self, now: Now) {
        self.replay.turn(now);
    }

    /// Notes that an earlier process ran before this start: the nonces it had seen are unknown.
    pub fn begin(&mut self, now: Now) {
        self.began_ms = now.wall_ms;
    }

    /// Judges a Bind by its main proof.
    pub fn prove(&mut self, now: Now, product: &Product, bind: &Bind) -> Proven {
        let proofs = &product.proofs;
        let good = match &bind.proof {
            // A proof that cannot cover a challenge is refused where the product demands one.
            Proof::None | Proof::Classic { .. } if proofs.challenge => false,
            Proof::None => match proofs.anonymous {
                AnonymousFrom::Nowhere => false,
                AnonymousFrom::Loopback => bind.from_loopback,
                AnonymousFrom::Everywhere => true,
            },
            Proof::Certificate(_) => is_certified(product, bind),
            Proof::Token(token) => proofs.token && self.token_is_good(now, bind, token),
            Proof::Hmac { .. } if proofs.hmac => return self.prove_hmac(now, product, bind),
            Proof::Classic { .. } if proofs.classic_sign => {
                return self.prove_classic(now, product, bind);
            }
            Proof::Hmac { .. } | Proof::Classic { .. } => false,
        };
        if good { Proven::Yes } else { Proven::No(Refusal::AuthFailed) }
    }

    /// The validity of the session token in a Bind, if the Bind may resume the device's current
    /// session with it; `None` otherwise. If the session began with a certificate, the Bind must
    /// present it again: else the token would pass listeners that require a certificate.
    pub fn resumes(
        &self,
        now: Now,
        product: &Product,
        bind: &Bind,
        epoch: u64,
    ) -> Option<Resumable> {
        let resume = bind.resume.as_ref()?;
        let (until, _) = resume.token.split_first_chunk::<4>()?;
        let until = u32::from_be_bytes(*until);
        let has_certificate = is_certified(product, bind);
        let stands_for = [false, true].map(|certified| Resumable { until, certified });
        let shown = stands_for.into_iter().find(|it| {
            let token = self.session_token(product, bind.device.as_str(), epoch, *it);
            bool::from(token.ct_eq(&resume.token)) && (has_certificate || !it.certified)
        });
        shown.filter(|_| epoch != 0 && resume.epoch == epoch && until >= now.unix_s())
    }

    /// The token that resumes a session: its expiry (Unix second, big endian), then a MAC.
    pub fn session_token(
        &self,
        product: &Product,
        device: &str,
        epoch: u64,
        resumable: Resumable,
    ) -> [u8; 32] {
        let until = resumable.until.to_be_bytes();
        let (key, proofs) = (product.key.as_str().as_bytes(), self.proofs(product));
        let parts: [&[u8]; 5] = [key, device.as_bytes(), &epoch.to_be_bytes(), &until, &proofs];
        let label: &[u8] = if resumable.certified { b"session by certificate" } else { b"session" };
        let mut token = mac(&self.cluster, label, &parts);
        token.copy_within(..28, 4);
        token[..4].copy_from_slice(&until);
        token
    }

    /// Validity of the token of a session that begins now with the proof of this Bind.
    pub fn resumable(now: Now, product: &Product, bind: &Bind) -> Resumable {
        let longest = now.unix_s().saturating_add(RESUME_S_MAX);
        let until = match &bind.proof {
            Proof::Token(token) => {
                let until = until_of(token).unwrap_or(0);
                longest.min(u32::try_from(until).unwrap_or(u32::MAX))
            }
            _ => longest,
        };
        Resumable { until, certified: is_certified(product, bind) }
    }

    /// A hash of the product's secrets and accepted proofs; it changes with every rotation.
    fn proofs(&self, product: &Product) -> [u8; 32] {
        let proofs = &product.proofs;
        let flags = [proofs.hmac, proofs.challenge, proofs.certificate, proofs.token];
        let mut mac = self.cluster.clone();
        mac.update(b"proofs");
        mac.update(&[proofs.anonymous as u8, proofs.classic_sign.into()]);
        mac.update(&flags.map(u8::from));
        for secret in &product.secrets {
            mac.update(&secret.key_id.to_be_bytes());
            mac.update(&[secret.bytes.len() as u8]); // at most 64
            mac.update(&secret.bytes);
        }
        mac.finalize().into_bytes().into()
    }

    /// A bearer token: `until.mac`, the first in decimal, the second in hexadecimal digits; or
    /// `until.mac.user`, if a Bind with it gives the device to a user, whose name is in hexadecimal
    /// digits, too.
    pub fn bearer_token(
        &self,
        product: &str,
        device: &str,
        user: Option<&DeviceUser>,
        until: u64,
    ) -> String {
        let until = until.to_string();
        let parts = [product.as_bytes(), device.as_bytes(), until.as_bytes()];
        let Some(user) = user else {
            let digits = hex::encode(&mac(&self.cluster, b"bearer", &parts));
            return format!("{until}.{digits}");
        };
        let user = user.as_str().as_bytes();
        let parts = [parts[0], parts[1], parts[2], user];
        let digits = hex::encode(&mac(&self.cluster, b"bearer of a user", &parts));
        format!("{until}.{digits}.{}", hex::encode(user))
    }

    fn token_is_good(&self, now: Now, bind: &Bind, token: &[u8]) -> bool {
        self.bearer_is_good(now, &bind.product, &bind.device, token)
    }

    /// Whether a bearer token is a device's, and has not expired.
    pub fn bearer_is_good(
        &self,
        now: Now,
        product: &ProductKey,
        device: &DeviceId,
        token: &[u8],
    ) -> bool {
        let Some(until) = until_of(token) else { return false };
        let (product, device) = (product.as_str(), device.as_str());
        let good = self.bearer_token(product, device, user_in(token).as_ref(), until);
        until >= now.wall_ms / 1_000 && bool::from(good.as_bytes().ct_eq(token))
    }

    /// The user to whom a Bind gives its device: that of its bearer token, if the token is good.
    pub fn user_of_bind(&self, now: Now, product: &Product, bind: &Bind) -> Option<DeviceUser> {
        let Proof::Token(token) = &bind.proof else { return None };
        let user = user_in(token)?;
        (product.proofs.token && self.token_is_good(now, bind, token)).then_some(user)
    }

    fn prove_hmac(&mut self, now: Now, product: &Product, bind: &Bind) -> Proven {
        let Proof::Hmac { key_id, signed, mac, nonce, device_ms, challenged } = &bind.proof else {
            return Proven::No(Refusal::AuthFailed);
        };
        let secret = product.secrets.iter().find(|secret| secret.key_id == *key_id);
        let Some(secret) = secret else { return Proven::No(Refusal::AuthFailed) };
        if product.proofs.challenge && !challenged {
            return Proven::Challenge(self.challenge(now));
        }
        if !bool::from(signature(&secret.bytes, signed).ct_eq(mac)) {
            return Proven::No(Refusal::AuthFailed);
        }
        match challenged {
            true => Proven::Yes,
            // The proof may have been seen by the previous process, so it is challenged. A device
            // whose clock is too far off gets `ClockSkew` from `prove_fresh`.
            false if is_near(now, *device_ms) && *device_ms <= self.began_ms + SKEW_MS_MAX => {
                Proven::Challenge(self.challenge(now))
            }
            false => self.prove_fresh(now, bind, *device_ms, nonce),
        }
    }

    fn prove_classic(&mut self, now: Now, product: &Product, bind: &Bind) -> Proven {
        let Proof::Classic { signed, sign, device_ms } = &bind.proof else {
            return Proven::No(Refusal::AuthFailed);
        };
        let good = |secret: &model::product::Secret| {
            bool::from(signature(&secret.bytes, signed)[..16].ct_eq(&sign[..]))
        };
        match product.secrets.iter().any(good) {
            // The classic proof cannot be challenged, so one is refused that was signed, by the
            // device's own clock, before the start.
            true if *device_ms <= self.began_ms => Proven::No(Refusal::ClockSkew),
            true => self.prove_fresh(now, bind, *device_ms, sign),
            false => Proven::No(Refusal::AuthFailed),
        }
    }

    fn prove_fresh(&mut self, now: Now, bind: &Bind, device_ms: u64, nonce: &[u8]) -> Proven {
        if !is_near(now, device_ms) {
            return Proven::No(Refusal::ClockSkew);
        }
        let (product, device) = (bind.product.as_str(), bind.device.as_str());
        let hash = self.hash_key.of(&[product.as_bytes(), device.as_bytes(), nonce]);
        match self.replay.note(now, hash) {
            Nonce::Fresh => Proven::Yes,
            Nonce::Used => Proven::No(Refusal::Replayed),
            Nonce::NoRoom => Proven::No(Refusal::Busy),
        }
    }

    fn challenge(&mut self, now: Now) -> [u8; 16] {
        self.challenges += 1;
        let parts = [now.wall_ms, now.mono.nanos(), self.challenges].map(u64::to_be_bytes);
        let mac = mac(&self.node, b"challenge", &[&parts[0], &parts[1], &parts[2]]);
        mac[..16].try_into().expect("a MAC has 32 bytes")
    }
}

/// Whether a Bind brings a certificate that proves its device.
fn is_certified(product: &Product, bind: &Bind) -> bool {
    let is_its = |identity: &str| *identity == *bind.device.as_str();
    product.proofs.certificate
        && matches!(&bind.proof, Proof::Certificate(identity) if is_its(identity))
}

fn mac(key: &Hmac<Sha256>, label: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = key.clone();
    mac.update(label);
    for part in parts {
        mac.update(&[part.len() as u8]); // names have at most 64 bytes
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// Whether a device's clock is within [`SKEW_MS_MAX`] of the server's.
fn is_near(now: Now, device_ms: u64) -> bool {
    now.wall_ms.abs_diff(device_ms) <= SKEW_MS_MAX
}

/// The Unix second in front of a bearer token.
fn until_of(token: &[u8]) -> Option<u64> {
    let dot = token.iter().position(|&byte| byte == b'.')?;
    std::str::from_utf8(&token[..dot]).ok()?.parse().ok()
}

/// The user that a bearer token names.
fn user_in(token: &[u8]) -> Option<DeviceUser> {
    let at = token.iter().rposition(|&byte| byte == b'.')?;
    let name =
        std::str::from_utf8(&token[at + 1..]).ok().filter(|_| token[..at].contains(&b'.'))?;
    DeviceUser::parse(std::str::from_utf8(&hex::decode(name)?).ok()?)
}

fn keyed(secret: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(secret).expect("HMAC takes keys of every length")
}

fn signature(secret: &[u8], signed: &[u8]) -> [u8; 32] {
    let mut mac = keyed(secret);
    mac.update(signed);
    mac.finalize().into_bytes().into()
}
