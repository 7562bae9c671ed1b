//! Refusals: what keeps its order is not carried out before its party has heard what was refused.
//!
//! A party hands over more before it hears of an answer. Was one of its appends refused for want of
//! room, and is there room for the next, that would overtake it. It knows only appends that ask for
//! it ([`Append::heard`]). Invariant: between a refusal and the first append of whoever has heard
//! of it, none of the party's is carried out.

use model::ports::log::{Append, Done, Party, StoreError, Ticket, Write};
use std::collections::BTreeMap;

/// The last ticket of each party that was refused.
#[derive(Default)]
pub(crate) struct Refusals(BTreeMap<Party, Ticket>);

/// A call's name.
type Name = (Party, Ticket);

impl Refusals {
    /// Which of these writes are refused with those before them; none at all: no list.
    pub(super) fn behind(&self, names: &[Name], writes: &[Write]) -> Option<Vec<bool>> {
        if self.0.is_empty() {
            return None;
        }
        let each = names.iter().zip(writes);
        let behind: Vec<bool> =
            each.map(|((party, _), write)| self.is_behind(*party, write)).collect();
        behind.contains(&true).then_some(behind)
    }

    fn is_behind(&self, party: Party, write: &Write) -> bool {
        let Some(heard) = heard(write) else { return false };
        self.0.get(&party).is_some_and(|refused| *refused >= heard)
    }

    /// Notes the answers to these writes.
    pub(super) fn note(
        &mut self,
        names: &[Name],
        writes: &[Write],
        answers: &[Result<Done, StoreError>],
    ) {
        for ((name, write), answer) in names.iter().zip(writes).zip(answers) {
            if matches!(answer, Err(StoreError::Full | StoreError::Busy)) && heard(write).is_some()
            {
                self.0.insert(name.0, name.1);
            }
        }
    }
}

fn heard(write: &Write) -> Option<Ticket> {
    match write {
        Write::Append(Append { heard, .. }) => *heard,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::ShardId;
    use model::service::ServiceKind;
    use model::timeline::Message;
    use std::sync::Arc;

    const ONE: Party = Party::Service(ServiceKind::Chat, ShardId(0));

    fn append(heard: Option<Ticket>) -> Write {
        let message = Message { id: 1, at_s: 0, label: [].into(), body: [].into() };
        Write::Append(Append {
            message: Arc::new(message),
            to: vec![],
            once: None,
            heard,
            ends: false,
        })
    }

    fn is_behind(refusals: &Refusals, party: Party, ticket: Ticket, heard: Option<Ticket>) -> bool {
        refusals.behind(&[(party, ticket)], &[append(heard)]).is_some()
    }

    #[test]
    fn what_keeps_its_order_is_refused_until_its_party_has_heard_of_the_last_refusal() {
        let mut refusals = Refusals::default();
        let full = |ticket| ([(ONE, ticket)], [Err(StoreError::Full)]);
        let (names, answers) = full(5);
        refusals.note(&names, &[append(None)], &answers);
        assert!(!is_behind(&refusals, ONE, 6, Some(0)), "what was refused keeps no order");
        refusals.note(&names, &[append(Some(0))], &answers);
        assert!(is_behind(&refusals, ONE, 6, Some(0)) && is_behind(&refusals, ONE, 6, Some(5)));
        assert!(
            !is_behind(&refusals, ONE, 6, None) && !is_behind(&refusals, Party::Users, 6, Some(0))
        );
        refusals.note(&[(ONE, 6)], &[append(Some(0))], &[Err(StoreError::Busy)]);
        assert!(is_behind(&refusals, ONE, 7, Some(6)), "that of the sixth is not heard of");
        assert!(!is_behind(&refusals, ONE, 7, Some(7)));
    }
}
