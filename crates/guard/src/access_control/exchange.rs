//! SCRAM at access control: selects keys, nonce and channel binding, and encodes the state between
//! the client's two messages.
//!
//! An unknown name is asked for its proof like any other, with iterations and a salt as users have
//! them (`decoys.rs`) that stay the same while the process lives, so that an exchange does not
//! reveal which users exist. The same applies to a user without keys of the requested hash.

use super::decoys::{KeyKind, SaltForm};
use super::{AccessControl, Errands, Proof};
use crate::cache::mac;
use crate::passwords::{SALT_BYTES, StoredHash};
use crate::scram::{self, Binding, ClientFirst, ITERATIONS_MIN, ScramHash, ScramKeys};
use crate::settings::Method;
use base64::prelude::{BASE64_STANDARD, Engine};
use model::link::ChannelBindings;
use model::ports::access::{ANONYMOUS, Admission, EXTERNAL, Question};
use model::session::Denial;
use std::sync::atomic::Ordering;

/// Remembered of a client that has said nothing yet.
const SILENT: &[u8] = b"\0";

/// User whose keys are needed.
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
        if [ANONYMOUS, EXTERNAL].contains(&method) {
            return self.without_words(question, method, errands);
        }
        let Some((hash, is_bound)) = self.taken(method, question) else {
            return Admission::Refused(Denial::BadMethod);
        };
        match question.dialogue.as_deref() {
            None if data.is_empty() => {
                Admission::Continue { data: Box::default(), dialogue: SILENT.into() }
            }
            None | Some(SILENT) => self.begin(now_s, question, (hash, is_bound, data), errands),
            Some(dialogue) => self.finish(question, dialogue, (hash, data), errands),
        }
    }

    /// Nothing is said to prove who it is. Names of guests, and which name in a certificate is an
    /// account's, are a matter of the machine of XMPP alone.
    fn without_words(
        &self,
        question: &Question,
        method: &str,
        errands: &mut dyn Errands,
    ) -> Admission {
        let methods = self.people().door(question.door).methods.clone();
        let (wanted, user) = match method {
            ANONYMOUS => (Method::Anonymous, None),
            _ => (Method::Certificate, question.certificate.clone()),
        };
        let is_whole = method == ANONYMOUS || user.as_ref().is_some_and(|user| !user.is_empty());
        if question.protocol != "xmpp" || !methods.contains(&wanted) || !is_whole {
            return Admission::Refused(Denial::BadMethod);
        }
        self.let_in(Proof { user, ..Proof::default() }, errands)
    }

    /// Method of this name, if the listener allows it: its hash, and whether it is bound.
    fn taken(&self, method: &str, question: &Question) -> Option<(ScramHash, bool)> {
        let (hash, is_bound) = ScramHash::of_method(method)?;
        let people = self.people();
        let is_taken = people.door(question.door).methods.contains(&Method::Scram)
            && people.settings.scram_hashes.contains(&hash)
            && (!is_bound || question.bindings.is_some());
        is_taken.then_some((hash, is_bound))
    }

    fn begin(
        &self,
        now_s: u32,
        question: &Question,
        (hash, is_bound, data): (ScramHash, bool, &[u8]),
        errands: &mut dyn Errands,
    ) -> Admission {
        let first = ClientFirst::read(data).ok();
        let bindings = question.bindings.as_deref();
        let Some(first) = first.filter(|it| may_bind(it.binding, is_bound, bindings)) else {
            return Admission::Refused(Denial::BadCredentials);
        };
        let user = meant_by(question, &first.user);
        let (salt, iterations) = match self.scram_keys(hash, user, errands) {
            Found::Keys(keys) => (keys.salt().into(), keys.iterations),
            Found::Nobody => self.made_up(hash, user),
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
        (hash, data): (ScramHash, &[u8]),
        errands: &mut dyn Errands,
    ) -> Admission {
        let refused = Admission::Refused(Denial::BadCredentials);
        let bound = match scram::binding_of(dialogue) {
            Some(Binding::By(name)) => bound_by(name, question.bindings.as_deref()),
            _ => Some(&[][..]),
        };
        let Some(bound) = bound else { return refused };
        let Some(said) = scram::user_of(dialogue) else { return refused };
        let user = meant_by(question, &said);
        match self.scram_keys(hash, user, errands) {
            Found::Nobody => refused,
            Found::NotYet(not_yet) => not_yet,
            Found::Keys(keys) => match scram::finish(&keys, dialogue, bound, data) {
                Ok(last) => {
                    let (user, data) = (Some(user.into()), Some(last.into()));
                    self.let_in(
                        Proof { user, data, by_password: true, ..Proof::default() },
                        errands,
                    )
                }
                Err(_) => refused,
            },
        }
    }

    /// SCRAM keys of a user: stored ones for the hash, or ones derived from a plain password.
    fn scram_keys(&self, hash: ScramHash, user: &str, errands: &mut dyn Errands) -> Found {
        let kept = match self.person(user, errands) {
            Ok(person) => person.map(|person| person.account.kept),
            Err(not_yet) => return Found::NotYet(not_yet),
        };
        let Some(kept) = kept else { return Found::Nobody };
        match (kept.scram.find(hash), kept.hash) {
            (Some(keys), _) => Found::Keys(keys.clone()),
            (None, Some(StoredHash::Plain(_))) if !errands.may_hash() => {
                Found::NotYet(Admission::Later)
            }
            (None, Some(StoredHash::Plain(password))) => {
                let (salt, iterations) = self.made_up(hash, user);
                Found::Keys(ScramKeys::derive(hash, password.as_bytes(), &salt, iterations))
            }
            (None, _) => Found::Nobody,
        }
    }

    /// Salt and rounds of a name that has no keys of this hash.
    fn made_up(&self, hash: ScramHash, user: &str) -> (Box<[u8]>, u32) {
        let draw = |what: &[u8], number: u32| {
            let number = number.to_be_bytes();
            mac(&self.seed, &[what, hash.method().as_bytes(), b"\0", &number, user.as_bytes()])
        };
        let drawn = draw(b"kind", 0).first_chunk().map_or(0, |word| u64::from_be_bytes(*word));
        let people = self.people();
        let kind = people.decoy(hash, drawn).unwrap_or(KeyKind {
            hash,
            iterations: people.settings.hashing.scram_iterations.max(ITERATIONS_MIN),
            salt: SaltForm::Bytes(SALT_BYTES),
        });
        // Of another kind it is another salt, as new keys of somebody are.
        let bytes = |count: usize| {
            let of_kind = [kind.iterations.to_be_bytes(), (count as u32).to_be_bytes()].concat();
            let what = [b"salt", &*of_kind].concat();
            (0..).flat_map(|number| draw(&what, number)).take(count).collect()
        };
        (kind.salt.made_up(bytes), kind.iterations)
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

/// Channel binding of a connection under this name (RFC 9266, RFC 5929).
fn bound_by<'a>(name: &str, bindings: Option<&'a ChannelBindings>) -> Option<&'a [u8]> {
    match name {
        "tls-exporter" => bindings?.exporter.as_ref().map(|value| &value[..]),
        "tls-server-end-point" => bindings?.end_point.as_deref(),
        _ => None,
    }
}

/// The user whom a name in an exchange means: in XMPP a name is one of the stream's domain, and its
/// machine has said whose that is.
fn meant_by<'a>(question: &'a Question, said: &'a str) -> &'a str {
    match question.user.as_deref() {
        Some(user) if question.protocol == "xmpp" => user,
        _ => said,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NOW_S, exchange_by, files, hashing_thread, question, word};
    use super::*;
    use crate::book::UserEntry;
    use crate::passwords::{Cost, Hashing};
    use crate::settings::Settings;
    use ScramHash::{Sha1, Sha256};
    use model::ports::access::Access;

    /// `old` has keys of SHA-1, `new` those of SHA-256, `both` has both, and `file` is a plain
    /// password of the file.
    fn access_control(scram_hashes: &[ScramHash]) -> AccessControl {
        let settings = Settings { scram_hashes: scram_hashes.into(), ..Settings::default() };
        let files = files("file:$plain$pencil\n", None);
        let access_control = AccessControl::new(settings, files, [1; 32]);
        for (uid, name, hashes) in
            [(7, "old", &[Sha1][..]), (8, "new", &[Sha256]), (9, "both", &[Sha1, Sha256])]
        {
            let mut entry = UserEntry::new(uid);
            for hash in hashes {
                let keys = ScramKeys::derive(*hash, b"pencil", b"salt", 10_000);
                entry.account.kept.scram.put(keys.clone());
                entry.account.kept.hash = Some(StoredHash::Scram(keys));
            }
            access_control.put(name, entry, false);
        }
        access_control
    }

    fn first(access_control: &AccessControl, hash: ScramHash, user: &str) -> String {
        let data = format!("n,,n={user},r=x").into_bytes();
        let method = Some((hash.method().into(), data.into()));
        let question = Question { method, ..question(None, None) };
        let answer = access_control.admit(NOW_S, &question);
        let Admission::Continue { data, .. } = answer else { panic!("{answer:?}") };
        let text = String::from_utf8(data.into()).expect("text");
        text.split_once(",s=").expect("a salt").1.into()
    }

    #[test]
    fn each_hash_is_taken_where_the_setting_has_it() {
        for (hashes, taken) in
            [(&[Sha256][..], [true, false]), (&[Sha1], [false, true]), (&[Sha1, Sha256], [true; 2])]
        {
            let access_control = access_control(hashes);
            for (hash, is_taken) in [Sha256, Sha1].into_iter().zip(taken) {
                let come =
                    |user, password| word(exchange_by(hash, &access_control, user, password));
                let answer = |answer: &'static str| if is_taken { answer } else { "BadMethod" };
                assert_eq!(come("both", "pencil"), answer("both"), "{hashes:?} {hash:?}");
                assert_eq!(come("file", "pencil"), answer("file"));
                assert_eq!(come("both", "pen"), answer("BadCredentials"));
                let (own, others) = if hash == Sha1 { ("old", "new") } else { ("new", "old") };
                assert_eq!(come(own, "pencil"), answer(own));
                assert_eq!(come(others, "pencil"), answer("BadCredentials"), "no such keys");
                assert_eq!(come("nobody", "pencil"), answer("BadCredentials"));
            }
        }
        assert_eq!(word(exchange_by(Sha256, &access_control(&[]), "new", "pencil")), "BadMethod");
    }

    #[test]
    fn a_password_is_checked_against_keys_of_either_hash() {
        let access_control = access_control(&[]);
        for (user, password, answer) in [
            ("old", "pencil", "old"),
            ("old", "pen", "BadCredentials"),
            ("new", "pencil", "new"),
            ("both", "pencil", "both"),
        ] {
            let asked = question(Some(user), Some(password));
            assert_eq!(word(access_control.admit(NOW_S, &asked)), "later", "{user}");
            let mut thread = hashing_thread();
            assert_eq!(word(access_control.resolve(NOW_S, &asked, &mut thread)), answer, "{user}");
        }
    }

    #[test]
    fn nobody_is_answered_as_those_are_who_have_keys() {
        let access_control = access_control(&[Sha1, Sha256]);
        let names: Vec<String> = (0..64).map(|number| format!("nobody-{number}")).collect();
        let salts = |hash| {
            let told = |name: &String| first(&access_control, hash, name);
            let salts = names.iter().map(told).collect::<Vec<_>>();
            assert_eq!(salts, names.iter().map(told).collect::<Vec<_>>(), "they stay the same");
            salts
        };
        // All who have keys have 10,000 rounds and four bytes of salt.
        for hash in ScramHash::ALL {
            let salts = salts(hash);
            assert!(salts.iter().all(|told| told.len() == "c2FsdA==,i=10000".len()), "{salts:?}");
            assert!(salts.iter().all(|told| told.ends_with(",i=10000")));
            assert_ne!(salts[0], salts[1]);
        }
        assert_ne!(salts(Sha1)[0], salts(Sha256)[0], "as those of a user are two");
        assert_eq!(first(&access_control, Sha1, "old"), "c2FsdA==,i=10000");
        // Others come, from elsewhere: some names are of their kind, and the others stay.
        let before = salts(Sha1);
        for uid in 100..104 {
            let mut entry = UserEntry::new(uid);
            let salt = b"c5f88a08-45fc-4f1f-97c1-1874e813eb92";
            entry.account.kept.scram.put(ScramKeys::derive(Sha1, b"x", salt, 4_096));
            access_control.put(&uid.to_string(), entry, false);
        }
        let after = salts(Sha1);
        let is_of_these = |told: &&String| told.ends_with(",i=4096") && told.len() == 48 + 7;
        let changed = before.iter().zip(&after).filter(|(was, is)| was != is);
        let changed: Vec<_> = changed.map(|(_, is)| is).collect();
        assert!(changed.iter().all(is_of_these), "{changed:?}");
        assert!((16..60).contains(&changed.len()), "about two of three: {}", changed.len());
    }

    #[test]
    fn nobody_of_other_rounds_has_another_salt_as_new_keys_have() {
        let settings = |scram_iterations| Settings {
            hashing: Hashing { scram_iterations, ..Hashing::default() },
            ..Settings::default()
        };
        let told = |rounds| {
            let access_control = AccessControl::new(settings(rounds), files("", None), [1; 32]);
            first(&access_control, Sha256, "nobody")
        };
        let salt = |told: &str| told.split(',').next().map(str::to_owned);
        assert_eq!(told(5_000), told(5_000));
        assert_ne!(salt(&told(5_000)), salt(&told(6_000)));
    }

    #[test]
    fn whoever_has_no_such_keys_is_answered_as_nobody_is() {
        let settings = Settings {
            scram_hashes: vec![Sha1],
            hashing: Hashing { cost: Cost::Light, scram_iterations: 5_000, ..Hashing::default() },
            ..Settings::default()
        };
        let access_control = AccessControl::new(settings, files("", None), [1; 32]);
        let mut entry = UserEntry::new(7);
        entry.account.kept.scram.put(ScramKeys::derive(Sha256, b"pencil", b"salt", 1));
        access_control.put("new", entry, false);
        for user in ["nobody", "new"] {
            let told = first(&access_control, Sha1, user);
            assert!(told.len() == "W22ZaJ0SNY7soEsUEjb6gQ==,i=5000".len(), "{told}");
            assert!(told.ends_with("==,i=5000"), "as new users would have them: {told}");
        }
    }
}
