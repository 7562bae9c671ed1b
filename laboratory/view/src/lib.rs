//! The door to the terminal: a run while it goes on, and the keys that change it; a running server.
//!
//! [`RunState`] is what is known and asked; it is fed a [`RunFrame`] a second and a [`KeyPress`]
//! whenever one is pressed, and answers keys with a [`Wish`]. [`draw`] turns a state into cells and
//! does nothing else; [`lines`] turns it into a line for those who have no terminal. [`Screen`] is
//! the only part that touches one. It does not know who makes the load, reads no clock and starts
//! no thread.
//!
//! Invariant: whatever the run and however small the terminal, a state is bounded, drawing does
//! not panic, and a screen that was opened is closed again.

mod draw;
mod keys;
pub mod lines;
mod rose;
mod screen;
mod server;
mod state;
pub mod words;

pub use draw::draw;
pub use keys::KeyPress;
pub use screen::{Press, Screen};
pub use server::{ServerReading, ServerState, draw_server};
pub use state::{RunFrame, RunState, Title};
