//! Lines of password files, for the command line.

use guard::passwords::{self, Hashing};

/// A line of a password file for a new password, as a server reads it from `password_file`. Slow.
/// In words, why there is none.
pub fn password_line(user: &str, password: &str) -> Result<String, String> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| format!("no random bytes: {error}"))?;
    passwords::line(user, password, &Hashing::default(), random)
}
