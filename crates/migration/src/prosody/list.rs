//! Lists of Prosody's, an item at a time: archives, what waits, items of nodes.
//!
//! ```text
//! item({ … });
//! item({ … });
//! ```
//! Invariant: one item is in memory, of a limited size; one that is not understood is reported, and
//! the next is read.

use crate::lua::Table;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Bytes of an item: a picture of somebody, or a message.
pub const ITEM_BYTES_MAX: usize = 16 << 20;

const BEGIN: &[u8] = b"item(";
const END: &[u8] = b");";

/// The items of a file that may be there. Each comes with its number, from 1.
pub(super) fn each(
    file: &Path,
    mut take: impl FnMut(usize, Result<Table, String>) -> Result<(), String>,
) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", file.display());
    let source = match File::open(file) {
        Ok(source) => source,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(told(error)),
    };
    let (mut source, mut number) = (BufReader::new(source), 0);
    let (mut item, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        let most = ITEM_BYTES_MAX as u64 + 1;
        (&mut source).take(most).read_until(b'\n', &mut line).map_err(told)?;
        let begins = line.starts_with(BEGIN);
        if (begins || line.is_empty()) && !item.is_empty() {
            number += 1;
            take(number, table(&item))?;
            item.clear();
        }
        if line.is_empty() {
            return Ok(());
        }
        // What is too long is kept as far as it tells that.
        if item.len() <= ITEM_BYTES_MAX {
            item.extend_from_slice(&line);
        }
    }
}

fn table(item: &[u8]) -> Result<Table, String> {
    if item.len() > ITEM_BYTES_MAX {
        return Err(format!("it has more than {ITEM_BYTES_MAX} bytes"));
    }
    let inner = item.strip_prefix(BEGIN).and_then(|rest| rest.trim_ascii_end().strip_suffix(END));
    let inner = inner.ok_or("not an item of a Prosody list")?;
    Table::item(inner).map_err(|fault| fault.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Vec<(usize, Result<Option<String>, String>)> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("ann.list");
        std::fs::write(&file, text).expect("written");
        let mut found = Vec::new();
        let done = each(&file, |number, table| {
            found.push((number, table.map(|table| table.text("key").map(String::from))));
            Ok(())
        });
        assert_eq!(done, Ok(()));
        found
    }

    #[test]
    fn items_come_one_by_one_and_a_bent_one_does_not_hide_the_next() {
        let text = b"item({\n\t[\"key\"] = \"a\\nitem(\";\n\t{ \"x\" };\n});\n\
                     item({ os.exit() });\nitem({ key = 'c' });\nitem({ key = 'd'";
        let found = read(text);
        assert_eq!(found[0], (1, Ok(Some("a\nitem(".into()))));
        assert!(found[1].0 == 2 && found[1].1.is_err());
        assert_eq!(found[2], (3, Ok(Some("c".into()))));
        assert!(found[3].1.as_ref().is_err_and(|why| why.contains("not an item")), "cut off");
        assert_eq!(found.len(), 4);
        assert_eq!(read(b""), []);
        let missing = each(Path::new("/nowhere/at/all"), |_, _| unreachable!("nothing is there"));
        assert_eq!(missing, Ok(()));
    }

    #[test]
    fn an_item_has_a_limited_size() {
        let long = [b"item({ key = '", &vec![b'x'; ITEM_BYTES_MAX][..], b"' });\n"].concat();
        let found = read(&[&long[..], b"item({ key = 'b' });\n"].concat());
        assert!(found[0].1.as_ref().is_err_and(|why| why.contains("more than")));
        assert_eq!(found.last(), Some(&(2, Ok(Some("b".into())))));
    }
}
