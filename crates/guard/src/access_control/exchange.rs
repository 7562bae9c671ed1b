//! SCRAM-SHA-256 at access control: whose keys, which nonce, and what is remembered between two
//! answers.
//!
//! A name that nobody has is asked for its proof like any other, with a salt that stays the same
//! while the process lives, so that an exchange does not tell who exists.

use super::{AccessControl, Errands, Proof};
use crate::passwords::StoredHash;
use crate::scram::{self, ClientFirst, ITERATIONS_MIN, METHOD, ScramKeys, mac};
use crate::settings::Method;
use base64::prelude::{BASE64_STANDARD, Engine};
use model::ports::access::{Admission, Question};
use model::session::Denial;
use std::sync::atomic::Ordering;

/// Remembered of a client that has said nothing yet.
const SILENT: &[u8] = b"\0";

/// Whose keys are wanted.
enum Found {
    Keys(ScramKeys),
    Nobody,
    /// The answer for now.
    NotYet(Admission),
}

impl AccessControl {
    pub(super) fn exchange(
        &self,
        now_s: u32,
        question: &Question,
        (method, data): (&str, &[u8]),
        errands: &mut dyn Errands,
    ) -> Admission {
        let is_held = self.people().door(question.door).methods.contains(&Method::Scram);
        if method != METHOD || !is_held {
            return Admission::Refused(Denial::BadMethod);
        }
        match question.dialogue.as_deref() {
            None if data.is_empty() => {
                Admission::Continue { data: Box::default(), dialogue: SILENT.into() }
            }
            None | Some(SILENT) => self.begin(now_s, data, errands),
            Some(dialogue) => self.finish(dialogue, data, errands),
        }
    }

    fn begin(&self, now_s: u32, data: &[u8], errands: &mut dyn Errands) -> Admission {
        let Ok(first) = ClientFirst::read(data) else {
            return Admission::Refused(Denial::BadCredentials);
        };
        let (salt, iterations) = match self.scram_keys(&first.user, errands) {
            Found::Keys(keys) => (keys.salt, keys.iterations),
            Found::Nobody => {
                let wanted = self.settings().hashing.scram_iterations.max(ITERATIONS_MIN);
                (self.made_up_salt(&first.user), wanted)
            }
            Found::NotYet(not_yet) => return not_yet,
        };
        let number = self.exchanges.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let nonce = mac(&self.seed, &[b"nonce", &number, &now_s.to_be_bytes(), data]);
        let nonce = BASE64_STANDARD.encode(&nonce[..18]);
        let (data, dialogue) = first.answer(&salt, iterations, &nonce);
        Admission::Continue { data: data.into(), dialogue: dialogue.into() }
    }

    fn finish(&self, dialogue: &[u8], data: &[u8], errands: &mut dyn Errands) -> Admission {
        let refused = Admission::Refused(Denial::BadCredentials);
        let Some(user) = scram::user_of(dialogue) else { return refused };
        match self.scram_keys(&user, errands) {
            Found::Nobody => refused,
            Found::NotYet(not_yet) => not_yet,
            Found::Keys(keys) => match scram::finish(&keys, dialogue, data) {
                Ok(last) => {
                    let (user, data) = (Some(user.into()), Some(last.into()));
                    self.let_in(Proof { user, data, ..Proof::default() }, errands)
                }
                Err(_) => refused,
            },
        }
    }

    /// Those that are kept, or those of a plain password.
    fn scram_keys(&self, user: &str, errands: &mut dyn Errands) -> Found {
        let kept = match self.person(user, errands) {
            Ok(person) => person.map(|person| person.account.kept),
            Err(not_yet) => return Found::NotYet(not_yet),
        };
        match kept.map(|kept| (kept.scram, kept.hash)) {
            Some((Some(keys), _)) => Found::Keys(keys),
            Some((None, Some(StoredHash::Plain(_)))) if !errands.may_hash() => {
                Found::NotYet(Admission::Later)
            }
            Some((None, Some(StoredHash::Plain(password)))) => {
                let salt = self.made_up_salt(user);
                let iterations = self.settings().hashing.scram_iterations.max(ITERATIONS_MIN);
                Found::Keys(ScramKeys::derive(password.as_bytes(), &salt, iterations))
            }
            _ => Found::Nobody,
        }
    }

    fn made_up_salt(&self, user: &str) -> Box<[u8]> {
        mac(&self.seed, &[b"salt", user.as_bytes()])[..16].into()
    }
}
