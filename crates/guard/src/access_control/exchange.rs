//! SCRAM-SHA-256 at access control: whose keys, which nonce, what it is bound to, and what is
//! remembered between two answers.
//!
//! A name that nobody has is asked for its proof like any other, with a salt that stays the same
//! while the process lives, so that an exchange does not tell who exists.

use super::{AccessControl, Errands, Proof};
use crate::passwords::StoredHash;
use crate::scram::{
    self, Binding, ClientFirst, ITERATIONS_MIN, METHOD, METHOD_PLUS, ScramKeys, mac,
};
use crate::settings::Method;
use base64::prelude::{BASE64_STANDARD, Engine};
use model::link::ChannelBindings;
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
        let is_bound = method == METHOD_PLUS && question.bindings.is_some();
        if !(method == METHOD || is_bound) || !is_held {
            return Admission::Refused(Denial::BadMethod);
        }
        match question.dialogue.as_deref() {
            None if data.is_empty() => {
                Admission::Continue { data: Box::default(), dialogue: SILENT.into() }
            }
            None | Some(SILENT) => self.begin(now_s, question, (is_bound, data), errands),
            Some(dialogue) => self.finish(question, dialogue, data, errands),
        }
    }

    fn begin(
        &self,
        now_s: u32,
        question: &Question,
        (is_bound, data): (bool, &[u8]),
        errands: &mut dyn Errands,
    ) -> Admission {
        let first = ClientFirst::read(data).ok();
        let bindings = question.bindings.as_deref();
        let Some(first) = first.filter(|it| may_bind(it.binding, is_bound, bindings)) else {
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

    fn finish(
        &self,
        question: &Question,
        dialogue: &[u8],
        data: &[u8],
        errands: &mut dyn Errands,
    ) -> Admission {
        let refused = Admission::Refused(Denial::BadCredentials);
        let bound = match scram::binding_of(dialogue) {
            Some(Binding::By(name)) => bound_by(name, question.bindings.as_deref()),
            _ => Some(&[][..]),
        };
        let Some(bound) = bound else { return refused };
        let Some(user) = scram::user_of(dialogue) else { return refused };
        match self.scram_keys(&user, errands) {
            Found::Nobody => refused,
            Found::NotYet(not_yet) => not_yet,
            Found::Keys(keys) => match scram::finish(&keys, dialogue, bound, data) {
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

/// Whether a client may say this of channel binding. One that believes that none is offered where
/// some is was lied to by somebody in between (RFC 5802 6).
fn may_bind(binding: Binding<'_>, is_bound: bool, bindings: Option<&ChannelBindings>) -> bool {
    match binding {
        Binding::Unknown => !is_bound,
        Binding::NotOffered => !is_bound && bindings.is_none(),
        Binding::By(name) => is_bound && bound_by(name, bindings).is_some(),
    }
}

/// What both ends of a connection know under this name (RFC 9266, RFC 5929).
fn bound_by<'a>(name: &str, bindings: Option<&'a ChannelBindings>) -> Option<&'a [u8]> {
    match name {
        "tls-exporter" => bindings?.exporter.as_ref().map(|value| &value[..]),
        "tls-server-end-point" => bindings?.end_point.as_deref(),
        _ => None,
    }
}
