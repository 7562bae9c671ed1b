//! Encoding of a member of a shared group that may not read all topics of its filter.
//!
//! Its rules are compiled, and shared by the sessions of a process. They travel as bytes that
//! access control writes and reads; the owner of the group compiles them when the member joins.

use crate::peer_message::RestrictedMember;
use crate::session::principals::Principal;
use crate::session::rights::Unknown;
use base::encoding::sample::{Sample, SampleSource};
use base::encoding::{DecodeError, Decoder, Encoder, Encoding};
use model::ports::access::{Access, GrantedAccount, Rules};
use std::sync::Arc;

impl Encoding for RestrictedMember {
    fn encode(&self, to: &mut Encoder) {
        let RestrictedMember { client, principal, .. } = self;
        client.encode(to);
        principal.user.encode(to);
        principal.account.encode(to);
        principal.rules.as_ref().map(|rules| rules.encoded()).encode(to);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<RestrictedMember, DecodeError> {
        let client = Encoding::decode(from)?;
        let user: Option<Arc<str>> = Encoding::decode(from)?;
        let account: Option<GrantedAccount> = Encoding::decode(from)?;
        let encoded: Option<Box<[u8]>> = Encoding::decode(from)?;
        let rules = encoded.is_some().then(|| Arc::new(Unknown) as Arc<dyn Rules>);
        Ok(RestrictedMember { client, principal: Principal { user, rules, account }, encoded })
    }
}

/// The member with its rules compiled, if they came from another process. Rules that cannot be read
/// permit nothing.
pub(crate) fn compiled(
    member: Arc<RestrictedMember>,
    access: &dyn Access,
) -> Arc<RestrictedMember> {
    let Some(encoded) = &member.encoded else { return member };
    let RestrictedMember { client, principal, .. } = &*member;
    let rules = access.rules(encoded).or(principal.rules.clone());
    let principal = Principal { rules, ..principal.clone() };
    Arc::new(RestrictedMember { client: client.clone(), principal, encoded: None })
}

impl Sample for RestrictedMember {
    fn kinds(_: u8) -> usize {
        1
    }

    fn sample(_: usize, from: &mut SampleSource) -> RestrictedMember {
        let (client, user, account) = from.part(0);
        let principal = Principal { user: Some(user), rules: None, account: Some(account) };
        RestrictedMember { client, principal, encoded: None }
    }
}
