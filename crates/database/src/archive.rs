//! Messages in a table.
//!
//! A batch is one transaction: rows of messages in few statements, then those that were edited or
//! reacted to become what they are by now, and those that were called back lose their content.
//! Invariant: a row that was called back stays so, so a batch that comes again brings nothing back.

use crate::accounts::places;
use crate::connection::{CallError, Connection};
use crate::schema::Step;
use crate::settings::DatabaseSettings;
use model::chat::Content;
use model::ports::databases::accounts::DatabaseFault;
use model::ports::databases::archive::{ArchivedMessage, MessageArchive};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Value};

/// Rows of one statement.
const ROWS: usize = 256;

/// Columns of a row, in their order.
const COLUMNS: &str = "id, conversation, at_ms, sender, device, receiver, client_id, kind, counts, \
                       text, extra, about, mentions";
const COLUMNS_COUNT: usize = 13;

/// How the table came to be. Steps are never changed: a change is a step more.
const STEPS: [Step; 2] = [
    (
        "messages",
        &["CREATE TABLE IF NOT EXISTS messages (
        id BIGINT UNSIGNED NOT NULL,
        conversation BINARY(16) NOT NULL,
        at_ms BIGINT UNSIGNED NOT NULL,
        sender VARCHAR(320) NOT NULL,
        device VARCHAR(255) NOT NULL,
        receiver VARCHAR(320) NOT NULL,
        client_id BINARY(16) NOT NULL,
        kind SMALLINT UNSIGNED NOT NULL,
        counts BOOLEAN NOT NULL,
        text MEDIUMTEXT NOT NULL,
        extra MEDIUMBLOB NOT NULL,
        about BIGINT UNSIGNED NULL,
        mentions MEDIUMTEXT NOT NULL,
        recalled_by BIGINT UNSIGNED NULL,
        PRIMARY KEY (conversation, id),
        KEY by_sender (sender, id),
        KEY by_receiver (receiver, id),
        KEY by_time (at_ms),
        KEY by_about (conversation, about)
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"],
    ),
    // Not every MySQL has ADD COLUMN IF NOT EXISTS.
    (
        "amended messages",
        &[
            "SET @add = IF(
                EXISTS(SELECT * FROM information_schema.columns WHERE table_schema = DATABASE()
                    AND table_name = 'messages' AND column_name = 'reactions'),
                'DO 0',
                'ALTER TABLE messages ADD COLUMN edited_ms BIGINT UNSIGNED NULL,
                    ADD COLUMN reactions MEDIUMTEXT NULL')",
            "PREPARE holdline_add FROM @add",
            "EXECUTE holdline_add",
            "DEALLOCATE PREPARE holdline_add",
        ],
    ),
];

/// Messages in MySQL or MariaDB.
pub struct MySqlArchive {
    connection: Connection,
}

impl MySqlArchive {
    /// Connects to nobody yet. In words, what is wrong with the settings.
    pub fn new(settings: &DatabaseSettings) -> Result<MySqlArchive, String> {
        Ok(MySqlArchive { connection: Connection::new(settings)? })
    }
}

impl MessageArchive for MySqlArchive {
    fn open(&self) -> Result<(), DatabaseFault> {
        self.connection.open("archive", &STEPS).map(drop)
    }

    fn close(&self) {
        self.connection.close();
    }

    fn put(&self, messages: &[ArchivedMessage]) -> Result<(), DatabaseFault> {
        self.connection.transaction(async |conn| {
            for rows in messages.chunks(ROWS) {
                put(conn, rows).await?;
            }
            amend(conn, messages).await?;
            recall(conn, messages).await
        })
    }
}

async fn put(conn: &mut Conn, rows: &[ArchivedMessage]) -> Result<(), CallError> {
    let places = places(rows.len(), COLUMNS_COUNT);
    let text =
        format!("INSERT INTO messages ({COLUMNS}) VALUES {places} ON DUPLICATE KEY UPDATE id = id");
    let params = rows.iter().flat_map(values).collect();
    Ok(conn.exec_drop(&text, Params::Positional(params)).await?)
}

/// Messages that these edit or react to become what they are by now, and their edits say that.
async fn amend(conn: &mut Conn, messages: &[ArchivedMessage]) -> Result<(), CallError> {
    let itself = "UPDATE messages SET kind = ?, text = ?, extra = ?, edited_ms = ?, reactions = ? \
                  WHERE conversation = ? AND id = ? AND recalled_by IS NULL";
    let edits = "UPDATE messages SET text = ? \
                 WHERE conversation = ? AND about = ? AND kind = ? AND recalled_by IS NULL";
    for by in messages {
        let (Some(is), Some(about)) = (&by.amends, by.about) else { continue };
        let (conversation, text) = (&by.conversation[..], &*is.text);
        let edited_ms = Some(is.edited_ms).filter(|at_ms| *at_ms > 0);
        let reactions = json(&is.reactions);
        let params = (is.kind, text, &*is.extra, edited_ms, reactions, conversation, about);
        conn.exec_drop(itself, params).await?;
        if by.kind == Content::EDIT {
            conn.exec_drop(edits, (text, conversation, about, Content::EDIT)).await?;
        }
    }
    Ok(())
}

/// JSON of the accounts that react, each with its emoji; `None`: nobody reacts.
fn json(reactions: &[(Box<str>, Box<str>)]) -> Option<String> {
    let quoted = |text: &str| {
        let escape = |letter: char| match letter {
            '"' | '\\' => format!("\\{letter}"),
            control if control.is_control() => format!("\\u{:04x}", u32::from(control)),
            letter => letter.into(),
        };
        text.chars().map(escape).collect::<String>()
    };
    let one = |(by, emoji): &(Box<str>, Box<str>)| {
        format!(r#"{{"by":"{}","emoji":"{}"}}"#, quoted(by), quoted(emoji))
    };
    let all: Vec<String> = reactions.iter().map(one).collect();
    (!all.is_empty()).then(|| format!("[{}]", all.join(",")))
}

/// Takes the content out of what was called back, and of its edits, in the order of those who say
/// so.
async fn recall(conn: &mut Conn, messages: &[ArchivedMessage]) -> Result<(), CallError> {
    let itself = "UPDATE messages SET text = '', extra = '', mentions = '', edited_ms = NULL, \
                  reactions = NULL, recalled_by = ? WHERE conversation = ? AND id = ?";
    let edits = "UPDATE messages SET text = '', extra = '', recalled_by = ? \
                 WHERE conversation = ? AND about = ? AND kind = ?";
    for by in messages {
        let Some(recalled) = by.recalls else { continue };
        let conversation = &by.conversation[..];
        conn.exec_drop(itself, (by.id, conversation, recalled)).await?;
        conn.exec_drop(edits, (by.id, conversation, recalled, Content::EDIT)).await?;
    }
    Ok(())
}

fn values(message: &ArchivedMessage) -> [Value; COLUMNS_COUNT] {
    [
        message.id.into(),
        Value::from(&message.conversation[..]),
        message.at_ms.into(),
        Value::from(&*message.from),
        Value::from(&*message.device),
        Value::from(&*message.to),
        Value::from(&message.client_id[..]),
        message.kind.into(),
        message.counts.into(),
        Value::from(&*message.text),
        Value::from(&*message.extra),
        message.about.into(),
        Value::from(&*message.mentions),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reactions_are_told_as_json() {
        assert_eq!(json(&[]), None);
        let all: [(Box<str>, Box<str>); 2] =
            [("ann@a.example".into(), "👍 ❤️".into()), ("bob@a.example".into(), "\"\\\t".into())];
        let told = concat!(
            r#"[{"by":"ann@a.example","emoji":"👍 ❤️"},"#,
            r#"{"by":"bob@a.example","emoji":"\"\\\u0009"}]"#
        );
        assert_eq!(json(&all).as_deref(), Some(told));
    }
}
