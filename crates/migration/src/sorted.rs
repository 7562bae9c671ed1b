//! Records of many files in the order of their keys, whatever their sum.
//!
//! ```text
//! records ─► a run in memory, sorted ─► a file each ─► merged
//! key u64 | length u32 | bytes
//! ```
//! Records that fit into memory are never written. It knows nothing of what the records are.
//! Invariant: memory is that of one run, or of one record a file; equal keys keep the order in
//! which they came.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bytes of records that are sorted in memory.
pub const RUN_BYTES_MAX: usize = 64 << 20;

/// Files at once: of more the first are merged to one.
const RUNS_MAX: usize = 64;

/// Bytes that a record costs beside its own.
const RECORD_BYTES: usize = 48;

/// Records on their way to be sorted.
pub struct Sorting {
    folder: PathBuf,
    run_bytes_max: usize,
    run: Vec<(u64, Box<[u8]>)>,
    bytes: usize,
    files: Vec<File>,
    count: u64,
}

/// The records, the first key first.
pub struct SortedRecords {
    memory: std::vec::IntoIter<(u64, Box<[u8]>)>,
    sources: Vec<BufReader<File>>,
    /// The next of each source, by key and source: the last is what is in memory.
    heads: BinaryHeap<Reverse<Head>>,
}

/// The next record of a source: its key, the source, and what it is.
type Head = (u64, usize, Box<[u8]>);

impl Sorting {
    /// Makes an empty sorting; files, if any are needed, are in this folder, without a name.
    pub fn new(folder: PathBuf) -> Sorting {
        Sorting::of_runs(folder, RUN_BYTES_MAX)
    }

    fn of_runs(folder: PathBuf, run_bytes_max: usize) -> Sorting {
        let (run, files) = (Vec::new(), Vec::new());
        Sorting { folder, run_bytes_max, run, bytes: 0, files, count: 0 }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// One more.
    pub fn put(&mut self, key: u64, record: Box<[u8]>) -> std::io::Result<()> {
        self.bytes += RECORD_BYTES + record.len();
        self.run.push((key, record));
        self.count += 1;
        if self.bytes < self.run_bytes_max {
            return Ok(());
        }
        let run = std::mem::take(&mut self.run);
        self.bytes = 0;
        let sorted = SortedRecords::of(run, Vec::new())?;
        let file = written(&self.folder, sorted)?;
        self.files.push(file);
        if self.files.len() == RUNS_MAX {
            let merged = SortedRecords::of(Vec::new(), std::mem::take(&mut self.files))?;
            self.files.push(written(&self.folder, merged)?);
        }
        Ok(())
    }

    /// All of them, sorted.
    pub fn sorted(self) -> std::io::Result<SortedRecords> {
        SortedRecords::of(self.run, self.files)
    }
}

impl SortedRecords {
    fn of(mut run: Vec<(u64, Box<[u8]>)>, files: Vec<File>) -> std::io::Result<SortedRecords> {
        run.sort_by_key(|(key, _)| *key);
        let mut sources: Vec<_> = files.into_iter().map(BufReader::new).collect();
        for source in &mut sources {
            source.seek(SeekFrom::Start(0))?;
        }
        let memory = run.into_iter();
        let mut sorted = SortedRecords { memory, sources, heads: BinaryHeap::new() };
        for at in 0..=sorted.sources.len() {
            sorted.pull(at)?;
        }
        Ok(sorted)
    }

    /// The next record of a source becomes its head.
    fn pull(&mut self, at: usize) -> std::io::Result<()> {
        let next = match self.sources.get_mut(at) {
            Some(source) => record(source)?,
            None => self.memory.next(),
        };
        self.heads.extend(next.map(|(key, bytes)| Reverse((key, at, bytes))));
        Ok(())
    }

    /// The next one.
    pub fn next_record(&mut self) -> std::io::Result<Option<(u64, Box<[u8]>)>> {
        let Some(Reverse((key, at, bytes))) = self.heads.pop() else { return Ok(None) };
        self.pull(at)?;
        Ok(Some((key, bytes)))
    }
}

fn record(source: &mut impl Read) -> std::io::Result<Option<(u64, Box<[u8]>)>> {
    let mut head = [0; 12];
    match source.read_exact(&mut head) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let (key, length) = head.split_at(8);
    let key = u64::from_le_bytes(key.try_into().expect("eight bytes"));
    let length = u32::from_le_bytes(length.try_into().expect("four bytes"));
    let mut bytes = vec![0; length as usize].into_boxed_slice();
    source.read_exact(&mut bytes)?;
    Ok(Some((key, bytes)))
}

fn written(folder: &Path, mut sorted: SortedRecords) -> std::io::Result<File> {
    let mut file = BufWriter::new(nameless(folder)?);
    while let Some((key, bytes)) = sorted.next_record()? {
        let length = u32::try_from(bytes.len()).map_err(|_| ErrorKind::FileTooLarge)?;
        file.write_all(&key.to_le_bytes())?;
        file.write_all(&length.to_le_bytes())?;
        file.write_all(&bytes)?;
    }
    file.into_inner().map_err(std::io::IntoInnerError::into_error)
}

/// A new file that only its owner may read, and that is gone with its handle.
fn nameless(folder: &Path) -> std::io::Result<File> {
    for number in 0..u16::MAX {
        let path = folder.join(format!("holdline-{}-{number}", std::process::id()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        match options.open(&path) {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    fn all(sorting: Sorting) -> Vec<(u64, Box<[u8]>)> {
        let mut sorted = sorting.sorted().expect("readable");
        std::iter::from_fn(|| sorted.next_record().expect("readable")).collect()
    }

    #[test]
    fn records_come_in_the_order_of_their_keys_however_many_files_that_takes() {
        let folder = tempfile::tempdir().expect("a folder");
        for run_bytes_max in [1, 100, 5_000, usize::MAX] {
            let mut sorting = Sorting::of_runs(folder.path().into(), run_bytes_max);
            let mut rng = Prng::new(7);
            let mut put: Vec<(u64, Box<[u8]>)> = Vec::new();
            for number in 0..1_000_u32 {
                let (key, record) = (rng.below(300), Box::from(number.to_le_bytes()));
                put.push((key, record));
            }
            for (key, record) in &put {
                sorting.put(*key, record.clone()).expect("written");
            }
            assert_eq!(sorting.count(), 1_000);
            put.sort_by_key(|(key, _)| *key);
            assert_eq!(all(sorting), put, "{run_bytes_max}");
        }
        assert_eq!(folder.path().read_dir().expect("there").count(), 0, "nothing is left");
        assert_eq!(all(Sorting::new(folder.path().into())), []);
    }
}
