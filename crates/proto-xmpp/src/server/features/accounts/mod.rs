//! Accounts by XMPP: registration (XEP-0077), and commands of those who administer the server
//! (XEP-0050, XEP-0133).
//!
//! A request to the book is remembered until the service answers. Permissions are the service's to
//! check: before it has, a form is shown to nobody. Invariant: each request is answered once, with
//! its id.

mod announcement;
mod command;
mod commands;
mod registration;

pub(in crate::server) use commands::{FEATURE as COMMANDS_FEATURE, OpenCommand};
pub(in crate::server) use registration::{
    FEATURE as REGISTRATION_FEATURE, is_private, stream_feature, wants_registration,
};

use crate::fault::StanzaFault;
use crate::server::Out;
use crate::server::feature::{Answer, Question};
use crate::server::session::Session;
use command::Command;
use model::chat::ChatRequest;
use model::ports::users::{BookAnswer, BookDone, BookFault, BookRequest, BookWish, NewPassword};

/// A question about accounts that is with the service.
pub(in crate::server) struct BookAsking {
    number: u32,
    id: Option<Box<str>>,
    to: Option<Box<str>>,
    what: BookWhat,
}

/// Form of the answer.
enum BookWhat {
    /// By "done".
    Own,
    /// By the list of commands; of none, where nobody is to know them.
    Commands,
    /// By what a command is.
    Info(Option<&'static Command>),
    /// By the form of a command that begins.
    Form(&'static Command),
    /// By what came of a command, with the name under which it was open.
    Outcome(&'static Command, Box<str>),
}

impl Session {
    /// Asks the book what was wanted, unless it is answered or refused already.
    fn wants_of_book(
        &mut self,
        wanted: Wanted,
        question: &Question<'_, '_, '_>,
        out: &mut Out,
    ) -> Answer {
        if let Some((what, wish)) = wanted? {
            self.asks_book((what, question.about), wish, out);
        }
        Ok(None)
    }

    fn asks_book(
        &mut self,
        (what, (id, to)): (BookWhat, (Option<&str>, Option<&str>)),
        wish: BookWish,
        out: &mut Out,
    ) {
        let (session, number) = (self.session, self.numbers(1));
        let [id, to] = [id, to].map(|text| text.map(Box::from));
        self.busy().book.push(BookAsking { number, id, to, what });
        out.say(ChatRequest::Book(Box::new(BookRequest { session, number, wish })));
    }

    /// Handles the result of an order to the book.
    pub(in crate::server) fn book_told(
        &mut self,
        (number, answer): (u32, BookAnswer),
        out: &mut Out,
    ) {
        let asks = &mut self.busy().book;
        let Some(at) = asks.iter().position(|asking| asking.number == number) else {
            base::never!(true, "an answer of the book that nobody asked for");
            return;
        };
        let BookAsking { id, to, what, .. } = asks.remove(at);
        let about = (id.as_deref(), to.as_deref());
        match (what, answer) {
            (BookWhat::Commands, Ok(_)) => self.answers(about, &command::list(about.1), out),
            (BookWhat::Commands, Err(BookFault::Forbidden)) => {
                self.answers(about, command::EMPTY, out);
            }
            (BookWhat::Info(command), Ok(_)) => self.answers(about, &command::info(command), out),
            (BookWhat::Own, Ok(_)) => self.answers(about, "", out),
            (BookWhat::Form(command), Ok(done)) => self.begins(command, done, about, out),
            (BookWhat::Outcome(command, open), Ok(done)) => {
                self.answers(about, &command::completed((command, &open), &done), out);
            }
            (_, Err(fault)) => {
                let (fault, told) = fault_of(&fault);
                self.refuse_saying("iq", about, (fault, told), out);
            }
        }
        self.releases(out);
    }
}

/// Error for a refusal of the book, with its text.
pub(in crate::server) fn fault_of(fault: &BookFault) -> (StanzaFault, &str) {
    match fault {
        BookFault::Off => (StanzaFault::NotAllowed, ""),
        BookFault::Forbidden => (StanzaFault::Forbidden, ""),
        BookFault::Conflict => (StanzaFault::Conflict, "Somebody has this name."),
        BookFault::Unknown(who) => (StanzaFault::ItemNotFound, who),
        BookFault::Wrong(why) => (StanzaFault::NotAcceptable, why),
        BookFault::Rate => (StanzaFault::ResourceConstraint, "Too many of late."),
        BookFault::Full => (StanzaFault::ResourceConstraint, "There is no room for one more."),
        BookFault::Busy | BookFault::StoreFailed => (StanzaFault::ResourceConstraint, ""),
    }
}

/// A password as somebody has written it.
fn password(text: &str) -> Result<NewPassword, StanzaFault> {
    NewPassword::new(text).ok_or(StanzaFault::NotAcceptable)
}

/// A request to the book; `None`: the session is answered at once.
type Wanted = Result<Option<(BookWhat, BookWish)>, StanzaFault>;

/// The count, if the answer is one.
fn count_of(done: &BookDone) -> u64 {
    match done {
        BookDone::Count(count) | BookDone::Online { count, .. } => *count,
        BookDone::Done | BookDone::Granted(_) | BookDone::Statistics { .. } => 0,
    }
}

#[cfg(test)]
mod tests;
