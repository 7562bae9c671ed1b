//! Reports about a lost end of a log: only what is known.

use super::*;

const PROMISED: &str = "/log/promised";

fn kept(files: &FaultyFiles) -> Vec<u8> {
    files.read(Path::new(PROMISED)).expect("is there")
}

fn put_back(files: &FaultyFiles, bytes: &[u8]) {
    let mut file = files.open(Path::new(PROMISED)).expect("no fault");
    file.cut(0).and_then(|()| file.write_at(0, bytes)).and_then(|()| file.sync()).expect("room");
}

/// A log of some answered batches: its bytes, what was promised, where its records begin.
fn answered(files: &FaultyFiles) -> (Vec<u8>, Vec<u8>, Vec<u64>) {
    let (mut log, ..) = open(files);
    for n in 0..5_u8 {
        put(&mut log, &vec![n; 20 * usize::from(n)]).expect("room");
    }
    drop(log);
    let bytes = raw(files, 1);
    let source = files.source(&segment_path(Path::new(FOLDER), 1)).expect("is there");
    let mut walk = record_scan::RecordScan::new(&*source, 0, bytes.len() as u64);
    let mut borders = Vec::new();
    while let Some(stop) = walk.next().expect("whole") {
        borders.push(stop.offset);
    }
    (bytes, kept(files), borders)
}

#[test]
fn a_log_cut_anywhere_above_its_answers_says_that_they_are_missing() {
    let files = folder(31);
    let (bytes, promised, borders) = answered(&files);
    let end = Place { segment: 1, offset: bytes.len() as u32 };
    // A log begins with a record of its own, which a log that is cut to nothing begins with again.
    let begun = borders[1];
    let middles = borders.iter().map(|border| border + 5);
    let cuts: Vec<u64> = borders.iter().copied().chain(middles).collect();
    for cut in cuts {
        lay(&files, 1, &bytes[..cut as usize]);
        put_back(&files, &promised);
        let (_, _, found) = open(&files);
        let missing = found.missing().unwrap_or_else(|| panic!("cut at {cut}: {found:?}"));
        assert_eq!((missing.promised.place, missing.promised.index), (end, 5), "cut at {cut}");
        assert_eq!(missing.records(), 5 - missing.end.index, "cut at {cut}");
        let is_below = u64::from(missing.end.place.offset) <= cut.max(begun);
        assert!(missing.end.place < end && is_below, "cut at {cut}: {missing:?}");
        let (_, _, found) = open(&files);
        assert_eq!(found.missing(), None, "cut at {cut}: it is said once");
    }
}

#[test]
fn an_end_that_nobody_heard_of_is_no_loss() {
    let files = folder(32);
    let (bytes, promised, _) = answered(&files);
    let at = durable_mark::read(&files, Path::new(FOLDER)).expect("there");
    let (_, _, found) = open(&files);
    assert_eq!((found.missing(), found.torn), (None, None), "all of it is there");
    let (more, _) = batch::tests::batch(at, &[b"not", b"answered"]);
    for whole in [true, false] {
        let length = if whole { more.len() } else { more.len() - 1 };
        lay(&files, 1, &[&bytes, &more[..length]].concat());
        put_back(&files, &promised);
        let (_, records, found) = open(&files);
        assert_eq!((found.missing(), found.torn.is_some()), (None, !whole));
        assert_eq!(found.promised, Some(at));
        assert_eq!(records.len(), 5 + 2 * usize::from(whole), "a batch is there, or is not");
    }
}

#[test]
fn what_is_not_known_is_not_claimed() {
    let files = folder(33);
    let (bytes, promised, _) = answered(&files);
    let mut wrong = promised.clone();
    wrong[5] ^= 1;
    for kept in [&promised[..11], &[], &wrong] {
        lay(&files, 1, &bytes[..bytes.len() - 1]);
        put_back(&files, kept);
        let (_, _, found) = open(&files);
        assert_eq!((found.promised, found.missing()), (None, None));
        assert!(found.torn.is_some());
    }
}

#[test]
fn a_last_segment_that_is_gone_is_missed() {
    let files = folder(34);
    let small = LogSettings { segment_bytes: 100, ..settings() };
    let (mut log, ..) = open_at(&files, small, Position::default()).expect("opens");
    (0..3).for_each(|_| {
        put(&mut log, &[7; 200]).expect("room");
    });
    let last = log.segments().map(|(number, _)| number).max().expect("some");
    drop(log);
    files.remove(&segment_path(Path::new(FOLDER), last)).expect("is there");
    let (_, _, found) = open_at(&files, small, Position::default()).expect("opens");
    let missing = found.missing().expect("it is missed");
    let (promised, end) = (missing.promised.place, missing.end.place);
    assert_eq!((promised.segment, end.segment), (last, last - 1));
}

#[test]
fn a_power_cut_never_looks_like_a_loss() {
    for seed in 0..200 {
        let files = folder(1_000 + seed);
        let (mut log, ..) = open(&files);
        for n in 0..seed % 7 {
            put(&mut log, &[n as u8; 50]).expect("room");
        }
        log.add(RecordKind::Put, |out| out.extend_from_slice(&[9; 300]));
        drop(log);
        files.crash();
        assert_eq!(open(&files).2.missing(), None, "seed {seed}");
    }
}
