//! Counts by product and protocol, from transitions alone.
//!
//! Knows no principal: that each goes as often as it came is its owner's part. Clients of
//! publish-and-subscribe protocols have no product, and are counted under an empty one.

use model::ports::presence::queries::PresenceCounts;
use model::presence::{Principal, Transition};

/// Counts one that came or went.
pub(crate) fn note(counts: &mut PresenceCounts, transition: &Transition) {
    let product = match &transition.who {
        Principal::Device(product, _) => product.as_str(),
        Principal::Client(_) => "",
    };
    let count = counts.of.entry((product.into(), transition.protocol)).or_default();
    if transition.state.is_online() {
        count.online += 1;
        count.arrivals += 1;
    } else {
        count.online = count.online.saturating_sub(1);
        count.departures += 1;
    }
}
