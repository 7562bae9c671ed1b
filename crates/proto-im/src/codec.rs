//! Bytes to frames and back, for both ends of a connection (IM 2).
//!
//! ```text
//! client:  C4 'I' 'M' 01 │ length │ ClientFrame │ length │ ClientFrame │ ...
//! server:                  length │ ServerFrame │ length │ ServerFrame │ ...
//! ```
//! [`frame`] finds where a frame ends, [`client_frame`] and [`server_frame`] read and write what is
//! in it, [`content`] has what both have in common, [`group`] what is about groups, [`chatroom`]
//! about those of who is there, [`conversation`] and [`conversations`] what an account knows of its
//! conversations, [`contact`] and [`presence`] what is about people, [`push`] how devices are
//! woken, [`upload`] what is about files, [`receipts`] who has read what, [`transient`] what is
//! kept nowhere, [`search`] what is found, and [`protobuf`] is as much of the encoding of Protocol
//! Buffers as the schema needs. Decoded fields borrow from the bytes. Sizes are known before the
//! first byte is written.

pub mod chatroom;
pub mod client_frame;
pub mod contact;
pub mod content;
pub mod conversation;
pub mod conversations;
mod fault;
pub mod frame;
pub mod group;
pub mod presence;
pub mod protobuf;
pub mod push;
mod reason;
pub mod receipts;
pub mod search;
pub mod server_frame;
pub mod transient;
pub mod upload;

pub use fault::WireFault;
pub use reason::{EndReason, fault_number, fault_of};

#[cfg(test)]
pub(crate) mod tests;
