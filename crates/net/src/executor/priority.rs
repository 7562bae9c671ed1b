//! Which threads go first while a machine is busy.

/// Steps by which the kernel prefers other threads (`nice`): about a tenth of their share of a
/// core.
const NICE: i32 = 10;

/// Lowers the priority of this thread, and of those that it begins, below that of the shards: for
/// work that whole groups of clients wait for less often (logins, other servers, files), and that a
/// few clients can ask for without end. It needs no right; where the kernel refuses it nothing
/// changes.
pub fn give_way() {
    let nice = rustix::process::getpriority_process(None).unwrap_or_default().max(NICE);
    let _ = rustix::process::setpriority_process(None, nice);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_gives_way_changes_itself_alone() {
        let nice = || rustix::process::getpriority_process(None).expect("it is our own");
        let before = nice();
        let given = std::thread::Builder::new().name("gives-way".into()).spawn(move || {
            give_way();
            nice()
        });
        let given = given.expect("a thread");
        assert_eq!(given.join().expect("it ends"), before.max(NICE));
        assert_eq!(nice(), before);
    }
}
