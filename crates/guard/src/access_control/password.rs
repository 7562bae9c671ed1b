//! Name and password at access control.

use super::{AccessControl, Admission, Denial, Errands, Ordering, Proof, Question, Step, named};
use crate::cache::CacheKey;
use crate::passwords::StoredHash;
use model::ports::users::UserOrder;

impl AccessControl {
    pub(super) fn by_password(
        &self,
        now_s: u32,
        question: &Question,
        errands: &mut dyn Errands,
    ) -> Step {
        let Some(user) = named(question) else { return Step::Next };
        let account = match self.person(user, errands) {
            Ok(Some(person)) => person.account,
            Ok(None) => return Step::Next,
            Err(not_yet) => return Step::Done(not_yet),
        };
        let (Some(hash), cache) = (account.kept.hash, self.settings().cache) else {
            return Step::Next;
        };
        let password = question.password.as_deref().unwrap_or_default();
        if account.is_disabled {
            return Step::Done(Admission::Refused(Denial::NotAuthorized));
        }
        if password.is_empty() || password.len() > UserOrder::PASSWORD_BYTES_MAX {
            return Step::Done(Admission::Refused(Denial::BadCredentials));
        }
        let is_right = if hash.is_slow() {
            let key = self.check_key(user, password, &hash);
            let known = self.checks().find(now_s, &key);
            match known {
                Some(is_right) => {
                    self.remembered.fetch_add(1, Ordering::Relaxed);
                    is_right
                }
                None if !errands.may_hash() => return Step::Done(Admission::Later),
                None => {
                    let is_right = hash.is_of(password);
                    let seconds = if is_right { cache.positive_s } else { cache.negative_s };
                    let until_s = now_s.saturating_add(seconds);
                    self.checks().put(cache.count_max, key, until_s, is_right);
                    is_right
                }
            }
        } else {
            hash.is_of(password)
        };
        Step::Done(match is_right {
            true => {
                let user = Some(user.into());
                self.let_in(Proof { user, by_password: true, ..Proof::default() }, errands)
            }
            false => Admission::Refused(Denial::BadCredentials),
        })
    }

    fn check_key(&self, user: &str, password: &[u8], hash: &StoredHash) -> CacheKey {
        let length = (user.len() as u64).to_be_bytes();
        let password_length = (password.len() as u64).to_be_bytes();
        let text = hash.text();
        self.key(&[b"check", &length, user.as_bytes(), &password_length, password, text.as_bytes()])
    }
}
