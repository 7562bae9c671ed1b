//! Tokens by which a device logs in without its password, at the seam (IM 3.5).
//!
//! A token is sent once, in the answer to its request. At a login the device proves that it has the
//! token by a MAC (draft-schmaus-kitten-sasl-ht), as clients of XMPP do (XEP-0484).

use super::Out;
use super::session::{Session, write_failed};
use crate::codec::client_frame::{LoginFields, TokenRequestFields};
use crate::codec::server_frame::{ServerFrame, TokenFields};
use model::account::AccountAddress;
use model::chat::{
    ChatFault, ChatRequest, FastAnswer, FastBinding, FastOutcome, FastSecret, FastWish, Login,
    Redeeming,
};

/// The method of a login by a token.
pub(super) const METHOD: &str = "HT-SHA-256-NONE";

/// The MAC in the data of a login by a token; `None`: it is malformed, or names another account.
pub(super) fn mac_of(login: &LoginFields<'_>, account: &AccountAddress) -> Option<[u8; 32]> {
    let at = login.data.iter().position(|byte| *byte == 0)?;
    let name = std::str::from_utf8(&login.data[..at]).ok()?;
    let mac = login.data[at + 1..].try_into().ok()?;
    (name == login.name || name == account.as_str()).then_some(mac)
}

/// A login by a token, in the service's words.
pub(super) fn redeeming(login: Login, mac: [u8; 32]) -> ChatRequest {
    let login = Login { method: None, password: None, ..login };
    ChatRequest::Redeem(Box::new(Redeeming {
        agent: login.device.clone(),
        login,
        binding: FastBinding::None,
        bound: Box::default(),
        mac,
        invalidates: false,
    }))
}

impl Session {
    /// The device wants a token, or its tokens revoked.
    pub(super) fn token(&mut self, wish: &TokenRequestFields, out: &mut Out) {
        let (session, number) = (self.session, wish.number);
        let secret = (!wish.revoke).then(|| FastSecret(out.secrets().draw()));
        let binding = FastBinding::None;
        let wish = FastWish { session, number, agent: None, binding, secret };
        self.ask(ChatRequest::Token(Box::new(wish)), out);
    }

    pub(super) fn token_told(&mut self, answer: &FastAnswer, out: &mut Out) {
        let number = answer.number;
        match answer.outcome {
            FastOutcome::Given { secret, until_s } => {
                let token = base::hex::encode(&secret.0);
                let until_ms = u64::from(until_s) * 1_000;
                ServerFrame::Token(TokenFields { number, token: &token, until_ms })
                    .write(out.bytes());
            }
            FastOutcome::Revoked => ServerFrame::Done(number).write(out.bytes()),
            FastOutcome::Denied => write_failed(number, ChatFault::Forbidden, out),
        }
        self.answered(out);
    }
}
