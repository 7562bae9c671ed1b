//! Routes of schedules: to save, list, show, pause, resume and remove them.
//!
//! This module does not know how a route is answered.

use super::{Of, Route, delete, get, post};
use crate::fault::Refusal::{self, Busy, NoAnswer, NotFound, Refused};
use crate::routes::schedules;
use crate::tokens::scope::Scope::{Push, Read};

/// Refusals of a route that finds something.
const FINDS: &[Refusal] = &[NotFound, Busy, NoAnswer];

/// Pushes that are sent again and again.
#[rustfmt::skip] // a row a route
pub(super) fn schedules() -> Vec<Route> {
    use Of::{Body, Path, Query};
    vec![
        post("/v1/schedules", schedules::save)
            .wants(&[Push], Body).refuses(&[NotFound, Refused, Busy, NoAnswer])
            .told("saveSchedule", "Send a push again and again", "The schedule.")
            .more("Each time of the rule is a push of its own with its own id, counts and outcome. \
                   A schedule of the same name is replaced, and begins anew. Of the times that \
                   came while the server was down, only the last one is sent at its start, if \
                   `ttl_s` of its push is not over."),
        get("/v1/schedules", schedules::list).wants(&[Push, Read], Query).refuses(FINDS)
            .told("listSchedules", "Schedules", "By product and name."),
        get("/v1/schedules/{product}/{schedule}", schedules::one)
            .wants(&[Push, Read], Path).refuses(FINDS)
            .told("schedule", "A schedule", "The schedule."),
        post("/v1/schedules/{product}/{schedule}/pause", schedules::pause)
            .wants(&[Push], Path).refuses(FINDS)
            .told("pauseSchedule", "Pause a schedule",
                "The schedule. It sends nothing until it is resumed; pushes that it has sent go \
                 on."),
        post("/v1/schedules/{product}/{schedule}/resume", schedules::resume)
            .wants(&[Push], Path).refuses(FINDS)
            .told("resumeSchedule", "Resume a schedule",
                "The schedule. It goes on with the times to come."),
        delete("/v1/schedules/{product}/{schedule}", schedules::remove)
            .wants(&[Push], Path).refuses(FINDS)
            .told("removeSchedule", "Remove a schedule",
                "It is removed; pushes that it has sent go on."),
    ]
}
