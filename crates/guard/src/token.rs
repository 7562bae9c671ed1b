//! JSON Web Tokens (RFC 7519) in the signed compact form (RFC 7515 7.1), as passwords.
//!
//! Which algorithms a key serves is settled by the key: a public key is never a secret, and `none`
//! is no algorithm (RFC 8725 3.1). It fetches no keys and tells no time. Invariant: claims are
//! looked at by nobody before the signature was found right; a claim that is there and not
//! understood refuses the token.

mod der;
mod keys;

pub use keys::{Keys, SECRET_BYTES_MIN};

use crate::pattern::Pattern;
use crate::rules::{List, RuleLine, UserRules};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use model::ports::access::Who;
use model::ports::users::UserOrder;
use serde_json::Value;

/// Longest token, bytes.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Keys that are tried for one token.
const KEYS_TRIED_MAX: usize = 8;

/// Algorithm by which a token is signed (RFC 7518 3.1, RFC 8037 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Algorithm {
    Hs256,
    Hs384,
    Hs512,
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Algorithm; 12] = [
        Algorithm::Hs256,
        Algorithm::Hs384,
        Algorithm::Hs512,
        Algorithm::Rs256,
        Algorithm::Rs384,
        Algorithm::Rs512,
        Algorithm::Ps256,
        Algorithm::Ps384,
        Algorithm::Ps512,
        Algorithm::Es256,
        Algorithm::Es384,
        Algorithm::EdDsa,
    ];

    /// Its name in tokens and configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Hs256 => "HS256",
            Algorithm::Hs384 => "HS384",
            Algorithm::Hs512 => "HS512",
            Algorithm::Rs256 => "RS256",
            Algorithm::Rs384 => "RS384",
            Algorithm::Rs512 => "RS512",
            Algorithm::Ps256 => "PS256",
            Algorithm::Ps384 => "PS384",
            Algorithm::Ps512 => "PS512",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::EdDsa => "EdDSA",
        }
    }

    /// The one of this name.
    pub fn of(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// Policy for tokens: what they must say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenPolicy {
    /// How it may be signed; empty: as its key allows.
    pub algorithms: Vec<Algorithm>,
    /// Required issuer.
    pub issuer: Option<String>,
    /// Audience that a token must name.
    pub audience: Option<String>,
    /// Seconds by which clocks may differ.
    pub leeway_s: u32,
    /// One without an end is refused.
    pub must_expire: bool,
    /// The claim whose value is the user. Empty: the user is the name that the client gave, if one
    /// of `equal` proves it, and nobody otherwise.
    pub user_claim: String,
    /// Claims that must have this value, with `%c` for the client identifier and `%u` for the name
    /// that the client gave.
    pub equal: Vec<(String, String)>,
    /// The claim with all that the client may do; empty: none is looked at.
    pub acl_claim: String,
    /// Whether unknown keys are fetched.
    pub fetches_keys: bool,
}

impl Default for TokenPolicy {
    fn default() -> Self {
        TokenPolicy {
            algorithms: Vec::new(),
            issuer: None,
            audience: None,
            leeway_s: 30,
            must_expire: true,
            user_claim: "sub".into(),
            equal: Vec::new(),
            acl_claim: "acl".into(),
            fetches_keys: false,
        }
    }
}

/// Reason why a token is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenFault {
    /// Its algorithm is not known or not allowed, or it demands what is not understood.
    Algorithm,
    /// No key is known that could have signed it.
    NoKey,
    /// The signature is wrong.
    Forged,
    /// The token has expired, is not valid yet, or has no expiry where one is required.
    Time,
    /// The token is of another issuer, for another audience, or about another subject.
    Claim,
    /// The token is malformed.
    Malformed,
}

/// Claims of a token about its client.
#[derive(Debug)]
pub struct Claims {
    /// User that it names.
    pub user: Option<Box<str>>,
    /// All that it may do, for [`acl`].
    pub acl: Option<Value>,
    /// Unix second until which the claims hold; 0: for good.
    pub until_s: u32,
}

/// A token, taken apart and not yet believed.
pub struct Signed<'a> {
    algorithm: Option<Algorithm>,
    kid: Option<Box<str>>,
    /// Header and claims as they were signed.
    signed: &'a str,
    claims: &'a str,
    signature: Vec<u8>,
}

impl<'a> Signed<'a> {
    /// Takes a token apart; `None`: this is none, but a password perhaps.
    pub fn read(text: &'a str) -> Option<Signed<'a>> {
        if text.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header = decode(header)?;
        let name = header.get("alg")?.as_str()?;
        // What is `crit` must be understood, and nothing here is (RFC 7515 4.1.11).
        let is_plain = header.get("crit").is_none();
        let kid = match header.get("kid") {
            Some(kid) => Some(kid.as_str()?.into()),
            None => None,
        };
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        let algorithm = Algorithm::of(name).filter(|_| is_plain);
        Some(Signed { algorithm, kid, signed, claims, signature })
    }

    /// Whether one of the keys signed it.
    pub fn verify(&self, policy: &TokenPolicy, keys: &[&Keys]) -> Result<(), TokenFault> {
        let algorithm = self.algorithm.ok_or(TokenFault::Algorithm)?;
        if !policy.algorithms.is_empty() && !policy.algorithms.contains(&algorithm) {
            return Err(TokenFault::Algorithm);
        }
        let all = keys.iter().flat_map(|keys| keys.iter());
        let could = all.filter(|key| key.could_sign(algorithm, self.kid.as_deref()));
        let mut fault = TokenFault::NoKey;
        for key in could.take(KEYS_TRIED_MAX) {
            if key.signed(algorithm, self.signed.as_bytes(), &self.signature) {
                return Ok(());
            }
            // A key without a name may just be another one than the token's.
            if self.kid.is_none() || key.has_kid() {
                fault = TokenFault::Forged;
            }
        }
        Err(fault)
    }

    /// Its claims, if they hold now and for this client. To be asked after [`Signed::verify`].
    pub fn claims(
        &self,
        policy: &TokenPolicy,
        now_s: u32,
        who: &Who<'_>,
    ) -> Result<Claims, TokenFault> {
        let claims = decode(self.claims).ok_or(TokenFault::Malformed)?;
        let until_s = end(policy, now_s, &claims)?;
        let is_text =
            |name: &str, wanted: &str| claims.get(name).and_then(Value::as_str) == Some(wanted);
        if policy.issuer.as_ref().is_some_and(|issuer| !is_text("iss", issuer)) {
            return Err(TokenFault::Claim);
        }
        if policy.audience.as_ref().is_some_and(|audience| !is_for(&claims, audience)) {
            return Err(TokenFault::Claim);
        }
        for (name, value) in &policy.equal {
            let wanted = fill(value, who).ok_or(TokenFault::Claim)?;
            if !is_text(name, &wanted) {
                return Err(TokenFault::Claim);
            }
        }
        let acl = match &*policy.acl_claim {
            "" => None,
            name => claims.get(name).filter(|acl| !acl.is_null()).cloned(),
        };
        Ok(Claims { user: user(policy, &claims, who)?, acl, until_s })
    }
}

/// The rules that a claim says: `{"publish":[…],"subscribe":[…],"all":[…]}`, each a list of
/// filters with `%c` and `%u`. They are all that the client may do.
pub fn acl(claim: &Value) -> Option<UserRules> {
    let mut lines = Vec::new();
    for (act, filters) in claim.as_object()? {
        let (publish, read) = match act.as_str() {
            "publish" | "pub" => (true, false),
            "subscribe" | "sub" => (false, true),
            "all" => (true, true),
            _ => return None,
        };
        for filter in filters.as_array()? {
            let pattern = Pattern::parse(filter.as_str()?).ok()?;
            lines.push(RuleLine { allow: true, publish, read, pattern });
        }
    }
    (lines.len() <= UserOrder::RULES_MAX).then(|| UserRules::fixed(List::new(lines)))
}

/// A part of a token: an object, in base64.
fn decode(part: &str) -> Option<Value> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(part).ok()?;
    serde_json::from_slice(&bytes).ok().filter(Value::is_object)
}

/// When it is over, 0 for never, if it is good now (RFC 7519 4.1.4 to 4.1.6).
fn end(policy: &TokenPolicy, now_s: u32, claims: &Value) -> Result<u32, TokenFault> {
    let second = |name| match claims.get(name) {
        None => Ok(None),
        Some(value) => match value.as_f64() {
            Some(second) if second.is_finite() => Ok(Some(second)),
            _ => Err(TokenFault::Malformed),
        },
    };
    let (now, leeway) = (f64::from(now_s), f64::from(policy.leeway_s));
    for begin in ["nbf", "iat"] {
        if second(begin)?.is_some_and(|begin| now + leeway < begin) {
            return Err(TokenFault::Time);
        }
    }
    match second("exp")? {
        Some(end) if now >= end + leeway => Err(TokenFault::Time),
        // As of a float: what is above the range is its highest value.
        Some(end) => Ok((end + leeway) as u32),
        None if policy.must_expire => Err(TokenFault::Time),
        None => Ok(0),
    }
}

fn is_for(claims: &Value, audience: &str) -> bool {
    match claims.get("aud") {
        Some(Value::String(one)) => one == audience,
        Some(Value::Array(all)) => all.iter().any(|one| one.as_str() == Some(audience)),
        _ => false,
    }
}

/// A value with names put in; `None`: there is no such name.
fn fill(value: &str, who: &Who<'_>) -> Option<String> {
    let named = value.contains("%u");
    if named && who.user.is_none() {
        return None;
    }
    let mut filled = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.find('%') {
        let (before, behind) = rest.split_at(at);
        filled += before;
        let (name, taken) = match behind.get(..2) {
            Some("%c") => (who.client_id, 2),
            Some("%u") => (who.user.unwrap_or_default(), 2),
            _ => ("%", 1),
        };
        filled += name;
        rest = &behind[taken..];
    }
    Some(filled + rest)
}

fn user(
    policy: &TokenPolicy,
    claims: &Value,
    who: &Who<'_>,
) -> Result<Option<Box<str>>, TokenFault> {
    if policy.user_claim.is_empty() {
        let is_proved = policy.equal.iter().any(|(_, value)| value.contains("%u"));
        return Ok(who.user.filter(|_| is_proved).map(Box::from));
    }
    let name = claims.get(&policy.user_claim).and_then(Value::as_str).ok_or(TokenFault::Claim)?;
    let is_name = (1..=UserOrder::NAME_BYTES_MAX).contains(&name.len());
    let is_name = is_name && !name.chars().any(char::is_control);
    is_name.then(|| Some(name.into())).ok_or(TokenFault::Claim)
}

#[cfg(test)]
mod tests;
