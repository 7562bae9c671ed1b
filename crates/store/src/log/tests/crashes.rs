//! A scripted life of a log, with a crash at every one of its points, and with disks that fail.

use super::*;
use base::prng::Prng;

/// Records that a log was given, and those that it must give back.
struct Told {
    /// Every record of a batch that was committed, or was being committed at the end.
    records: Vec<Record>,
    /// So many of them are on stable storage for certain.
    sure: usize,
    /// The last checkpoint: nothing before it is replayed.
    from: Position,
}

/// Batches, rolls, checkpoints and removals until `steps` are done or the disk fails.
fn live(log: &mut Log, rng: &mut Prng, told: &mut Told, steps: u64) {
    let always = log.settings.fsync == Fsync::Always;
    for _ in 0..steps {
        let done = match rng.below(10) {
            0 => log.roll(),
            1 => checkpoint(log, told),
            2 => log.sync().map(|()| told.sure = told.records.len()),
            _ => batch(log, rng, told, always),
        };
        if done == Err(StoreError::Failed) {
            return;
        }
    }
}

fn batch(log: &mut Log, rng: &mut Prng, told: &mut Told, always: bool) -> Result<(), StoreError> {
    let before = told.records.len();
    for _ in 0..=rng.below(4) {
        let payload = vec![rng.draw() as u8; rng.below(1_500) as usize];
        let (place, _) = log.add(RecordKind::Put, |out| out.extend_from_slice(&payload));
        told.records.push((place, RecordKind::Put, payload));
    }
    let done = log.commit(if rng.one_in(8) { Purpose::End } else { Purpose::Store });
    match done {
        Ok(()) if always => told.sure = told.records.len(),
        Ok(()) | Err(StoreError::Failed) => {}
        Err(_) => told.records.truncate(before),
    }
    done
}

/// Everything before it is known elsewhere, so old segments may go.
fn checkpoint(log: &mut Log, told: &mut Told) -> Result<(), StoreError> {
    log.sync()?;
    told.sure = told.records.len();
    told.from = log.position();
    let old = log.segments().map(|(number, _)| number).find(|n| *n < told.from.place.segment);
    if let Some(old) = old {
        told.records.retain(|(place, ..)| place.segment != old);
        told.sure = told.records.len();
        // A failure leaves it for later.
        let _ = log.remove(old);
    }
    Ok(())
}

/// Opens the log again and compares.
fn check(files: &FaultyFiles, settings: LogSettings, told: &mut Told, name: &str) -> Log {
    let opened = open_at(files, settings, told.from);
    let (log, records, _) = opened.unwrap_or_else(|error| panic!("{name}: {error}"));
    let before = told.records.iter().filter(|(place, ..)| *place < told.from.place).count();
    let expected = &told.records[before..];
    assert!(records.len() >= told.sure - before.min(told.sure), "{name}: something is lost");
    assert!(records.len() <= expected.len(), "{name}: something was never taken");
    assert_eq!(records, expected[..records.len()], "{name}");
    for (place, _, payload) in &told.records[..before] {
        let length = payload.len() as u32 + 9;
        assert_eq!(&log.reader().read(*place, length).expect(name).1, payload, "{name}");
    }
    told.records.truncate(before + records.len());
    told.sure = told.records.len();
    log
}

fn crash_at(point: Option<u64>, seed: u64, settings: LogSettings) -> FaultyFiles {
    let name = format!("seed {seed}, point {point:?}, {:?}", settings.fsync);
    let files = folder(seed.wrapping_mul(1_000_003) + point.unwrap_or(0));
    let before = files.points();
    if let Some(point) = point {
        files.crash_at(before + point);
    }
    let mut told = Told { records: Vec::new(), sure: 0, from: Position::default() };
    let mut rng = Prng::new(seed);
    if let Ok((mut log, ..)) = open_at(&files, settings, Position::default()) {
        live(&mut log, &mut rng, &mut told, 40);
    }
    if point.is_some() {
        assert!(files.is_off(), "{name}: there is no such point");
        files.crash();
        let mut log = check(&files, settings, &mut told, &name);
        live(&mut log, &mut rng, &mut told, 10);
        drop(log);
        files.crash();
        drop(check(&files, settings, &mut told, &name));
        drop(check(&files, settings, &mut told, &name));
    }
    files
}

#[test]
fn a_crash_at_any_point_loses_nothing_that_was_committed() {
    for (seed, fsync) in [
        (1, Fsync::Always),
        (2, Fsync::Always),
        (3, Fsync::Never),
        (4, Fsync::Interval(Duration::from_secs(1))),
    ] {
        let settings = LogSettings { fsync, segment_bytes: 6_000, ..settings() };
        let points = crash_at(None, seed, settings).points() - folder(0).points();
        assert!(points > 80, "{points}");
        for point in 0..points {
            crash_at(Some(point), seed, settings);
        }
    }
}

#[test]
fn a_disk_that_fails_by_chance_loses_nothing_that_was_committed() {
    let (mut full, mut failed) = (0, 0);
    for seed in 0..700 {
        let name = format!("seed {seed}");
        let files = folder(seed);
        let fsync = if seed % 3 == 0 { Fsync::Never } else { Fsync::Always };
        let settings = LogSettings { fsync, segment_bytes: 6_000, ..settings() };
        let mut told = Told { records: Vec::new(), sure: 0, from: Position::default() };
        let mut rng = Prng::new(seed);
        for life in 0..3 {
            let mut log = check(&files, settings, &mut told, &name);
            files.fail_one_in(Op::Write, 12, Error::NoSpace);
            files.fail_one_in(Op::Name, 12, Error::NoSpace);
            files.fail_one_in(Op::Sync, 60, Error::Io);
            files.fail_one_in(Op::SyncFolder, 40, Error::Io);
            live(&mut log, &mut rng, &mut told, 40);
            (full, failed) = (full + u32::from(log.is_full()), failed + u32::from(log.is_failed()));
            for op in [Op::Write, Op::Name, Op::Sync, Op::SyncFolder] {
                files.fail_one_in(op, 0, Error::Io);
            }
            match (seed + life) % 2 {
                0 => files.crash(),
                _ => files.kill(),
            }
        }
        drop(check(&files, settings, &mut told, &name));
        files.crash();
        drop(check(&files, settings, &mut told, &name));
    }
    assert!(full > 10 && failed > 10, "{full} {failed}");
}
