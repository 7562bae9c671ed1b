//! Stream management (XEP-0198): [`acks`] say what has come, [`resumption`] goes on with a stream
//! after its connection.

pub(super) mod acks;
pub(super) mod resumption;

use super::feature::{Feature, StreamElements};
use super::session::Session;
use crate::claims::Xep;
use crate::stream::SM;

pub(super) const ELEMENTS: StreamElements = StreamElements { namespace: SM, take: Session::manage };

pub(super) const FEATURE: Feature = Feature {
    claims: &[Xep::partial(
        198,
        ("Stream Management", "1.6.3"),
        "between servers without resumption",
        "xmpp/test_resume.py::\
         test_nothing_is_lost_and_none_comes_twice_when_the_connection_breaks",
    )],
    inline: &[SM],
    elements: Some(ELEMENTS),
    ..Feature::NONE
};
