//! Logins of devices that another service has authenticated, by the same rules.
//!
//! The grant may be older than an order that ended the account's sessions: it is checked again, and
//! then the session is like any other.

use crate::sessions::login::LetIn;
use crate::{Chat, Effects};
use base::time::Now;
use model::chat::GrantedLogin;
use model::id::ConnRef;
use model::ports::access::Grant;
use model::session::Denial;

impl Chat {
    /// Handles a login with the grant of another service.
    pub(crate) fn enter_granted(
        &mut self,
        now: Now,
        conn: ConnRef,
        entering: GrantedLogin,
        fx: &mut Effects,
    ) {
        let GrantedLogin { login, user, account, until_s } = entering;
        if !self.may_try(now, conn, &login, fx) {
            return;
        }
        let version = self.settings.access.version();
        let is_over = until_s != 0 && until_s <= now.unix_s();
        if is_over || !self.settings.access.holds(&user, Some(account)) {
            return self.turn_away(&login, conn, Denial::NotAuthorized, fx);
        }
        let (user, account, by_password) = (Some(user), Some(account), false);
        let grant = Grant { user, rules: None, until_s, account, by_password };
        let Some(owner) = self.owner_of_login(&login, &grant) else {
            return self.turn_away(&login, conn, Denial::BadCredentials, fx);
        };
        let login = Box::new(login);
        self.begin_to_enter(LetIn { conn, login, grant, owner, version, data: None }, fx);
    }
}
