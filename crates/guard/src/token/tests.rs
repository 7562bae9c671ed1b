//! Tokens of the standards and of another library, and every way to bend them.

use super::*;
use model::ports::access::{Act, Reach, Rules};
use serde_json::json;

/// Tokens and keys made by Python's `cryptography`.
const VECTORS: &str = include_str!("vectors.json");
const NOW_S: u32 = 1_700_000_000;
const WHO: Who<'_> = Who { client_id: "d7", user: Some("login") };

/// RFC 7515 A.1.1 and A.3.1, with the claims of both.
const RFC_HS256: &str = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzM\
DA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gF\
WFOEjXk";
const RFC_ES256: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0d\
HA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djx\
La8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
const RFC_KEYS: &str = r#"{"keys":[{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1q
S0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"},{"kty":"EC","crv":"P-256",
"x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
"y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;

fn vectors() -> Value {
    serde_json::from_str(VECTORS).expect("JSON")
}

fn set(vectors: &Value) -> Keys {
    let mut keys = Keys::default();
    keys.add_set(&vectors["jwks"].to_string()).expect("keys");
    keys.add_secret(vectors["secret"].as_str().expect("text").as_bytes()).expect("long enough");
    keys
}

fn token(vectors: &Value, algorithm: &str) -> String {
    let tokens = vectors["tokens"].as_array().expect("a list");
    let found = tokens.iter().find(|token| token["alg"] == algorithm).expect("made");
    found["token"].as_str().expect("text").into()
}

fn verify(token: &str, keys: &Keys) -> Result<(), TokenFault> {
    Signed::read(token).expect("a token").verify(&TokenPolicy::default(), &[keys])
}

fn claims(token: &str, policy: &TokenPolicy, now_s: u32) -> Result<Claims, TokenFault> {
    Signed::read(token).expect("a token").claims(policy, now_s, &WHO)
}

/// A token whose signature nobody looked at.
fn unsigned(claims: &Value) -> String {
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.AA", part(&json!({"alg": "HS256"})), part(claims))
}

#[test]
fn the_standards_own_tokens_are_right() {
    let mut keys = Keys::default();
    keys.add_set(&RFC_KEYS.replace('\n', "")).expect("keys");
    let policy = TokenPolicy { user_claim: "iss".into(), ..TokenPolicy::default() };
    for token in [RFC_HS256, RFC_ES256] {
        assert_eq!(verify(token, &keys), Ok(()));
        let said = claims(token, &policy, 1_300_819_379).expect("good then");
        assert_eq!((said.user.as_deref(), said.until_s), (Some("joe"), 1_300_819_410));
    }
}

#[test]
fn every_algorithm_is_verified_and_every_changed_token_is_not() {
    let vectors = vectors();
    let keys = set(&vectors);
    assert_eq!(keys.len(), 5, "one for encryption and one of another curve are left out");
    for algorithm in Algorithm::ALL {
        let token = token(&vectors, algorithm.name());
        assert_eq!(verify(&token, &keys), Ok(()), "{algorithm:?}");
        let only = TokenPolicy { algorithms: vec![algorithm], ..TokenPolicy::default() };
        let signed = Signed::read(&token).expect("a token");
        assert_eq!(signed.verify(&only, &[&Keys::default(), &keys]), Ok(()));
        let others = Algorithm::ALL.into_iter().filter(|other| *other != algorithm).collect();
        let others = TokenPolicy { algorithms: others, ..TokenPolicy::default() };
        assert_eq!(signed.verify(&others, &[&keys]), Err(TokenFault::Algorithm));
        for at in (0..token.len() - 1).step_by(7).filter(|&at| token.as_bytes()[at] != b'.') {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let bent = String::from_utf8(bytes).expect("text");
            let is_refused = Signed::read(&bent)
                .is_none_or(|signed| signed.verify(&TokenPolicy::default(), &[&keys]).is_err());
            assert!(is_refused, "{algorithm:?} {at}");
        }
        let (signed, _) = token.rsplit_once('.').expect("three parts");
        assert!(verify(&format!("{signed}."), &keys).is_err());
    }
}

#[test]
fn keys_are_read_from_files() {
    let vectors = vectors();
    for (name, algorithm) in
        [("rsa", "RS256"), ("rsa1", "PS384"), ("e256", "ES256"), ("e384", "ES384"), ("ed", "EdDSA")]
    {
        let mut keys = Keys::default();
        keys.add_pem(vectors["pems"][name].as_str().expect("text")).expect("a key");
        assert_eq!(verify(&token(&vectors, algorithm), &keys), Ok(()), "{name}");
        // A key without a name may not be the token's: another may have to be fetched.
        let hs = token(&vectors, "HS256");
        assert_eq!(verify(&hs, &keys), Err(TokenFault::NoKey));
    }
    let mut keys = Keys::default();
    let weak = keys.add_pem(vectors["weak"].as_str().expect("text"));
    assert!(weak.is_err_and(|words| words.contains("1024 bits")));
    for text in [
        "",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----",
    ] {
        assert!(keys.add_pem(text).is_err());
    }
    for text in ["", "{}", "{\"keys\":[]}", "{\"keys\":{}}", "{\"kty\":\"oct\",\"k\":\"AAAA\"}"] {
        assert!(keys.add_set(text).is_err(), "{text}");
    }
    assert!(keys.is_empty());
}

#[test]
fn a_public_key_is_no_secret_and_no_signature_is_none() {
    let vectors = vectors();
    let mut keys = Keys::default();
    let pem = vectors["pems"]["rsa"].as_str().expect("text");
    assert!(keys.add_secret(pem.as_bytes()).is_err() && keys.add_secret(b"short").is_err());
    keys.add_pem(pem).expect("a key");
    let part = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let confused = format!("{}.{}", part(json!({"alg": "HS256"})), part(vectors["claims"].clone()));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, pem.as_bytes());
    let tag = BASE64_URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, confused.as_bytes()));
    assert_eq!(verify(&format!("{confused}.{tag}"), &keys), Err(TokenFault::NoKey));
    for header in
        [json!({"alg": "none"}), json!({"alg": "None"}), json!({"alg": "RS256", "crit": ["exp"]})]
    {
        let token = format!("{}.{}.", part(header), part(vectors["claims"].clone()));
        assert_eq!(verify(&token, &keys), Err(TokenFault::Algorithm));
    }
}

#[test]
fn a_key_is_found_by_its_name() {
    let (vectors, keys) = (vectors(), set(&vectors()));
    let tokens = vectors["tokens"].as_array().expect("a list");
    for kid in ["r9", "enc"] {
        let token = tokens.iter().find(|token| token["kid"] == kid).expect("made");
        let token = token["token"].as_str().expect("text");
        assert_eq!(verify(token, &keys), Err(TokenFault::NoKey), "{kid}");
    }
    let mut wrong = Keys::default();
    let other = vectors["jwks"].to_string().replace("\"e1\"", "\"x1\"").replace("\"r1\"", "\"e1\"");
    wrong.add_set(&other).expect("keys");
    let token = token(&vectors, "ES256");
    assert_eq!(verify(&token, &wrong), Err(TokenFault::NoKey), "its name is another kind's");
}

#[test]
fn what_is_no_token_is_a_password() {
    for text in
        ["", "secret", "a.b.c", "..", "eyJhbGciOiJub25lIn0", "e30.e30.AA", &"a".repeat(20_000)]
    {
        assert!(Signed::read(text).is_none(), "{text}");
    }
}

#[test]
fn a_token_is_good_for_its_time() {
    let policy = TokenPolicy::default();
    let at =
        |claims_of: Value, now_s| claims(&unsigned(&claims_of), &policy, now_s).map(|c| c.until_s);
    let exp = || json!({"sub": "a", "exp": 1_000});
    assert_eq!(at(exp(), 1_029), Ok(1_030));
    assert_eq!(at(exp(), 1_030), Err(TokenFault::Time));
    assert_eq!(at(json!({"sub": "a", "exp": 1_000.5}), 1_030), Ok(1_030));
    for begin in ["nbf", "iat"] {
        let claims = || json!({"sub": "a", "exp": 9_000, begin: 1_000});
        assert_eq!(at(claims(), 969), Err(TokenFault::Time));
        assert_eq!(at(claims(), 970), Ok(9_030));
    }
    assert_eq!(at(json!({"sub": "a"}), 5), Err(TokenFault::Time), "without an end");
    for end in [json!("1000"), json!(null), json!([])] {
        assert_eq!(at(json!({"sub": "a", "exp": end}), 5), Err(TokenFault::Malformed));
    }
    assert_eq!(at(json!({"sub": "a", "exp": 1e300}), 5), Ok(u32::MAX));
    let policy = TokenPolicy { must_expire: false, ..policy };
    let said = claims(&unsigned(&json!({"sub": "a"})), &policy, 5);
    assert_eq!(said.map(|claims| claims.until_s), Ok(0));
}

impl PartialEq for Claims {
    fn eq(&self, other: &Claims) -> bool {
        (&self.user, &self.acl, self.until_s) == (&other.user, &other.acl, other.until_s)
    }
}

#[test]
fn a_token_is_about_its_client() {
    let vectors = vectors();
    let token = token(&vectors, "RS256");
    let policy = TokenPolicy {
        issuer: Some("https://id.example".into()),
        audience: Some("mqtt".into()),
        equal: vec![("client_id".into(), "%c".into()), ("name".into(), "%u".into())],
        ..TokenPolicy::default()
    };
    let said = claims(&token, &policy, NOW_S).expect("it is");
    assert_eq!((said.user.as_deref(), said.until_s), (Some("ann"), 1_700_000_630));
    let wrong = [
        TokenPolicy { issuer: Some("https://id.example/".into()), ..policy.clone() },
        TokenPolicy { audience: Some("mqt".into()), ..policy.clone() },
        TokenPolicy { equal: vec![("client_id".into(), "x-%c".into())], ..policy.clone() },
        TokenPolicy { equal: vec![("missing".into(), "%c".into())], ..policy.clone() },
        TokenPolicy { user_claim: "aud".into(), ..policy.clone() },
        TokenPolicy { user_claim: "missing".into(), ..policy.clone() },
    ];
    for policy in wrong {
        assert_eq!(claims(&token, &policy, NOW_S), Err(TokenFault::Claim), "{policy:?}");
    }
    let nobody = Who { user: None, ..WHO };
    let signed = Signed::read(&token).expect("a token");
    assert_eq!(signed.claims(&policy, NOW_S, &nobody), Err(TokenFault::Claim));
    let user = |policy: &TokenPolicy| claims(&token, policy, NOW_S).expect("right").user;
    let by_name = TokenPolicy { user_claim: String::new(), ..policy };
    assert_eq!(user(&by_name).as_deref(), Some("login"), "the token proves the name");
    let unproved = TokenPolicy { equal: vec![], ..by_name };
    assert_eq!(user(&unproved), None);
}

#[test]
fn a_claim_says_all_that_may_be_done() {
    let vectors = vectors();
    let said = claims(&token(&vectors, "ES256"), &TokenPolicy::default(), NOW_S).expect("right");
    let rules = acl(&said.acl.expect("there")).expect("rules");
    let who = Who { client_id: "d7", user: Some("ann") };
    assert!(rules.fixed() && rules.may(&who, Act::Publish, "dev/d7/out"));
    assert!(!rules.may(&who, Act::Publish, "dev/d7/in") && rules.may(&who, Act::Read, "dev/d7/in"));
    assert!(rules.may(&who, Act::Publish, "chat/ann") && !rules.may(&who, Act::Read, "chat/bob"));
    assert_eq!(rules.reach(&who, "dev/d7/#"), Reach::All);
    assert_eq!(rules.reach(&who, "$SYS/#"), Reach::Partly);
    assert!(acl(&json!({"pub": ["a"], "sub": ["b"]})).is_some());
    for claim in [
        json!([]),
        json!("a"),
        json!({"publish": "a"}),
        json!({"publish": [1]}),
        json!({"publish": ["a#"]}),
        json!({"other": []}),
        json!({"all": vec!["a"; 257]}),
    ] {
        assert!(acl(&claim).is_none(), "{claim}");
    }
    let without = TokenPolicy { acl_claim: String::new(), ..TokenPolicy::default() };
    let said = claims(&token(&vectors, "ES256"), &without, NOW_S).expect("right");
    assert!(said.acl.is_none());
}

#[test]
fn a_token_of_the_longest_length_is_read_and_one_byte_more_is_none() {
    let sized = |bytes: usize| {
        let short = unsigned(&json!({"x": ""}));
        let pad = "x".repeat((bytes - short.len()) / 4 * 3);
        let token = unsigned(&json!({"x": pad}));
        let missing = bytes - token.len();
        token + &"A".repeat(missing)
    };
    assert_eq!(sized(TOKEN_BYTES_MAX).len(), TOKEN_BYTES_MAX);
    assert!(Signed::read(&sized(TOKEN_BYTES_MAX)).is_some());
    assert!((1..=4).all(|more| Signed::read(&sized(TOKEN_BYTES_MAX + more)).is_none()));
}

#[test]
fn so_many_keys_are_tried_and_no_more() {
    let vectors = vectors();
    let token = token(&vectors, "HS256");
    let secret = vectors["secret"].as_str().expect("text").as_bytes();
    let behind = |others: usize| {
        let mut keys = Keys::default();
        for at in 0..others {
            keys.add_secret(&[at as u8; SECRET_BYTES_MIN]).expect("long enough");
        }
        keys.add_secret(secret).expect("long enough");
        verify(&token, &keys).is_ok()
    };
    assert!(behind(KEYS_TRIED_MAX - 1));
    assert!(!behind(KEYS_TRIED_MAX));
}

#[test]
fn a_set_gives_so_many_keys_and_no_more() {
    let counts = [64, 65, 200].map(|count| {
        let key = json!({"kty": "oct", "k": "A".repeat(64)});
        let mut keys = Keys::default();
        keys.add_set(&json!({"keys": vec![key; count]}).to_string()).expect("keys");
        keys.len()
    });
    assert_eq!(counts, [64, 64, 64]);
}

#[test]
fn a_claim_has_so_many_rules_and_no_more() {
    let rules = |count| json!({"all": vec!["a"; count]});
    assert!(acl(&rules(UserOrder::RULES_MAX)).is_some());
    assert!(acl(&rules(UserOrder::RULES_MAX + 1)).is_none());
}

#[test]
fn a_user_of_the_longest_name_is_taken_and_one_byte_more_is_not() {
    let policy = TokenPolicy { must_expire: false, ..TokenPolicy::default() };
    let named = |bytes: usize| {
        let token = unsigned(&json!({"sub": "u".repeat(bytes)}));
        claims(&token, &policy, NOW_S).is_ok()
    };
    let most = UserOrder::NAME_BYTES_MAX;
    assert_eq!([0, 1, most, most + 1].map(named), [false, true, true, false]);
}
