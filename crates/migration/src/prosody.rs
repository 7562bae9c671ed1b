//! The folder in which Prosody keeps a host: `accounts/NAME.dat`, a table of literals each.
//!
//! ```text
//! /var/lib/prosody/example%2ecom/accounts/ann.dat
//!     password                                          with internal_plain
//!     salt, iteration_count, stored_key, server_key     with internal_hashed; keys in hexadecimal
//!     disabled                                          since 13.0
//! ```
//! Names of files are escaped as `%xx`. The length of keys tells their hash. [`walk`] reads other
//! data of the accounts. Invariant: a file that is not understood is named and changes nothing.

mod element;
mod list;
mod occupants;
mod rooms;
mod stores;

pub use list::ITEM_BYTES_MAX;
pub use occupants::OccupantIds;
pub use stores::walk;

use crate::account::{Account, Found, Keys};
use crate::lua::{Literal, Table};
use crate::{ACCOUNTS_MAX, Moving};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bytes of an account's file.
pub const FILE_BYTES_MAX: u64 = 64 << 10;

/// Ending of its files' names.
const ENDING: &[u8] = b".dat";

/// Reads the accounts of a host's folder. In words, why it cannot be one.
pub fn read(folder: &Path) -> Result<Moving, String> {
    let mut found = Found::default();
    for file in files(folder)? {
        let place = file.display().to_string();
        match account(&file) {
            Ok(account) => found.put(place, &account)?,
            Err(why) => found.leave(place, why),
        }
    }
    Ok(found.into_moving())
}

/// The accounts' files, by their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let accounts = folder.join("accounts");
    if !accounts.exists() {
        return Err(format!(
            "{}: has no folder `accounts`, which the folder of a host contains, \
             such as /var/lib/prosody/example%2ecom",
            folder.display()
        ));
    }
    files_in(&accounts, ENDING)
}

/// The files of a store that end so, by their names; none, if it is not there.
fn files_in(store: &Path, ending: &[u8]) -> Result<Vec<PathBuf>, String> {
    let told = |error: std::io::Error| format!("{}: {error}", store.display());
    let entries = match store.read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(told(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(told)?.path();
        if path.as_os_str().as_bytes().ends_with(ending) {
            if files.len() == ACCOUNTS_MAX {
                return Err(format!("{}: more than {ACCOUNTS_MAX} files", store.display()));
            }
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The table of a file of at most so many bytes.
fn table(file: &Path, bytes_max: u64) -> Result<Table, String> {
    let mut bytes = Vec::new();
    let read = File::open(file)
        .and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes))
        .map_err(|error| error.to_string())?;
    if read as u64 > bytes_max {
        return Err(format!("more than {bytes_max} bytes"));
    }
    Table::read(&bytes).map_err(|fault| fault.to_string())
}

fn account(file: &Path) -> Result<Account, String> {
    let name = file.file_name().and_then(|name| unescaped(name, ENDING));
    let name = name.ok_or("its name is not in Prosody's form")?;
    let table = table(file, FILE_BYTES_MAX)?;
    let is_disabled = match table.find("disabled") {
        None | Some(Literal::Bool(false)) => false,
        Some(_) => true,
    };
    let password = match table.find("password") {
        None => None,
        Some(Literal::Text(text)) => {
            let text = String::from_utf8(text.clone());
            Some(text.map_err(|_| "its password is not UTF-8")?)
        }
        Some(_) => return Err("its password is not a string".into()),
    };
    // A password that has become keys is gone, or empty.
    let password = password.filter(|text| !text.is_empty());
    let keys = match password {
        Some(_) => Vec::new(),
        None => keys(&table)?.into_iter().collect(),
    };
    Ok(Account { name, password, keys, is_disabled })
}

/// Its keys, if it has some.
fn keys(table: &Table) -> Result<Option<Keys>, String> {
    let Some(stored) = table.find("stored_key") else { return Ok(None) };
    let text = |name: &str| match table.find(name) {
        Some(Literal::Text(text)) => Ok(&**text),
        _ => Err(format!("{name} is missing or not a string")),
    };
    let key = |name: &str, literal: &Literal| {
        match literal {
            Literal::Text(text) => hexadecimal(text),
            _ => None,
        }
        .ok_or_else(|| format!("{name} is not hexadecimal"))
    };
    let iterations = match table.find("iteration_count") {
        Some(Literal::Number(number)) => number.parse().ok(),
        _ => None,
    };
    Ok(Some(Keys {
        iterations: iterations.ok_or("iteration_count is missing or not a whole number")?,
        salt: text("salt")?.into(),
        stored: key("stored_key", stored)?,
        server: key("server_key", &Literal::Text(text("server_key")?.into()))?,
    }))
}

/// The name of a file without its ending, with `%xx` as the byte that it is.
fn unescaped(file: &OsStr, ending: &[u8]) -> Option<String> {
    let mut rest = file.as_bytes().strip_suffix(ending)?;
    let mut name = Vec::new();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first == b'%' {
            let (digits, behind) = rest.split_at_checked(2)?;
            name.extend(hexadecimal(digits)?);
            rest = behind;
        } else {
            name.push(*first);
        }
    }
    String::from_utf8(name).ok()
}

fn hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |sign: u8| char::from(sign).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::prelude::{BASE64_STANDARD, Engine};
    use model::ports::users::ImportForm;

    /// A folder of a host with these files of accounts.
    fn host(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let accounts = folder.path().join("accounts");
        std::fs::create_dir(&accounts).expect("made");
        for (name, text) in files {
            std::fs::write(accounts.join(name), text).expect("written");
        }
        folder
    }

    fn hashed(key: &str) -> String {
        format!(
            "return {{\n\t[\"iteration_count\"] = 10000;\n\t[\"salt\"] = \"c-\\195\\164\";\n\
             \t[\"stored_key\"] = \"{key}\";\n\t[\"server_key\"] = \"{key}\";\n}};\n"
        )
    }

    #[test]
    fn hashed_and_plain_accounts_become_lines() {
        let (short, long) = ("0aFf".repeat(10), "01".repeat(32));
        let folder = host(&[
            ("ann%2eb.dat", hashed(&short).as_bytes()),
            ("bob.dat", b"return {\n\t[\"password\"] = \"a \\\"b\\\"\";\n};\n"),
            ("carl.dat", hashed(&long).replace("};", "\t[\"disabled\"] = true;\n};").as_bytes()),
            ("eve.dat", hashed(&short).replace("};", "[\"password\"] = \"\" };").as_bytes()),
            ("ann.dat~", b"half of a file"),
            ("notes.txt", b"none of Prosody's"),
        ]);
        let moving = read(folder.path()).expect("a host");
        assert_eq!(moving.left, []);
        let base64 = |hex: &str| {
            BASE64_STANDARD.encode(hexadecimal(hex.as_bytes()).expect("it is hexadecimal"))
        };
        let [short, long] = [base64(&short), base64(&long)];
        let salt = BASE64_STANDARD.encode("c-ä");
        let lines: Vec<_> = moving.lines.iter().map(|line| (line.form, &*line.text)).collect();
        assert_eq!(
            lines,
            [
                (ImportForm::Csv, "bob,\"a \"\"b\"\"\""),
                (
                    ImportForm::Passwords,
                    &*format!("ann.b:$scram-sha-1$10000${salt}${short}${short}")
                ),
                (
                    ImportForm::Passwords,
                    &*format!("carl:$scram-sha-256$10000${salt}${long}${long} disabled")
                ),
                (ImportForm::Passwords, &*format!("eve:$scram-sha-1$10000${salt}${short}${short}")),
            ]
        );
        assert!(moving.lines[0].place.ends_with("accounts/bob.dat"));
    }

    #[test]
    fn what_is_not_understood_is_named_with_its_file_and_reason() {
        let key = "0a".repeat(20);
        let bent = |what: &str, by: &str| hashed(&key).replace(what, by).into_bytes();
        let files: [(&str, Vec<u8>, &str); 15] = [
            ("a.dat", b"return os.exit()".into(), "line 1"),
            ("b.dat", b"return {}".into(), "neither a password nor keys"),
            ("c.dat", bent("server_key", "x"), "server_key is missing"),
            ("d.dat", bent("10000", "\"10000\""), "not a whole number"),
            ("e.dat", bent("10000", "1.5"), "not a whole number"),
            ("f.dat", bent("10000", "4294967296"), "not a whole number"),
            ("g.dat", bent("0a0a", "0g0a"), "hexadecimal"),
            ("h.dat", hashed("0a0").into(), "hexadecimal"),
            ("i.dat", hashed(&"0a".repeat(19)).into(), "not SHA-1 or SHA-256"),
            ("j.dat", b"return { password = 7 }".into(), "not a string"),
            ("k.dat", b"return { password = \"\\255\" }".into(), "UTF-8"),
            ("l%2.dat", bent("", ""), "name"),
            ("m%ff.dat", bent("", ""), "name"),
            ("n%c3%a4.dat", bent("", ""), "byte"),
            ("o.dat", b"return { password = 'x', disabled = true }".into(), "by hand"),
        ];
        let there: Vec<_> = files.iter().map(|(name, text, _)| (*name, &**text)).collect();
        let folder = host(&there);
        let moving = read(folder.path()).expect("a host");
        assert_eq!(moving.lines, []);
        assert_eq!(moving.left.len(), files.len());
        for (left, (name, _, why)) in moving.left.iter().zip(&files) {
            assert!(left.place.ends_with(name) && left.why.contains(why), "{left}");
        }
    }

    #[test]
    fn a_file_may_have_so_many_bytes_and_no_more() {
        let sized = |bytes: usize| {
            let text = "return { password = 'x' }";
            format!("{text}{}", " ".repeat(bytes - text.len())).into_bytes()
        };
        let most = FILE_BYTES_MAX as usize;
        let folder = host(&[("a.dat", &sized(most)), ("b.dat", &sized(most + 1))]);
        let moving = read(folder.path()).expect("a host");
        assert_eq!((moving.lines.len(), moving.left.len()), (1, 1));
        assert!(moving.left[0].why.contains("65536 bytes"));
    }

    #[test]
    fn a_folder_that_is_no_hosts_is_told_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let why = read(folder.path()).expect_err("no accounts");
        assert!(why.contains("no folder `accounts`") && why.contains("example%2ecom"), "{why}");
        assert!(read(host(&[]).path()).is_ok_and(|moving| moving.lines.is_empty()));
    }
}
