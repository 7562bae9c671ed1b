//! Routes of the outcomes of pushes.

use super::{Of, Route, get, post};
use crate::fault::Refusal::{
    Busy, Forbidden, NoAnswer, NoReports, NotFound, NotTracked, TooManyReports, Unauthorized,
};
use crate::routes::push_outcomes;
use crate::tokens::scope::Scope::{Push, Read};

/// Outcomes of tracked pushes.
#[rustfmt::skip] // a row a route
pub(super) fn outcomes() -> Vec<Route> {
    use Of::Query;
    vec![
        get("/v1/pushes/{id}/devices", push_outcomes::devices)
            .wants(&[Push, Read], Query).refuses(&[NotFound, NotTracked, Busy, NoAnswer])
            .told("pushDevices", "Outcomes of a tracked push at its devices, page by page",
                "A page, in the order in which it happened on each shard.")
            .more("A line for a device that stored the push, while it is queued there; one for its \
                   end; one for each report. Lines never change, and later ones come behind: who \
                   goes on with `next` gets each line once, also while the push is under way, and \
                   `next` of the last page gets what happens afterwards."),
        get("/v1/pushes/{id}/minutes", push_outcomes::minutes)
            .wants(&[Push, Read], Query).refuses(&[NotFound, NotTracked, Busy, NoAnswer])
            .told("pushMinutes", "Outcomes of a tracked push, by minute",
                "The minutes in which something happened, the first one first.")
            .more("Counts lines; at most 1,440 minutes of each shard, older ones are added to the \
                   first."),
        post("/v1/reports", push_outcomes::report)
            .refuses(&[
                Unauthorized, Forbidden, NotFound, NoReports, TooManyReports, Busy, NoAnswer,
            ])
            .told("reportPush", "A device reports that its user opened or dismissed a push",
                "It is taken: on stable storage, if the push is tracked and its line has room.")
            .more("Needs no token of the API: the body has the bearer token of the device. The \
                   server does not check whether the device got the push."),
    ]
}
