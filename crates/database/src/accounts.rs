//! Accounts in tables.
//!
//! `accounts` has a row each, `changes` a word of each change, for whoever has a copy. A change
//! locks its rows, looks whether they are what it was made from, and writes both in one
//! transaction. Rows of other domains are others'. Invariant: what is committed has its word.

use crate::connection::{CallError, Connection};
use crate::schema::Step;
use crate::settings::DatabaseSettings;
use model::ports::databases::accounts::{
    ACCOUNTS_A_CALL_MAX, AccountChange, AccountColumns, AccountNews, AccountTables, DatabaseFault,
};
use model::ports::users::DOMAIN;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Row, Value};
use std::collections::HashMap;

/// Rows of one statement.
const ROWS: usize = 512;

/// Words that are forgotten at once.
const FORGET_ROWS: u32 = 10_000;

/// How tables of accounts came to be. Steps are never changed: a change is a step more.
const STEPS: [Step; 2] = [
    (
        "accounts",
        &["CREATE TABLE IF NOT EXISTS accounts (
            uid BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
            domain VARCHAR(253) NOT NULL DEFAULT 'localhost',
            name VARCHAR(256) NOT NULL,
            epoch BIGINT UNSIGNED NOT NULL DEFAULT 1,
            is_super BOOLEAN NOT NULL DEFAULT FALSE,
            is_disabled BOOLEAN NOT NULL DEFAULT FALSE,
            password VARCHAR(2048) NOT NULL DEFAULT '',
            scram_sha_256 VARCHAR(2048) NOT NULL DEFAULT '',
            scram_sha_1 VARCHAR(2048) NOT NULL DEFAULT '',
            rules MEDIUMTEXT NULL,
            UNIQUE KEY by_name (domain, name)
        ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"],
    ),
    (
        "changes",
        &["CREATE TABLE IF NOT EXISTS changes (
            seq BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
            domain VARCHAR(253) NOT NULL DEFAULT 'localhost',
            name VARCHAR(256) NOT NULL,
            at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
            KEY by_time (at)
        ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"],
    ),
];

const COLUMNS: &str = "uid, name, epoch, is_super, is_disabled, password, scram_sha_256, \
                       scram_sha_1, rules";

/// Tables of accounts in MySQL or MariaDB.
pub struct MySqlAccounts {
    connection: Connection,
}

impl MySqlAccounts {
    /// Connects to nobody yet. In words, what is wrong with the settings.
    pub fn new(settings: &DatabaseSettings) -> Result<MySqlAccounts, String> {
        Ok(MySqlAccounts { connection: Connection::new(settings)? })
    }
}

impl AccountTables for MySqlAccounts {
    fn open(&self) -> Result<u64, DatabaseFault> {
        self.connection.open("accounts", &STEPS)
    }

    fn count(&self) -> Result<u64, DatabaseFault> {
        let text = "SELECT COUNT(*) FROM accounts WHERE domain = ?";
        self.connection.call(async |conn| number(conn, text).await)
    }

    fn page(&self, behind_uid: u64, count: usize) -> Result<Vec<AccountColumns>, DatabaseFault> {
        let text = format!(
            "SELECT {COLUMNS} FROM accounts WHERE uid > ? AND domain = ? ORDER BY uid LIMIT ?"
        );
        self.connection.call(async |conn| {
            let rows = conn.exec(&text, (behind_uid, DOMAIN, count.min(ACCOUNTS_A_CALL_MAX)));
            accounts(rows.await?)
        })
    }

    fn find(&self, names: &[&str]) -> Result<Vec<AccountColumns>, DatabaseFault> {
        self.connection.call(async |conn| find(conn, names, "").await)
    }

    fn commit(&self, changes: &[AccountChange]) -> Result<Vec<u64>, DatabaseFault> {
        self.connection.transaction(async |conn| commit(conn, changes).await)
    }

    fn last_news(&self) -> Result<u64, DatabaseFault> {
        let text = "SELECT COALESCE(MAX(seq), 0) FROM changes";
        self.connection.call(async |conn| {
            let last: Option<u64> = conn.query_first(text).await?;
            Ok(last.unwrap_or(0))
        })
    }

    fn settled_news(&self, writer_s_max: u32) -> Result<u64, DatabaseFault> {
        let text = "SELECT seq FROM changes WHERE at < NOW() - INTERVAL ? SECOND \
                    ORDER BY at DESC, seq DESC LIMIT 1";
        self.connection.call(async |conn| {
            let settled: Option<u64> = conn.exec_first(text, (writer_s_max,)).await?;
            Ok(settled.unwrap_or(0))
        })
    }

    fn news(&self, behind: u64, count: usize) -> Result<Vec<AccountNews>, DatabaseFault> {
        let text =
            "SELECT seq, name FROM changes WHERE seq > ? AND domain = ? ORDER BY seq LIMIT ?";
        self.connection.call(async |conn| {
            let rows: Vec<(u64, String)> = conn.exec(text, (behind, DOMAIN, count)).await?;
            Ok(rows.into_iter().map(|(seq, name)| AccountNews { seq, name }).collect())
        })
    }

    fn close(&self) {
        self.connection.close();
    }

    fn forget_news(&self, hours: u32) -> Result<bool, DatabaseFault> {
        let text = "DELETE FROM changes WHERE at < NOW() - INTERVAL ? HOUR LIMIT ?";
        self.connection.call(async |conn| {
            conn.exec_drop(text, (hours, FORGET_ROWS)).await?;
            Ok(conn.affected_rows() >= FORGET_ROWS.into())
        })
    }
}

async fn number(conn: &mut Conn, text: &str) -> Result<u64, CallError> {
    let number: Option<u64> = conn.exec_first(text, (DOMAIN,)).await?;
    Ok(number.unwrap_or(0))
}

/// `(?,?,?),(?,?,?)` and so on.
pub(crate) fn places(rows: usize, columns: usize) -> String {
    let row = format!("({})", vec!["?"; columns].join(","));
    vec![row; rows].join(",")
}

/// Reads the accounts with these names; `lock` is appended to the query.
async fn find(
    conn: &mut Conn,
    names: &[&str],
    lock: &str,
) -> Result<Vec<AccountColumns>, CallError> {
    let mut found = Vec::with_capacity(names.len());
    for names in names.chunks(ROWS) {
        let text = format!(
            "SELECT {COLUMNS} FROM accounts WHERE domain = ? AND name IN {} ORDER BY uid {lock}",
            places(1, names.len())
        );
        let params = std::iter::once(Value::from(DOMAIN)).chain(names.iter().map(Value::from));
        let rows: Vec<Row> = conn.exec(&text, Params::Positional(params.collect())).await?;
        found.extend(accounts(rows)?);
    }
    Ok(found)
}

async fn commit(conn: &mut Conn, changes: &[AccountChange]) -> Result<Vec<u64>, CallError> {
    let names: Vec<&str> = changes.iter().map(AccountChange::name).collect();
    let are = by_name(find(conn, &names, "FOR UPDATE").await?);
    if changes.iter().any(|change| are.get(change.name()) != change.before.as_ref()) {
        conn.query_drop("ROLLBACK").await?;
        return Err(DatabaseFault::Conflict.into());
    }
    let gone = changes.iter().filter(|change| change.after.is_none());
    let gone: Vec<u64> = gone.filter_map(|change| Some(change.before.as_ref()?.uid)).collect();
    for uids in gone.chunks(ROWS) {
        let text = format!("DELETE FROM accounts WHERE uid IN {}", places(1, uids.len()));
        let uids = uids.iter().map(Value::from).collect();
        conn.exec_drop(&text, Params::Positional(uids)).await?;
    }
    let after = |is_new: bool| {
        let of = changes.iter().filter(move |change| change.before.is_none() == is_new);
        of.filter_map(|change| change.after.as_ref()).collect::<Vec<_>>()
    };
    let (new, changed) = (after(true), after(false));
    put(conn, &new, "").await?;
    put(conn, &changed, UPDATE).await?;
    for names in names.chunks(ROWS) {
        let text = format!("INSERT INTO changes (domain, name) VALUES {}", places(names.len(), 2));
        let params = names.iter().flat_map(|name| [Value::from(DOMAIN), Value::from(name)]);
        conn.exec_drop(&text, Params::Positional(params.collect())).await?;
    }
    // The server has given numbers.
    let new: Vec<&str> = new.iter().map(|row| row.name.as_str()).collect();
    let made = by_name(find(conn, &new, "").await?);
    let uid = |change: &AccountChange| {
        let after = change.after.as_ref()?;
        Some(made.get(&after.name).map_or(after.uid, |row| row.uid))
    };
    Ok(changes.iter().map(|change| uid(change).unwrap_or(0)).collect())
}

/// End of an insertion, for rows that exist already.
const UPDATE: &str = "ON DUPLICATE KEY UPDATE epoch = VALUES(epoch), is_super = VALUES(is_super), \
                      is_disabled = VALUES(is_disabled), password = VALUES(password), \
                      scram_sha_256 = VALUES(scram_sha_256), scram_sha_1 = VALUES(scram_sha_1), \
                      rules = VALUES(rules)";

async fn put(conn: &mut Conn, rows: &[&AccountColumns], behind: &str) -> Result<(), CallError> {
    for rows in rows.chunks(ROWS) {
        let places = places(rows.len(), 10);
        let text = format!("INSERT INTO accounts ({COLUMNS}, domain) VALUES {places} {behind}");
        let params = rows.iter().flat_map(|row| values(row)).collect();
        conn.exec_drop(&text, Params::Positional(params)).await?;
    }
    Ok(())
}

/// In the order of [`COLUMNS`], with the domain behind.
fn values(row: &AccountColumns) -> [Value; 10] {
    let uid = Some(row.uid).filter(|uid| *uid != 0);
    let rules = Some(&row.rules).filter(|rules| !rules.is_empty());
    [
        uid.into(),
        Value::from(&row.name),
        row.epoch.into(),
        row.is_super.into(),
        row.is_disabled.into(),
        Value::from(&row.password),
        Value::from(&row.scram_sha_256),
        Value::from(&row.scram_sha_1),
        rules.into(),
        DOMAIN.into(),
    ]
}

fn by_name(rows: Vec<AccountColumns>) -> HashMap<String, AccountColumns> {
    rows.into_iter().map(|row| (row.name.clone(), row)).collect()
}

fn accounts(rows: Vec<Row>) -> Result<Vec<AccountColumns>, CallError> {
    let wrong = || {
        DatabaseFault::Refused(
            "its table accounts has unexpected \
                                           columns"
                .into(),
        )
        .into()
    };
    rows.into_iter().map(|row| account(row).ok_or_else(wrong)).collect()
}

fn account(mut row: Row) -> Option<AccountColumns> {
    fn of<T: mysql_async::prelude::FromValue>(row: &mut Row, at: usize) -> Option<T> {
        row.take_opt(at)?.ok()
    }
    Some(AccountColumns {
        uid: of(&mut row, 0)?,
        name: of(&mut row, 1)?,
        epoch: of(&mut row, 2)?,
        is_super: of::<i64>(&mut row, 3)? != 0,
        is_disabled: of::<i64>(&mut row, 4)? != 0,
        password: of(&mut row, 5)?,
        scram_sha_256: of(&mut row, 6)?,
        scram_sha_1: of(&mut row, 7)?,
        rules: of::<Option<String>>(&mut row, 8)?.unwrap_or_default(),
    })
}
