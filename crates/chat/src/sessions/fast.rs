//! Tokens by which devices log in again without a password (XEP-0484).
//!
//! ```text
//! Token ──► the account's tokens are read ─► one more row ─► stored ─► sent
//! Token, without a secret ──► the device's row is deleted ──► revoked
//! Redeem ─► the device's row is read ─► MAC, time, epoch are valid ─► logged in, as by password
//! ```
//! A device has a row at its account's home, with its last token and the one before: that stays
//! valid until the newer one is used, since the answer with the newer one may have been lost. A row
//! has the epoch of the account at which it was written, so an event that ends the account's
//! sessions also ends its tokens. Invariant: a token is sent when it is on stable storage.
//!
//! ```text
//! version u8 | uid u64 | epoch u64 | of one or two tokens, the older first:
//!     binding u8 | given u32, good until u32 (Unix seconds) | secret 32
//! ```

use crate::service::flow::Flow;
use crate::sessions::login::LetIn;
use crate::sessions::{Requester, login};
use crate::{Chat, Effects};
use base::bytes::ByteReader;
use base::hex;
use base::time::Now;
use hmac::{Hmac, KeyInit, Mac};
use model::account::AccountAddress;
use model::chat::{
    ChatDelivery, FAST_AGENT_BYTES_MAX, FastAnswer, FastBinding, FastOutcome, FastSecret, FastWish,
    Login, Redeeming,
};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef};
use model::ports::access::{Grant, GrantedAccount, Who};
use model::ports::log::{Call, Done, ROWS_MAX, Read, Row, RowHome, Table, Write};
use model::session::Denial;
use sha2::Sha256;

const VERSION: u8 = 1;

/// Tokens of one device: the newest, and the one before it until the newest is used.
const KEPT_MAX: usize = 2;

/// Tokens of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Tokens {
    account: GrantedAccount,
    /// The older first.
    tokens: Vec<Token>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Token {
    binding: FastBinding,
    given_s: u32,
    until_s: u32,
    secret: FastSecret,
}

impl Tokens {
    fn encode(&self) -> Box<[u8]> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.account.uid.to_le_bytes());
        bytes.extend_from_slice(&self.account.epoch.to_le_bytes());
        for token in &self.tokens {
            bytes.push(token.binding as u8);
            bytes.extend_from_slice(&token.given_s.to_le_bytes());
            bytes.extend_from_slice(&token.until_s.to_le_bytes());
            bytes.extend_from_slice(&token.secret.0);
        }
        bytes.into()
    }

    fn decode(value: &[u8]) -> Option<Tokens> {
        let mut bytes = ByteReader::of(VERSION, value)?;
        let account = GrantedAccount { uid: bytes.u64()?, epoch: bytes.u64()? };
        let mut tokens = Vec::new();
        while tokens.len() < KEPT_MAX
            && let Some(binding) = bytes.byte()
        {
            let binding = FastBinding::ALL.into_iter().find(|it| *it as u8 == binding)?;
            let (given_s, until_s) = (bytes.u32()?, bytes.u32()?);
            let secret = FastSecret(bytes.take(32)?.try_into().ok()?);
            tokens.push(Token { binding, given_s, until_s, secret });
        }
        bytes.ends(Tokens { account, tokens }).filter(|it| !it.tokens.is_empty())
    }

    /// Time at which the device's last token was issued, Unix seconds.
    fn given_s(&self) -> u32 {
        self.tokens.last().map_or(0, |it| it.given_s)
    }

    /// Index of the token that the client has shown.
    fn shown(&self, now_s: u32, redeeming: &Redeeming) -> Option<usize> {
        self.tokens.iter().position(|token| {
            let is_good = token.until_s > now_s && token.binding == redeeming.binding;
            let mac = mac(&token.secret, b"Initiator", &redeeming.bound);
            mac.verify_slice(&redeeming.mac).is_ok() && is_good
        })
    }
}

/// The MAC that proves possession of a token (draft-schmaus-kitten-sasl-ht); it is compared in
/// constant time. Its key is the token as the client has it: hexadecimal.
fn mac(secret: &FastSecret, label: &[u8], bound: &[u8]) -> Hmac<Sha256> {
    let key = Hmac::<Sha256>::new_from_slice(hex::encode(&secret.0).as_bytes());
    let mut mac = key.expect("HMAC takes keys of every length");
    mac.update(label);
    mac.update(bound);
    mac
}

/// Logs a device in by a token.
async fn redeem(mut flow: Flow, conn: ConnRef, redeeming: Redeeming) {
    let (chat, _, _) = flow.state();
    let (table, login) = (Table::ChatTokens, &redeeming.login);
    let key = chat.token_key(&login.account, &redeeming.agent);
    let row = flow.log(Call::Read(Read::Row { table, key })).await;
    let (chat, now, fx) = flow.state();
    let let_in = match row {
        Ok(Done::Row(row)) => chat.let_in_by_token(now, (conn, redeeming), row, fx),
        _ => Err(Box::new((redeeming.login, Denial::Unavailable))),
    };
    match let_in {
        Ok(let_in) => login::enter(flow, let_in).await,
        Err(refused) => chat.turn_away(&refused.0, conn, refused.1, fx),
    }
}

/// Issues a token to a device, or revokes its tokens.
async fn token(mut flow: Flow, wait: Requester, wish: FastWish) {
    let outcome = token_of(&mut flow, wait, wish).await.unwrap_or(FastOutcome::Denied);
    let (chat, _, fx) = flow.state();
    chat.answer_token(wait, outcome, fx);
}

async fn token_of(flow: &mut Flow, wait: Requester, wish: FastWish) -> Option<FastOutcome> {
    let (chat, _, _) = flow.state();
    let asker = chat.asker(wait.conn, wait.session)?;
    let FastWish { session, agent, binding, secret, .. } = wish;
    let agent = agent.unwrap_or(asker.device);
    let is_agent = (1..=FAST_AGENT_BYTES_MAX).contains(&agent.len());
    if !is_agent || !chat.log.may_ask() {
        return None;
    }
    let (table, key) = (Table::ChatTokens, chat.token_key(&asker.address, &agent));
    let Some(secret) = secret else {
        let deleted = flow.log(Call::Write(Write::Delete { table, key })).await;
        return deleted.is_ok().then_some(FastOutcome::Revoked);
    };
    let is_given = chat.settings.limits.chat.fast_token_s_max > 0;
    chat.account_of_token(session).filter(|_| is_given)?;
    let prefix = chat.tokens_key(&asker.address, b"");
    let read = Read::Rows { table, prefix, after: None, count: ROWS_MAX };
    let Ok(Done::Rows(rows)) = flow.log(Call::Read(read)).await else { return None };
    let (chat, now, fx) = flow.state();
    // The session may have ended meanwhile, or belong to another account of the book.
    chat.asker(wait.conn, wait.session)?;
    let account = chat.account_of_token(session)?;
    let given_s = now.unix_s();
    let until_s = given_s.saturating_add(chat.settings.limits.chat.fast_token_s_max);
    let token = Token { binding, given_s, until_s, secret };
    let write = chat.one_more_token((key, account), (rows, token), fx);
    let stored = flow.log(Call::Write(write)).await;
    stored.is_ok().then_some(FastOutcome::Given { secret, until_s })
}

impl Chat {
    pub(crate) fn tokens_key(&self, address: &AccountAddress, agent: &[u8]) -> Box<[u8]> {
        let home = RowHome::at(address.home_hash(self.settings.home));
        home.key(&[address.as_str().as_bytes(), &[0], agent])
    }

    /// The key of a device's row: a hash of 8 bytes stands for the client's id, whatever its
    /// length.
    fn token_key(&self, address: &AccountAddress, agent: &str) -> Box<[u8]> {
        let agent = self.settings.home.of(&[b"fast", agent.as_bytes()]);
        self.tokens_key(address, &agent.to_be_bytes())
    }

    /// Begins a login by a token.
    pub(crate) fn redeem(
        &mut self,
        now: Now,
        conn: ConnRef,
        redeeming: Redeeming,
        fx: &mut Effects,
    ) {
        if !self.may_try(now, conn, &redeeming.login, fx) {
            return;
        }
        if !self.settings.access.takes_passwords(redeeming.login.door) {
            // A token stands for a password, so it is refused where passwords are.
            fx.counters.count(ChatCounter::TokensRefused);
            return self.turn_away(&redeeming.login, conn, Denial::BadMethod, fx);
        }
        if !self.log.may_ask() || self.flows.is_full() {
            return self.turn_away(&redeeming.login, conn, Denial::Busy, fx);
        }
        self.begin(|flow| redeem(flow, conn, redeeming));
    }

    /// Checks the token that a device has shown against its row, and grants the login.
    fn let_in_by_token(
        &mut self,
        now: Now,
        (conn, redeeming): (ConnRef, Redeeming),
        row: Option<Box<[u8]>>,
        fx: &mut Effects,
    ) -> Result<LetIn, Box<(Login, Denial)>> {
        let tokens = row.as_deref().and_then(Tokens::decode);
        let shown = tokens.as_ref().and_then(|it| it.shown(now.unix_s(), &redeeming));
        let user = self.settings.user_of(&redeeming.login.account).to_owned();
        let who = Who { client_id: "", user: Some(&user) };
        let access = &self.settings.access;
        let holds = |it: &Tokens| access.holds(&user, Some(it.account));
        let renewed = access.renew(&who);
        let until_s = renewed.map_or(0, |grant| grant.until_s);
        let is_over = until_s != 0 && until_s <= now.unix_s();
        let version = access.version();
        let (Some(mut tokens), Some(at)) = (tokens.filter(|it| holds(it) && !is_over), shown)
        else {
            fx.counters.count(ChatCounter::TokensRefused);
            return Err(Box::new((redeeming.login, Denial::BadCredentials)));
        };
        let mac = mac(&tokens.tokens[at].secret, b"Responder", &redeeming.bound);
        let data = Some(mac.finalize().into_bytes().as_slice().into());
        let key = self.token_key(&redeeming.login.account, &redeeming.agent);
        let (table, account) = (Table::ChatTokens, Some(tokens.account));
        if redeeming.invalidates {
            self.log.write(Write::Delete { table, key }, fx);
        } else if at > 0 {
            // The newer token has arrived: the older one is not valid any more.
            tokens.tokens.drain(..at);
            self.log.write(Write::Put { table, key, value: tokens.encode() }, fx);
        }
        let (user, by_password) = (Some(user.into()), true);
        let grant = Grant { user, rules: None, until_s, account, by_password };
        match self.owner_of_login(&redeeming.login, &grant) {
            Some(owner) => {
                let login = Box::new(redeeming.login);
                Ok(LetIn { conn, login, grant, owner, version, data })
            }
            None => Err(Box::new((redeeming.login, Denial::BadCredentials))),
        }
    }

    /// Handles a device's request for a token, or to revoke its tokens.
    pub(crate) fn wants_token(&mut self, from: ConnRef, wish: FastWish, fx: &mut Effects) {
        let wait = Requester { conn: from, session: wish.session, number: wish.number };
        if self.asker(from, wish.session).is_some() && !self.begin(|flow| token(flow, wait, wish)) {
            self.answer_token(wait, FastOutcome::Denied, fx);
        }
    }

    /// The book's account of a session that logged in by a password and has unlimited rights: other
    /// proofs have to be given each time.
    fn account_of_token(&self, session: SessionRef) -> Option<GrantedAccount> {
        let session = self.sessions.slab.at(session.key())?;
        session.account.filter(|_| session.until_s == 0 && session.by_password)
    }

    /// Adds a token to those of an account; returns the write of its row. Rows beyond the limit of
    /// devices are deleted.
    fn one_more_token(
        &mut self,
        (key, account): (Box<[u8]>, GrantedAccount),
        (rows, token): (Vec<Row>, Token),
        fx: &mut Effects,
    ) -> Write {
        let table = Table::ChatTokens;
        let mut own = Tokens { account, tokens: Vec::new() };
        let mut others = Vec::new();
        for (of, value) in rows {
            let tokens = Tokens::decode(&value);
            match tokens {
                Some(tokens) if of == key => own.tokens = tokens.tokens_of(account),
                // Rows that cannot be read, or are of another epoch, are deleted first.
                tokens => {
                    let tokens = tokens.filter(|it| it.account == account);
                    others.push((tokens.map_or(0, |it| it.given_s()), of));
                }
            }
        }
        let most = usize::from(self.settings.limits.chat.fast_devices_an_account_max);
        others.sort_unstable();
        let too_many = (others.len() + 1).saturating_sub(most);
        for (_, key) in others.into_iter().take(too_many) {
            self.log.write(Write::Delete { table, key }, fx);
        }
        if own.tokens.len() >= KEPT_MAX {
            own.tokens.remove(0);
        }
        own.tokens.push(token);
        Write::Put { table, key, value: own.encode() }
    }

    /// Answers a request for a token, whose outcome is stored by now.
    fn answer_token(&mut self, wait: Requester, outcome: FastOutcome, fx: &mut Effects) {
        if matches!(outcome, FastOutcome::Given { .. }) {
            fx.counters.count(ChatCounter::TokensGiven);
        }
        let Requester { conn, session, number } = wait;
        let answer = Box::new(FastAnswer { number, outcome });
        self.answer_session((conn, session), ChatDelivery::Token(answer), fx);
    }
}

impl Tokens {
    /// The tokens, if they were issued in this epoch of the account.
    fn tokens_of(self, account: GrantedAccount) -> Vec<Token> {
        if self.account == account { self.tokens } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let token = |byte, binding| Token {
            binding,
            given_s: 7,
            until_s: 9,
            secret: FastSecret([byte; 32]),
        };
        let account = GrantedAccount { uid: 1 << 40, epoch: 3 };
        for count in 1..=KEPT_MAX {
            let all = [token(1, FastBinding::Exporter), token(2, FastBinding::None)];
            let row = Tokens { account, tokens: all[..count].to_vec() };
            let value = row.encode();
            assert_eq!(Tokens::decode(&value), Some(row));
            for end in 0..value.len() {
                let is_one = end == 17 + 41;
                assert_eq!(Tokens::decode(&value[..end]).is_some(), is_one && count == 2, "{end}");
            }
        }
        assert_eq!(Tokens::decode(&[VERSION; 100]), None);
    }
}
