//! Tables as they are made, step by step.
//!
//! A database has a table of steps that were made, by what the tables are for, and each has its
//! steps in order. Steps that were made stay; the next build's steps come behind. A step is made of
//! statements that may be made twice, for a crash may come between them and the word that they were
//! made. Invariant: a database that knows of a step that this build does not know is not touched.

use crate::connection::CallError;
use model::ports::databases::accounts::DatabaseFault;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

/// Longest wait for the lock that servers hold while they create tables, seconds.
const LOCK_S: u32 = 20;

/// A step: its name, and its statements.
pub(crate) type Step = (&'static str, &'static [&'static str]);

/// Statements for the tables that every database has: the steps done so far, and the database's own
/// id.
const ALWAYS: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS holdline_steps (
        part VARCHAR(32) NOT NULL,
        step INT UNSIGNED NOT NULL,
        name VARCHAR(64) NOT NULL,
        made_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
        PRIMARY KEY (part, step)
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
    "CREATE TABLE IF NOT EXISTS holdline_self (
        one TINYINT UNSIGNED NOT NULL PRIMARY KEY,
        id BIGINT UNSIGNED NOT NULL
    ) ENGINE=InnoDB",
    "INSERT IGNORE INTO holdline_self (one, id) VALUES (1, UUID_SHORT())",
];

/// Makes the steps of a part that were not made yet; gives the database's number.
pub(crate) async fn make(
    conn: &mut Conn,
    part: &'static str,
    steps: &[Step],
) -> Result<u64, CallError> {
    let lock = "SELECT GET_LOCK(CONCAT('holdline.', DATABASE()), ?)";
    let got: Option<Option<i64>> = conn.exec_first(lock, (LOCK_S,)).await?;
    if got.flatten() != Some(1) {
        return Err(DatabaseFault::Away("another server is creating its tables".into()).into());
    }
    let made = make_locked(conn, part, steps).await;
    // A connection that goes lets its locks go, too.
    conn.query_drop("DO RELEASE_LOCK(CONCAT('holdline.', DATABASE()))").await?;
    made
}

async fn make_locked(
    conn: &mut Conn,
    part: &'static str,
    steps: &[Step],
) -> Result<u64, CallError> {
    for statement in ALWAYS {
        conn.query_drop(statement).await?;
    }
    let highest = "SELECT MAX(step) FROM holdline_steps WHERE part = ?";
    let made: Option<Option<u64>> = conn.exec_first(highest, (part,)).await?;
    let made = made.flatten().unwrap_or(0) as usize;
    if made > steps.len() {
        return Err(DatabaseFault::Refused(format!(
            "its tables of {part} are from a newer build (step {made}, this one supports {}): \
             start that build, or give this one a database of its own",
            steps.len()
        ))
        .into());
    }
    for (number, (name, statements)) in (1_u64..).zip(steps).skip(made) {
        for statement in *statements {
            conn.query_drop(*statement).await?;
        }
        let note = "INSERT INTO holdline_steps (part, step, name) VALUES (?, ?, ?)";
        conn.exec_drop(note, (part, number, *name)).await?;
    }
    let id: Option<u64> = conn.query_first("SELECT id FROM holdline_self").await?;
    id.ok_or_else(|| DatabaseFault::Refused("its table holdline_self is empty".into()).into())
}
