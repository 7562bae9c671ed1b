//! Port of the API's tokens: a row a token, by its name.
//!
//! The API defines the bytes of a row; whoever stores them does not read them. An answer comes only
//! once the row is on stable storage. Calls may block.

/// The way to the rows.
pub trait TokenRows: Send + Sync {
    /// All of them: name and row.
    fn all(&self) -> Vec<(String, Vec<u8>)>;

    /// Puts one in place of what has this name.
    fn put(&self, name: &str, row: Vec<u8>) -> Result<(), NotKept>;

    /// Takes one away.
    fn remove(&self, name: &str) -> Result<(), NotKept>;
}

/// The store did not take it: nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotKept;
