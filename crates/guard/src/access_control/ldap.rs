//! Access control by name and password that an LDAP server checks.

use super::{AccessControl, Admission, Denial, Errands, Ordering, Proof, Question, Step, named};
use crate::cache::CacheKey;
use model::ports::access::LdapVerdict;
use model::ports::users::UserOrder;

impl AccessControl {
    pub(super) fn by_ldap(
        &self,
        now_s: u32,
        question: &Question,
        errands: &mut dyn Errands,
    ) -> Step {
        let settings = self.settings();
        let (Some(policy), Some(user)) = (settings.ldap, named(question)) else {
            return Step::Next;
        };
        // An empty password is refused: an LDAP server would accept it for any name (RFC 4513
        // 5.1.2).
        let password = question.password.as_deref().filter(|password| !password.is_empty());
        let Some(password) = password else { return Step::Next };
        let refused = |why| Step::Done(Admission::Refused(why));
        if password.len() > UserOrder::PASSWORD_BYTES_MAX {
            return refused(Denial::BadCredentials);
        }
        let key = self.look_up_key(user, password);
        let known = self.looked_up().find(now_s, &key);
        let (name, is_super) = match known {
            Some(known) => {
                self.remembered.fetch_add(1, Ordering::Relaxed);
                known
            }
            None => match errands.look_up(user, password) {
                None => return Step::Done(Admission::Later),
                Some(Err(_)) => return refused(Denial::Unavailable),
                Some(Ok(LdapVerdict::Unknown)) => return Step::Next,
                Some(Ok(LdapVerdict::Wrong)) => return refused(Denial::BadCredentials),
                Some(Ok(LdapVerdict::NotMember)) => return refused(Denial::NotAuthorized),
                Some(Ok(LdapVerdict::Right { name, is_super })) => {
                    if policy.cache_s > 0 {
                        let until_s = now_s.saturating_add(policy.cache_s);
                        let found = (name.clone(), is_super);
                        self.keep(&settings, self.looked_up(), (key, until_s, found));
                    }
                    (name, is_super)
                }
            },
        };
        // An account with a password of its own is protected by it, whatever the order of methods
        // is: an LDAP server may find a user by a name other than the one given to the password
        // method.
        match self.person(&name, errands) {
            Ok(Some(person)) if person.account.kept.hash.is_some() => {
                return refused(Denial::BadCredentials);
            }
            Ok(_) => {}
            Err(not_yet) => return Step::Done(not_yet),
        }
        Step::Done(self.let_in(Proof { user: Some(name), is_super, ..Proof::default() }, errands))
    }

    fn look_up_key(&self, user: &str, password: &[u8]) -> CacheKey {
        let length = (user.len() as u64).to_be_bytes();
        self.key(&[b"ldap", &length, user.as_bytes(), password])
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NOW_S, Thread, access_control, hashing_thread, question, word};
    use super::*;
    use crate::http::NoVerdict;
    use crate::settings::{LdapPolicy, ListenerPolicy, Method, Settings};
    use model::ports::access::{Access, Who};

    fn with(policy: LdapPolicy, methods: &[Method]) -> AccessControl {
        let door = ListenerPolicy { methods: methods.into(), ..ListenerPolicy::default() };
        let settings = Settings { doors: vec![door], ldap: Some(policy), ..Settings::default() };
        access_control(settings, None)
    }

    /// A thread whose LDAP server gives this verdict.
    fn thread(verdict: LdapVerdict) -> Thread {
        Thread { looked_up: Some(Ok(verdict)), ..hashing_thread() }
    }

    fn right(name: &str, is_super: bool) -> LdapVerdict {
        LdapVerdict::Right { name: name.into(), is_super }
    }

    const METHODS: [Method; 3] = [Method::Passwords, Method::Ldap, Method::Http];

    #[test]
    fn an_ldap_server_decides_and_a_right_password_is_remembered() {
        let control = with(LdapPolicy { cache_s: 60, gives_super: false }, &METHODS);
        let asked = question(Some("eve"), Some("x"));
        assert_eq!(word(control.admit(NOW_S, &asked)), "later");
        let mut first = thread(right("eve", false));
        assert_eq!(word(control.resolve(NOW_S, &asked, &mut first)), "eve");
        assert_eq!(word(control.admit(NOW_S + 59, &asked)), "eve");
        assert_eq!(word(control.admit(NOW_S + 60, &asked)), "later");
        let other = question(Some("eve"), Some("y"));
        assert_eq!(word(control.admit(NOW_S, &other)), "later");
        for (verdict, answer) in [
            (LdapVerdict::Wrong, "BadCredentials"),
            (LdapVerdict::NotMember, "NotAuthorized"),
            (LdapVerdict::Unknown, "BadCredentials"),
        ] {
            assert_eq!(word(control.resolve(NOW_S, &other, &mut thread(verdict))), answer);
        }
        let away = Some(Err(NoVerdict("gone".into())));
        let mut away = Thread { looked_up: away, ..hashing_thread() };
        assert_eq!(word(control.resolve(NOW_S, &other, &mut away)), "Unavailable");
        control.replace(control.settings().as_ref().clone(), super::super::tests::files("", None));
        assert_eq!(word(control.admit(NOW_S, &asked)), "later", "a reload forgets it");
    }

    #[test]
    fn an_empty_password_or_name_is_never_looked_up() {
        let control = with(LdapPolicy::default(), &[Method::Ldap]);
        let mut thread = thread(right("eve", true));
        for (user, password) in
            [(Some("eve"), Some("")), (Some("eve"), None), (Some(""), Some("x"))]
        {
            let asked = question(user, password);
            assert_eq!(word(control.resolve(NOW_S, &asked, &mut thread)), "BadCredentials");
        }
        let long = "x".repeat(UserOrder::PASSWORD_BYTES_MAX + 1);
        let asked = question(Some("eve"), Some(&long));
        assert_eq!(word(control.resolve(NOW_S, &asked, &mut thread)), "BadCredentials");
        assert!(thread.asked.is_empty(), "{:?}", thread.asked);
    }

    #[test]
    fn the_name_is_the_entrys_and_takes_no_account_with_a_password() {
        let control = with(LdapPolicy::default(), &METHODS);
        let by = |user: &str, name: &str| {
            let asked = question(Some(user), Some("x"));
            word(control.resolve(NOW_S, &asked, &mut thread(right(name, false))))
        };
        assert_eq!(by("EVE", "eve"), "eve");
        assert_eq!(by("eve@corp.example", "eve"), "eve");
        assert_eq!(by("ROOT", "root"), "BadCredentials", "root has a password here");
        assert_eq!(by("bob", "bob"), "BadCredentials", "passwords come first");
    }

    #[test]
    fn a_superuser_by_ldap_stays_one_when_rules_change() {
        let control = with(LdapPolicy { cache_s: 0, gives_super: true }, &METHODS);
        let asked = question(Some("eve"), Some("x"));
        let admission = control.resolve(NOW_S, &asked, &mut thread(right("eve", true)));
        let Admission::Granted(grant, _) = admission else { panic!("{admission:?}") };
        assert!(grant.rules.is_none() && !grant.by_password);
        let eve = Who { client_id: "d7", user: Some("eve") };
        assert!(control.renew(&eve).is_none(), "what was granted goes on");
        let control = with(LdapPolicy::default(), &METHODS);
        assert!(control.renew(&eve).is_some(), "the rules here hold");
    }
}
