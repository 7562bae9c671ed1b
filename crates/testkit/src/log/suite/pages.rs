//! Pulls: both directions, edges, limits by count and bytes, and whether there are more.

use super::Case;
use super::trial::{ALL, Pulled, Trial, from_first, line, plain, sized};
use model::ports::log::PAGE_MESSAGES_MAX;
use model::timeline::Seq;

/// Ten messages in timeline 1, fifty bytes each, ids ten times their places.
fn ten(t: &mut Trial<'_>) {
    for n in 1..=10 {
        t.append(&[line(1)], &sized(n * 10, 50));
    }
}

/// Places 4, 5 and 6 of ten are gone.
fn holed(t: &mut Trial<'_>) {
    ten(t);
    t.remove(line(1), &[4, 5, 6]);
}

fn places(seqs: impl IntoIterator<Item = Seq>) -> Vec<(Seq, u64)> {
    seqs.into_iter().map(|seq| (seq, seq * 10)).collect()
}

fn ahead(from: Seq, count: usize) -> Pulled {
    Pulled { from, count, ..ALL }
}

fn back(from: Seq, count: usize) -> Pulled {
    Pulled { from, count, backwards: true, ..ALL }
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a page forwards begins after its place",
        options: plain,
        given: ten,
        then: |t| {
            t.page(line(1), ahead(0, 3), (&places(1..=3), true));
            t.page(line(1), ahead(3, 3), (&places(4..=6), true));
            t.page(line(1), ahead(9, 3), (&places([10]), false));
        },
    },
    Case {
        name: "a page backwards begins before its place, the latest first",
        options: plain,
        given: ten,
        then: |t| {
            t.page(line(1), back(Seq::MAX, 3), (&places([10, 9, 8]), true));
            t.page(line(1), back(8, 3), (&places([7, 6, 5]), true));
            t.page(line(1), back(2, 3), (&places([1]), false));
        },
    },
    Case {
        name: "a page that ends with the last message says that there are no more",
        options: plain,
        given: ten,
        then: |t| {
            t.page(line(1), ahead(7, 3), (&places(8..=10), false));
            t.page(line(1), ahead(0, 10), (&places(1..=10), false));
            t.page(line(1), ahead(0, 9), (&places(1..=9), true));
            t.page(line(1), back(4, 3), (&places([3, 2, 1]), false));
            t.page(line(1), back(11, 10), (&places((1..=10).rev()), false));
            t.page(line(1), back(11, 9), (&places((2..=10).rev()), true));
        },
    },
    Case {
        name: "beyond the ends there is nothing",
        options: plain,
        given: ten,
        then: |t| {
            t.page(line(1), ahead(10, 3), (&[], false));
            t.page(line(1), ahead(11, 3), (&[], false));
            t.page(line(1), ahead(Seq::MAX, 3), (&[], false));
            t.page(line(1), back(0, 3), (&[], false));
            t.page(line(1), back(1, 3), (&[], false));
        },
    },
    Case {
        name: "a page goes over holes",
        options: plain,
        given: holed,
        then: |t| {
            t.page(line(1), ahead(2, 2), (&places([3, 7]), true));
            t.page(line(1), ahead(3, 2), (&places([7, 8]), true));
            t.page(line(1), ahead(4, 4), (&places(7..=10), false));
            t.page(line(1), back(8, 2), (&places([7, 3]), true));
            t.page(line(1), back(7, 9), (&places([3, 2, 1]), false));
            t.page(line(1), back(5, 2), (&places([3, 2]), true));
        },
    },
    Case {
        name: "removed messages at an end are not more",
        options: plain,
        given: |t| {
            ten(t);
            t.remove(line(1), &[1, 2, 9, 10]);
        },
        then: |t| {
            t.page(line(1), ahead(5, 3), (&places(6..=8), false));
            t.page(line(1), ahead(8, 3), (&[], false));
            t.page(line(1), back(6, 3), (&places([5, 4, 3]), false));
            t.page(line(1), back(3, 3), (&[], false));
        },
    },
    Case {
        name: "a page has bodies of at most so many bytes",
        options: plain,
        given: ten,
        then: |t| {
            let bytes = |bytes| Pulled { bytes, ..ALL };
            t.page(line(1), bytes(150), (&places(1..=3), true));
            t.page(line(1), bytes(149), (&places(1..=2), true));
            t.page(line(1), bytes(500), (&places(1..=10), false));
            t.page(line(1), bytes(499), (&places(1..=9), true));
            let late = Pulled { bytes: 120, ..back(Seq::MAX, 100) };
            t.page(line(1), late, (&places([10, 9]), true));
        },
    },
    Case {
        name: "a page has one message however long",
        options: plain,
        given: ten,
        then: |t| {
            t.page(line(1), Pulled { bytes: 1, ..ALL }, (&places([1]), true));
            t.page(line(1), Pulled { bytes: 0, ..ahead(9, 5) }, (&places([10]), false));
            t.page(line(1), Pulled { bytes: 0, ..back(2, 5) }, (&places([1]), false));
        },
    },
    Case {
        name: "a page is never longer than the limit of the port",
        options: plain,
        given: |t| t.fill(line(1), 1..=PAGE_MESSAGES_MAX as u64 + 2),
        then: |t| {
            let all = Pulled { count: usize::MAX, ..ALL };
            t.page(line(1), all, (&from_first(1..=PAGE_MESSAGES_MAX as u64), true));
            let late = Pulled { from: 2, ..all };
            let must: Vec<_> = (3..=PAGE_MESSAGES_MAX as u64 + 2).map(|n| (n, n)).collect();
            t.page(line(1), late, (&must, false));
        },
    },
    Case {
        name: "pages of old and new messages join",
        options: plain,
        given: |t| {
            t.fill(line(1), 1..=20);
            let now_s = t.subject.now_s();
            t.subject.tidy(now_s);
            t.fill(line(1), 21..=40);
            t.subject.tidy(now_s);
            t.fill(line(1), 41..=60);
        },
        then: |t| {
            t.holds(line(1), &from_first(1..=60));
            for from in [0, 19, 20, 21, 39, 40, 41, 55] {
                let ids = (from + 1..=60).take(7).map(|n| (n, n)).collect::<Vec<_>>();
                t.page(line(1), ahead(from, 7), (&ids, from + 7 < 60));
                let ids = (1..from).rev().take(7).map(|n| (n, n)).collect::<Vec<_>>();
                t.page(line(1), back(from, 7), (&ids, from > 8));
            }
        },
    },
];
