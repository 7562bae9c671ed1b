//! Tests of the whole crate: names, documentation, and that no text of the kernel breaks it.

use crate::columns::{ALARMS, all, tables};
use crate::doctor;
use crate::folder::{Folder, fixtures, same};
use crate::{ObservedHost, Process, environment_at};
use lab::cause::Cause;
use lab::host::{Need, Role};
use lab::series::FigureKind;
use std::collections::BTreeSet;

#[test]
fn names_are_given_once_and_alarms_are_totals() {
    let names: BTreeSet<&str> = all().map(|(column, _)| column.name.as_ref()).collect();
    assert_eq!(names.len(), all().count());
    for alarm in ALARMS {
        let found = all().find(|(column, _)| column.name == *alarm);
        assert_eq!(found.map(|(column, _)| column.kind), Some(FigureKind::Total), "{alarm}");
    }
    assert!(all().all(|(_, meaning)| meaning.ends_with('.')));
}

#[test]
fn the_counters_that_causes_name_are_read_here() {
    for cause in Cause::ALL {
        let (_, name) = cause.counter().split_once('.').unwrap_or_default();
        let known = name.is_empty() || all().any(|(column, _)| column.name == name);
        assert!(known, "{}: {}", cause.name(), cause.counter());
    }
}

#[test]
fn the_docs_list_every_figure() {
    let docs = include_str!("../../../docs/counters.md");
    let words = docs.split("\n## ").next().unwrap_or_default();
    let path = fixtures().join("../../../docs/counters.md");
    same(&path, &format!("{words}{}", tables()));
}

#[test]
fn whatever_a_file_holds_nothing_panics() {
    let folder = Folder::machine();
    with_process(&folder);
    let mut host = ObservedHost::at(folder.place());
    let mut process = Process::of_pid_at(folder.place(), 70).expect("it is there");
    let malformed: [&[u8]; 6] = [
        b"",
        b"\xff\xfe\0\n\n:",
        b"18446744073709551615 18446744073709551615 18446744073709551615\n",
        b"-1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1\n",
        b"cpu cpu0 0::/ 1:a TCP: Tcp:\nTcp: 1\nTcp:\n0::/../../..\n",
        b"x: 99999999999999999999999999 kB\n[ ( ) { \"",
    ];
    for path in folder.files() {
        let whole = folder.text(&path);
        let halves = [whole.len() / 2, whole.len().saturating_sub(2)];
        let cut = halves.map(|at| whole.as_bytes()[..at].to_vec());
        // The same texts with numbers that no sum may run over.
        let large = whole.replace(' ', " 18446744073709551615").into_bytes();
        let texts = malformed.iter().map(|text| text.to_vec()).chain(cut).chain([large]);
        for text in texts {
            folder.put(&path, text);
            host.read();
            process.read();
            environment_at(&folder.place());
            if path.contains("cgroup") || path.contains("70") || path.contains("tcp") {
                ObservedHost::at(folder.place()).read();
                let _ = Process::of_port_at(folder.place(), 8_123);
            }
            for role in [Role::Server, Role::Client] {
                let need = Need { pid: Some(70), ..Need::of(u64::MAX, role) };
                doctor::examine_at(&folder.place(), &need);
            }
        }
        folder.put(&path, whole);
    }
}

/// Adds a process 70 that listens on port 8123.
fn with_process(folder: &Folder) {
    folder.put("proc/70/stat", "70 (a b) S 1 70 70 0 -1 4 1 2 3 4 250 50 7 8 20 0 2 0 900 1 2\n");
    folder.put("proc/70/status", "FDSize: 64\nVmRSS: 100 kB\nRssAnon: 60 kB\nVmSwap: 0 kB\n");
    folder.put("proc/70/limits", "Max open files   1024   4096   files\n");
    folder.put("proc/70/io", "read_bytes: 1\nwrite_bytes: 2\n");
    folder.put("proc/70/cgroup", "4:memory:/box\n0::/\n");
    folder.put("proc/70/task/70/schedstat", "1000000 0 1\n");
    folder.put("proc/70/task/70/status", "voluntary_ctxt_switches: 5\n");
    folder.link("proc/70/fd/3", "socket:[11442244]");
}
