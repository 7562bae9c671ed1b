//! Peer messages as another process might send them: bytes that were bent at random.

mod guided;
