//! Guard that undoes a fault when this process is killed: a shell at the other end of a pipe.
//!
//! The shell reads one line. When the pipe ends without one, because its writer died however it
//! died, the shell carries out the command that undoes the fault. It is in a process group of its
//! own and ignores the terminal's signals, for those mean the tester.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// `$@` is the undo.
const SCRIPT: &str = "trap '' HUP INT TERM; read -r word || \"$@\"";

/// A guard that waits.
pub(super) struct UndoGuard(Option<Child>);

impl UndoGuard {
    /// One that carries `undo` out when this process ends.
    pub fn of(undo: &[String]) -> Result<UndoGuard, String> {
        let child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "keeper"])
            .args(undo)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let child =
            child.map_err(|error| format!("cannot start the guard of the fault: {error}"))?;
        Ok(UndoGuard(Some(child)))
    }

    /// Ends the guard, which is not needed any more.
    pub fn let_go(mut self) {
        self.dismiss();
    }

    fn dismiss(&mut self) {
        let Some(mut child) = self.0.take() else { return };
        if let Some(mut pipe) = child.stdin.take() {
            // If it is gone nothing is to be told.
            let _ = pipe.write_all(b"done\n");
        }
        let _ = child.wait();
    }
}

/// A fault that could not be begun needs no undo.
impl Drop for UndoGuard {
    fn drop(&mut self) {
        self.dismiss();
    }
}
