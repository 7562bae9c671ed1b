//! Requests of services to ports outside their shard, and the replies.
//!
//! A service puts a [`PortRequest`] into its effects under a number; the reply has the same number
//! and comes by [`Service::port_reply`](crate::service::Service::port_reply). Each port counts its
//! own numbers. A new port is a variant of both types, and an arm where the roof carries requests
//! out.

use super::access::{Admission, Question};
use super::notifications::{NotificationOrder, Notified};
use super::reviews::{Review, ReviewVerdict};
use super::users::{BookAnswer, BookFault, BookOrder};
use crate::session::Denial;

/// A request of a service to a port outside its shard.
#[derive(Debug)]
pub enum PortRequest {
    /// Asks access control about a login; the answer is never `Later`.
    Access(Box<Question>),
    /// Asks for the review of a message. The verdict may never come: the asker sets a deadline.
    Review(Box<Review>),
    /// Orders a change of the book of accounts.
    Book(Box<BookOrder>),
    /// Has devices notified that are not connected.
    Notify(Box<NotificationOrder>),
}

/// The reply of a port.
#[derive(Debug)]
pub enum PortReply {
    /// To [`PortRequest::Access`].
    Access(Admission),
    /// To [`PortRequest::Review`].
    Review(ReviewVerdict),
    /// To [`PortRequest::Book`].
    Book(BookAnswer),
    /// To [`PortRequest::Notify`].
    Notify(Notified),
}

impl PortRequest {
    /// The reply where the port does not exist.
    pub fn without_port(&self) -> PortReply {
        match self {
            PortRequest::Access(_) => PortReply::Access(Admission::Refused(Denial::Unavailable)),
            PortRequest::Review(_) => PortReply::Review(ReviewVerdict::None),
            PortRequest::Book(_) => PortReply::Book(Err(BookFault::Off)),
            PortRequest::Notify(_) => PortReply::Notify(Notified::Refused),
        }
    }
}
