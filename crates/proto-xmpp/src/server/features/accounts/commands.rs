//! Commands (XEP-0050) of whoever administers the server: from the first word to the outcome.
//!
//! ```text
//! execute ─► may it? ─► form, open ─► complete ─► asked ─► completed
//!               └ no form: asked ───────┘  └ cancel ─► canceled
//! ```
//! Invariant: a session has [`OPEN_MAX`] commands open at most; another takes the oldest one's
//! place.

use super::command::{self, ADMIN, COMMANDS, Command, CommandWhat};
use super::{BookWhat, Wanted, password};
use crate::claims::Xep;
use crate::fault::StanzaFault;
use crate::forms::{FORMS, fields};
use crate::jid::Jid;
use crate::server::Out;
use crate::server::feature::{Answer, Feature, Question, Questions};
use crate::server::iq::{DISCO_INFO, DISCO_ITEMS};
use crate::server::session::Session;
use crate::stanza::StanzaReply;
use crate::xml::scan::Element;
use model::account::AccountAddress;
use model::ports::users::{
    Announcement, BOOK_ACCOUNTS_MAX, BOOK_ONLINE_MAX, BookDone, BookWish, OperatorWish, UserChange,
};

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[
        Xep::partial(
            50,
            ("Ad-Hoc Commands", "1.3.0"),
            "for XEP-0133, with one form at most",
            "xmpp/test_accounts.py::test_accounts_are_made_changed_and_removed_by_commands",
        ),
        Xep::partial(
            133,
            ("Service Administration", "1.2.0"),
            "accounts, online users, and announcements to them: eleven commands",
            "xmpp/test_accounts.py::test_who_is_here_is_told_to_administrators_alone",
        ),
    ],
    server: (&[COMMANDS], ""),
    questions: &[Questions::of_devices(COMMANDS, answer)],
    ..Feature::NONE
};

fn answer(session: &mut Session, question: &Question<'_, '_, '_>, out: &mut Out) -> Answer {
    let asked = question.asked;
    if !question.is_for_server || !question.is_set || asked.name() != "command" {
        return Err(StanzaFault::ServiceUnavailable);
    }
    let command = command::find(&asked.attribute("node").unwrap_or_default());
    let wanted = match command {
        Some(command) => session.executes((asked, command), question.about, out),
        None => Err(StanzaFault::ItemNotFound),
    };
    session.wants_of_book(wanted, question, out)
}

/// Commands of a session that wait for their forms.
const OPEN_MAX: usize = 4;

/// A command whose form was shown.
pub(in crate::server) struct OpenCommand {
    id: Box<str>,
    command: &'static Command,
}

impl Session {
    /// Asks for the list of commands or for one of them, by its node. False: it is another node.
    pub(in crate::server) fn asks_of_commands(
        &mut self,
        question: &Question<'_, '_, '_>,
        out: &mut Out,
    ) -> bool {
        if question.gets("query").is_err() {
            return false;
        }
        let node = question.asked.attribute("node").unwrap_or_default();
        let command = command::find(&node);
        let what = match question.asked.namespace() {
            DISCO_ITEMS if *node == *COMMANDS => BookWhat::Commands,
            DISCO_INFO if *node == *COMMANDS => BookWhat::Info(None),
            DISCO_INFO if command.is_some() => BookWhat::Info(command),
            _ => return false,
        };
        let wish = BookWish::Operate(OperatorWish::May);
        self.asks_book((what, question.about), wish, out);
        true
    }

    /// A command is begun, gone on with or given up (XEP-0050 3).
    fn executes(
        &mut self,
        (asked, command): (&Element<'_, '_>, &'static Command),
        about: (Option<&str>, Option<&str>),
        out: &mut Out,
    ) -> Wanted {
        if !self.has(Session::PRIVATE) {
            return Err(StanzaFault::NotAllowed); // passwords are in it
        }
        let action = asked.attribute("action").unwrap_or_default();
        let Some(id) = asked.attribute("sessionid") else {
            if !matches!(&*action, "" | "execute") {
                return self.refuses_command(about, "bad-action", out);
            }
            let wish = match command.what {
                CommandWhat::Registered => OperatorWish::Registered,
                CommandWhat::OnlineCount => OperatorWish::Online(0),
                _ => OperatorWish::May,
            };
            return Ok(Some((BookWhat::Form(command), BookWish::Operate(wish))));
        };
        let open = &mut self.busy().commands;
        let at = open.iter().position(|it| *it.id == *id && it.command == command);
        let Some(at) = at else {
            return self.refuses_command(about, "bad-sessionid", out);
        };
        let form = asked.child("x", FORMS);
        let is_cancelled = form
            .as_ref()
            .is_some_and(|form| form.attribute("type").is_some_and(|kind| *kind == *"cancel"));
        match (&*action, form) {
            ("cancel", _) => {}
            ("" | "execute" | "complete", Some(_)) if is_cancelled => {}
            ("" | "execute" | "complete", Some(form)) => {
                // A form that is wrong can be sent again.
                let wish = self.wish_of(command, &form)?;
                let id = self.busy().commands.remove(at).id;
                return Ok(Some((BookWhat::Outcome(command, id), BookWish::Operate(wish))));
            }
            ("" | "execute" | "complete", None) => {
                return self.refuses_command(about, "bad-payload", out);
            }
            _ => return self.refuses_command(about, "bad-action", out),
        }
        let id = self.busy().commands.remove(at).id;
        self.answers(about, &command::canceled((command, &id)), out);
        Ok(None)
    }

    /// Answers a command by an error with a condition of commands (XEP-0050 4.3).
    fn refuses_command(
        &mut self,
        (id, from): (Option<&str>, Option<&str>),
        condition: &str,
        out: &mut Out,
    ) -> Wanted {
        let more = format!("<{condition} xmlns='{COMMANDS}'/>");
        let reply = StanzaReply { name: "iq", from, to: self.jid(), id };
        reply.error_whole("", StanzaFault::BadRequest, ("", &more), out.bytes());
        self.counts_sent(out);
        Ok(None)
    }

    /// The order in a form that was filled in.
    fn wish_of(
        &self,
        command: &Command,
        form: &Element<'_, '_>,
    ) -> Result<OperatorWish, StanzaFault> {
        let (mut accounts, mut passwords) = (Vec::new(), [None, None]);
        let mut count = BOOK_ONLINE_MAX as u16;
        for (name, values) in fields(form) {
            let first = values.first().map(|value| value.trim());
            match name.as_deref() {
                Some("FORM_TYPE") if first != Some(ADMIN) => return Err(StanzaFault::BadRequest),
                Some("accountjid" | "accountjids") => {
                    if accounts.len() + values.len() > BOOK_ACCOUNTS_MAX {
                        return Err(StanzaFault::PolicyViolation);
                    }
                    for value in &values {
                        accounts.push(self.account_here(value)?);
                    }
                }
                Some("password") => passwords[0] = values.first().cloned(),
                Some("password-verify") => passwords[1] = values.first().cloned(),
                Some("max_items") => {
                    count = match first {
                        None | Some("" | "none") => count,
                        Some(text) => text.parse().map_err(|_| StanzaFault::BadRequest)?,
                    };
                }
                _ => {}
            }
        }
        let (verb, is_one) = match command.what {
            CommandWhat::Statistics => {
                let Ok([account]) = <[AccountAddress; 1]>::try_from(accounts) else {
                    return Err(StanzaFault::BadRequest);
                };
                return Ok(OperatorWish::Statistics(account));
            }
            CommandWhat::Announce => return announcement(form),
            CommandWhat::One(verb) => (verb, true),
            CommandWhat::Many(verb) => (verb, false),
            CommandWhat::Registered => return Ok(OperatorWish::Registered),
            CommandWhat::OnlineCount => return Ok(OperatorWish::Online(0)),
            CommandWhat::Online => {
                return Ok(OperatorWish::Online(count.min(BOOK_ONLINE_MAX as u16)));
            }
        };
        if accounts.is_empty() || (is_one && accounts.len() > 1) {
            return Err(StanzaFault::BadRequest);
        }
        let new = match (is_one, &passwords) {
            (false, _) => None,
            (true, [Some(new), Some(again)]) if *new != *again => {
                return Err(StanzaFault::NotAcceptable);
            }
            (true, [Some(new), _]) => Some(password(new)?),
            (true, [None, _]) => return Err(StanzaFault::BadRequest),
        };
        Ok(OperatorWish::Change(UserChange { verb, accounts, password: new }))
    }

    /// The account of a bare JID of this server.
    fn account_here(&self, text: &str) -> Result<AccountAddress, StanzaFault> {
        let jid = Jid::parse(text.trim()).ok_or(StanzaFault::JidMalformed)?;
        if jid.resource.is_some() {
            return Err(StanzaFault::NotAcceptable);
        }
        let is_here = self.is_here(&jid.domain);
        jid.account.filter(|_| is_here).ok_or(StanzaFault::ItemNotFound)
    }

    /// Begins a command of an account that may execute it: with its form, or with its result where
    /// it has none.
    pub(super) fn begins(
        &mut self,
        command: &'static Command,
        done: BookDone,
        about: (Option<&str>, Option<&str>),
        out: &mut Out,
    ) {
        let id = format!("c{}", self.name_one());
        if matches!(command.what, CommandWhat::Registered | CommandWhat::OnlineCount) {
            return self.answers(about, &command::completed((command, &id), &done), out);
        }
        let open = &mut self.busy().commands;
        if open.len() >= OPEN_MAX {
            open.remove(0);
        }
        open.push(OpenCommand { id: id.as_str().into(), command });
        self.answers(about, &command::form((command, &id)), out);
    }
}

/// The announcement in a form (XEP-0133 4.23).
fn announcement(form: &Element<'_, '_>) -> Result<OperatorWish, StanzaFault> {
    let (mut subject, mut body) = (String::new(), String::new());
    for (name, values) in fields(form) {
        match name.as_deref() {
            Some("subject") => subject = values.join(" "),
            Some("announcement") => body = values.join("\n"),
            _ => {}
        }
    }
    let announcement = Announcement::new(subject.trim(), body.trim());
    announcement.map(|it| OperatorWish::Announce(it.into())).ok_or(StanzaFault::NotAcceptable)
}
