//! Port of the API's tokens: one row per token, by its name.
//!
//! The API defines the bytes of a row; the store does not read them. A call returns only once the
//! row is on stable storage. Calls may block.

/// The way to the rows.
pub trait TokenRows: Send + Sync {
    /// All tokens: name and row.
    fn all(&self) -> Vec<(String, Vec<u8>)>;

    /// Stores a token; it replaces the row of the same name.
    fn put(&self, name: &str, row: Vec<u8>) -> Result<(), NotKept>;

    /// Takes one away.
    fn remove(&self, name: &str) -> Result<(), NotKept>;
}

/// The store did not take it: nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotKept;
