//! The files of the history: `current.jsonl`, and `previous.jsonl` before it.
//!
//! Each has half of the bytes that there may be. When the current one is full it takes the place of
//! the previous one, whose lines go. A question reads both from their beginnings, about a second
//! for a gigabyte. Invariant: each file, and what each start wrote, begins with who wrote it.

use crate::shard_logic::history_line as line;
use model::ports::presence::directory::Lease;
use model::ports::presence::queries::PastTransition;
use model::presence::Principal;
use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const CURRENT: &str = "current.jsonl";
const PREVIOUS: &str = "previous.jsonl";

/// Bytes that are read at once.
const READ_BYTES: usize = 256 * 1024;

/// Longest line that is read: keys and users are below it, whatever is escaped in them.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// The files, open.
pub(super) struct HistoryFiles {
    folder: PathBuf,
    half_bytes: u64,
    head: String,
    current: File,
    bytes: u64,
}

impl HistoryFiles {
    /// Opens them, or makes them.
    pub(super) fn open(folder: &Path, bytes_max: u64, lease: &Lease) -> io::Result<HistoryFiles> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let (half_bytes, head) = (bytes_max / 2, line::head(lease));
        let current = current(folder)?;
        let bytes = current.metadata()?.len();
        let mut files = HistoryFiles { folder: folder.into(), half_bytes, head, current, bytes };
        let mut last = [b'\n'];
        if bytes > 0 {
            files.current.read_exact_at(&mut last, bytes - 1)?;
        }
        if last != *b"\n" {
            files.write(b"\n")?; // a line that a crash cut off ends here
        }
        files.begin()?;
        Ok(files)
    }

    /// Appends whole lines.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.bytes + lines.len() as u64 > self.half_bytes && self.bytes > self.head.len() as u64
        {
            fs::rename(self.folder.join(CURRENT), self.folder.join(PREVIOUS))?;
            (self.current, self.bytes) = (current(&self.folder)?, 0);
            self.begin()?;
        }
        self.write(lines)
    }

    fn begin(&mut self) -> io::Result<()> {
        let head = std::mem::take(&mut self.head);
        let begun = self.write(head.as_bytes());
        self.head = head;
        begun
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.current.write_all(bytes);
        match written {
            Ok(()) => self.bytes += bytes.len() as u64,
            // What was written in part, if anything, is no line.
            Err(_) => self.current.set_len(self.bytes)?,
        }
        written
    }

    /// The last transitions of somebody, at most so many, oldest first.
    pub(super) fn last(&self, who: &Principal, count: usize) -> io::Result<Vec<PastTransition>> {
        let mut search = Search::new(who, count);
        for name in [PREVIOUS, CURRENT] {
            match File::open(self.folder.join(name)) {
                Ok(file) => search.read(file)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(search.found.into())
    }
}

fn current(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).read(true).mode(0o600).open(folder.join(CURRENT))
}

/// A look through the lines for one principal.
struct Search {
    beginning: String,
    count: usize,
    found: VecDeque<PastTransition>,
    /// Node and start that wrote the lines that are read.
    lease: Option<Lease>,
}

impl Search {
    fn new(who: &Principal, count: usize) -> Search {
        let (found, lease) = Default::default();
        Search { beginning: line::beginning(who), count, found, lease }
    }

    fn read(&mut self, file: File) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(READ_BYTES, file);
        let mut line = Vec::new();
        loop {
            line.clear();
            if (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            self.take(&line);
        }
    }

    fn take(&mut self, line: &[u8]) {
        if line.starts_with(self.beginning.as_bytes()) {
            let one = self.lease.as_ref().and_then(|lease| line::read(line, lease));
            one.into_iter().for_each(|one| self.keep(one));
        } else if !line.starts_with(b"{\"key\":")
            && let Some(lease) = line::read_head(line)
        {
            self.lease = Some(lease);
        }
    }

    /// Keeps a transition. One that went offline gets the address that it came from, if both were
    /// in the same start.
    fn keep(&mut self, mut one: PastTransition) {
        let before = self.found.back().filter(|it| it.online && it.lease == one.lease);
        if !one.online && one.peer.is_none() {
            one.peer = before.and_then(|before| before.peer);
        }
        if self.found.len() == self.count.max(1) {
            self.found.pop_front();
        }
        self.found.push_back(one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard_logic::history_line::put;
    use crate::shard_logic::history_line::tests::{came, lease, went, who};
    use model::presence::Transition;

    fn lines(transitions: &[Transition]) -> String {
        let mut lines = String::new();
        transitions.iter().for_each(|it| put(it, &mut lines));
        lines
    }

    fn versions(files: &HistoryFiles, key: &str, count: usize) -> Vec<u64> {
        let found = files.last(&who(key), count).expect("it can be read");
        found.iter().map(|it| it.version.0).collect()
    }

    #[test]
    fn one_that_went_is_told_with_the_address_that_it_had_come_from() {
        let folder = tempfile::tempdir().expect("a folder");
        let open =
            |boot| HistoryFiles::open(folder.path(), 1 << 20, &lease(boot)).expect("it is made");
        let mut files = open(1);
        let all = [came("#a", 1), came("#b", 1), went("#a", 2), went("#a", 3), came("#a", 4)];
        files.append(lines(&all).as_bytes()).expect("there is room");
        // The server was killed: that the client went was never written.
        let mut files = open(2);
        files.append(lines(&[went("#a", 5)]).as_bytes()).expect("there is room");
        let found = files.last(&who("#a"), 9).expect("it can be read");
        let told: Vec<_> =
            found.iter().map(|it| (it.online, it.peer.is_some(), it.lease.boot)).collect();
        let expected = [
            (true, true, 1),
            (false, true, 1),
            (false, false, 1),
            (true, true, 1),
            (false, false, 2),
        ];
        assert_eq!(told, expected);
        assert_eq!(versions(&files, "#a", 2), [4, 5]);
        assert_eq!((versions(&files, "#b", 2), versions(&files, "#c", 2)), (vec![1], vec![]));
    }

    #[test]
    fn files_have_as_many_bytes_as_they_may_and_the_oldest_lines_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut files = HistoryFiles::open(folder.path(), 4_000, &lease(1)).expect("it is made");
        for n in 1..=200 {
            files.append(lines(&[came("shop#a", n)]).as_bytes()).expect("there is room");
            let names = [CURRENT, PREVIOUS].map(|name| folder.path().join(name));
            let bytes: u64 =
                names.iter().filter_map(|it| it.metadata().ok()).map(|it| it.len()).sum();
            assert!(bytes <= 4_000, "{n}: {bytes}");
        }
        let kept = versions(&files, "shop#a", 1_000);
        let first = kept[0];
        assert_eq!(kept, (first..=200).collect::<Vec<u64>>(), "without a gap up to the last");
        assert!((15..40).contains(&kept.len()), "{}", kept.len());
    }

    #[test]
    fn a_line_that_a_crash_cut_off_costs_that_line_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut files = HistoryFiles::open(folder.path(), 1 << 20, &lease(1)).expect("it is made");
        files.append(lines(&[came("#a", 1), went("#a", 2)]).as_bytes()).expect("there is room");
        let path = folder.path().join(CURRENT);
        let bytes = path.metadata().expect("it is there").len();
        OpenOptions::new()
            .write(true)
            .open(&path)
            .expect("it opens")
            .set_len(bytes - 9)
            .expect("cut");
        let mut files = HistoryFiles::open(folder.path(), 1 << 20, &lease(2)).expect("it opens");
        files.append(lines(&[came("#a", 3)]).as_bytes()).expect("there is room");
        assert_eq!(versions(&files, "#a", 9), [1, 3]);
    }
}
