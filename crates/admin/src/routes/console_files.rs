//! The console's page and its files, for browsers.

use super::{Part, part};
use crate::api::Api;
use crate::console::{self, ConsoleFile};
use crate::describe::{AnswerBody, Answers, Operation};
use crate::fault::Fault;
use crate::routes::operations::INDEX;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, VARY};
use axum::response::{IntoResponse, Response};

/// A file of the console for browsers, or the text for other programs.
pub(crate) struct ForBrowsers(Response);

impl IntoResponse for ForBrowsers {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Answers for ForBrowsers {
    fn answers(operation: &mut Operation<'_>) {
        operation.content = match operation.path {
            "/" => AnswerBody::text(&["text/html", "text/plain"]),
            _ => AnswerBody::text(&["text/html", "text/css", "text/javascript", "image/svg+xml"]),
        };
    }
}

/// `GET /`: the page for who takes HTML, which is what browsers ask for; text for all others.
pub(crate) async fn page(State(api): Api, headers: HeaderMap) -> ForBrowsers {
    let accepted = headers.get_all(ACCEPT).into_iter().filter_map(|line| line.to_str().ok());
    let is_browser = accepted.flat_map(|line| line.split(',')).any(|kind| {
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/html"))
    });
    let answer = match is_browser && api.settings.console {
        true => console::page().answer(&headers),
        false => INDEX.into_response(),
    };
    ForBrowsers(([(VARY, "Accept")], answer).into_response())
}

/// `GET /console/{file}`
pub(crate) async fn file(
    State(api): Api,
    path: Part,
    headers: HeaderMap,
) -> Result<ForBrowsers, Fault> {
    let name = part(path)?;
    let found: Option<&'static ConsoleFile> = console::file(&name).filter(|_| api.settings.console);
    found.map(|file| ForBrowsers(file.answer(&headers))).ok_or(Fault::unknown("path"))
}
