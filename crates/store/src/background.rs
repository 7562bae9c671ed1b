//! Work in the background: it has time until there is nothing else to do, which a shard has not.
//!
//! On a machine that is busy a checkpoint takes its core from shards, and what they serve is late
//! by so much. The writer (`data/writer.rs`) deals with the backlog that this causes. Invariant: no
//! thread that an acknowledgement waits for works in the background.

use std::io;
use std::thread::{Builder, scope};

/// Steps by which the kernel prefers other threads (`nice`): a ninth of their share of a core.
const NICE: i32 = 10;

/// Lowers the priority of this thread, and of those that it begins. That needs no right; where it
/// is refused all the same the priority stays.
pub(crate) fn give_way() {
    let nice = nice().max(NICE);
    let _ = rustix::process::setpriority_process(None, nice);
}

/// How much this thread gives way.
fn nice() -> i32 {
    rustix::process::getpriority_process(None).unwrap_or_default()
}

/// Has threads that this begins give way, and not the one that calls.
pub(crate) fn begin<T: Send>(begin: impl FnOnce() -> T + Send) -> io::Result<T> {
    scope(|scope| {
        let beginner = Builder::new().name("holdline-begin".into()).spawn_scoped(scope, || {
            give_way();
            begin()
        })?;
        beginner.join().map_err(|_| io::Error::other("what was begun panicked"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_are_begun_give_way_and_who_begins_them_does_not() {
        let before = nice();
        let own = || std::thread::scope(|scope| scope.spawn(nice).join().expect("it ends"));
        let begun = begin(|| (nice(), own())).expect("there is a thread");
        let given = before.max(NICE);
        assert_eq!(begun, (given, given));
        assert_eq!(nice(), before);
    }
}
