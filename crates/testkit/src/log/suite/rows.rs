//! Rows: put, replace, delete, look up, walk.

use super::Case;
use super::trial::{Trial, plain};
use model::ports::log::{ROWS_MAX, Read, StoreError, Table};

const T: Table = Table::Other;

fn some(t: &mut Trial<'_>) {
    for key in ["b", "a", "a/2", "a/1", "a/10", "", "a0", "c"] {
        t.put(T, key, &format!("value of {key}"));
    }
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a row is there once it was put, and no other",
        options: plain,
        given: |t| t.put(T, "key", "value"),
        then: |t| {
            t.row(T, "key", Some("value"));
            t.row(T, "ke", None);
            t.row(T, "key2", None);
        },
    },
    Case {
        name: "a row put again has its new value",
        options: plain,
        given: |t| {
            t.put(T, "key", "old and long");
            let now_s = t.subject.now_s();
            t.subject.tidy(now_s);
            t.put(T, "key", "new");
            t.put(T, "empty", "full");
            t.put(T, "empty", "");
        },
        then: |t| {
            t.row(T, "key", Some("new"));
            t.row(T, "empty", Some(""));
            t.keys(T, ("", None, 10), &["empty", "key"]);
        },
    },
    Case {
        name: "a deleted row is gone, and only it",
        options: plain,
        given: |t| {
            some(t);
            let now_s = t.subject.now_s();
            t.subject.tidy(now_s);
            t.delete(T, "a/1");
            t.delete(T, "never was");
            t.put(T, "d", "1");
            t.delete(T, "d");
        },
        then: |t| {
            t.row(T, "a/1", None);
            t.row(T, "a/10", Some("value of a/10"));
            t.keys(T, ("", None, 99), &["", "a", "a/10", "a/2", "a0", "b", "c"]);
        },
    },
    Case {
        name: "a deleted row that was put again is there",
        options: plain,
        given: |t| {
            t.put(T, "key", "first");
            t.delete(T, "key");
            let now_s = t.subject.now_s();
            t.subject.tidy(now_s);
            t.put(T, "key", "second");
        },
        then: |t| {
            t.row(T, "key", Some("second"));
            t.keys(T, ("", None, 99), &["key"]);
        },
    },
    Case {
        name: "tables are apart",
        options: plain,
        given: |t| {
            for table in Table::ALL.into_iter().filter(|table| *table != Table::Rosters) {
                t.put(table, "key", &format!("{table:?}"));
                t.put(table, &format!("{table:?}"), "");
            }
            t.delete(Table::Marks, "key");
        },
        then: |t| {
            t.row(Table::Products, "key", Some("Products"));
            t.row(Table::Devices, "key", Some("Devices"));
            t.row(Table::Marks, "key", None);
            t.keys(Table::Marks, ("", None, 9), &["Marks"]);
            t.keys(Table::Devices, ("", None, 9), &["Devices", "key"]);
        },
    },
    Case {
        name: "a walk gives the rows of a prefix in the order of their keys",
        options: plain,
        given: some,
        then: |t| {
            t.keys(T, ("", None, 99), &["", "a", "a/1", "a/10", "a/2", "a0", "b", "c"]);
            t.keys(T, ("a/", None, 99), &["a/1", "a/10", "a/2"]);
            t.keys(T, ("a", None, 99), &["a", "a/1", "a/10", "a/2", "a0"]);
            t.keys(T, ("x", None, 99), &[]);
        },
    },
    Case {
        name: "a walk goes on after its key, be it there or not",
        options: plain,
        given: some,
        then: |t| {
            t.keys(T, ("a/", Some("a/1"), 99), &["a/10", "a/2"]);
            t.keys(T, ("a/", Some("a/11"), 99), &["a/2"]);
            t.keys(T, ("a/", Some("a/2"), 99), &[]);
            t.keys(T, ("a/", Some("a"), 99), &["a/1", "a/10", "a/2"]);
            t.keys(T, ("a/", Some("b"), 99), &[]);
            t.keys(T, ("", Some("b"), 99), &["c"]);
        },
    },
    Case {
        name: "a walk gives as many rows as were asked for",
        options: plain,
        given: some,
        then: |t| {
            t.keys(T, ("", None, 3), &["", "a", "a/1"]);
            t.keys(T, ("a/", Some("a/1"), 1), &["a/10"]);
            t.keys(T, ("", None, 0), &[]);
        },
    },
    Case {
        name: "a walk goes over old and new rows alike",
        options: plain,
        given: |t| {
            for key in ["a1", "a3", "a5", "a7"] {
                t.put(T, key, "old");
            }
            let now_s = t.subject.now_s();
            t.subject.tidy(now_s);
            t.put(T, "a2", "new");
            t.put(T, "a3", "new");
            t.put(T, "a8", "new");
            t.delete(T, "a5");
        },
        then: |t| {
            t.keys(T, ("a", None, 99), &["a1", "a2", "a3", "a7", "a8"]);
            t.keys(T, ("a", None, 3), &["a1", "a2", "a3"]);
            t.keys(T, ("a", Some("a3"), 1), &["a7"]);
            t.row(T, "a3", Some("new"));
        },
    },
    Case {
        name: "keys of any bytes are kept apart and in order",
        options: plain,
        given: |t| {
            for key in ODD_KEYS {
                let (key, value) = ((*key).into(), (*key).into());
                t.written(model::ports::log::Write::Put { table: T, key, value });
            }
        },
        then: |t| {
            let walk = |prefix: &[u8], after: Option<&[u8]>| Read::Rows {
                table: T,
                prefix: prefix.into(),
                after: after.map(Into::into),
                count: 99,
            };
            for (prefix, after, must) in [
                (&[][..], None, ODD_KEYS),
                (&[0xff], None, &ODD_KEYS[4..]),
                (&[0xff, 0xff], None, &ODD_KEYS[5..]),
                (&[0xff], Some(&[0xff, 0xff][..]), &ODD_KEYS[6..]),
            ] {
                let answer = t.read(walk(prefix, after));
                let must = must.iter().map(|&key| (key.into(), key.into())).collect();
                t.same("rows", answer, Ok(model::ports::log::Done::Rows(must)));
            }
        },
    },
    Case {
        name: "a walk of all that a walk may give",
        options: plain,
        given: |t| {
            for n in 0..ROWS_MAX + 5 {
                t.put(T, &format!("{n:06}"), "");
            }
        },
        then: |t| {
            let walk = |count| Read::Rows { table: T, prefix: [].into(), after: None, count };
            match t.read(walk(ROWS_MAX)) {
                Ok(model::ports::log::Done::Rows(rows)) => t.same("rows", rows.len(), ROWS_MAX),
                other => t.fail(format!("a walk was answered {other:?}")),
            }
            match t.read(walk(ROWS_MAX + 1)) {
                Err(StoreError::TooLarge) => {}
                Ok(model::ports::log::Done::Rows(rows)) => t.same("rows", rows.len(), ROWS_MAX),
                other => t.fail(format!("a walk too long was answered {other:?}")),
            }
        },
    },
];

const ODD_KEYS: &[&[u8]] =
    &[&[], &[0], &[0, 0], &[1, 0xff], &[0xff], &[0xff, 0xff], &[0xff, 0xff, 0], &[0xff, 0xff, 1]];
