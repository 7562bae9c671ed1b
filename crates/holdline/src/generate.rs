//! `holdline generate`: completions for a shell and man pages, from the command line as it is
//! declared, for whoever makes a package; and what of XMPP the server does, from its list.

use clap::{Args, Command, Subcommand};
use clap_complete::Shell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Kind of file to generate.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Print shell completions
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the supported XMPP extensions as a DOAP file
    Doap,
    /// Write a man page for each command into a folder
    Man {
        /// The folder; created if missing
        folder: PathBuf,
    },
}

/// Makes it, of this command line.
pub fn generate(arguments: &Arguments, mut command: Command) -> ExitCode {
    match &arguments.what {
        What::Completions { shell } => {
            let name = command.get_name().to_owned();
            // It panics where its writer fails, and ours does when its reader leaves.
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut command, name, &mut text);
            crate::out::print(&String::from_utf8_lossy(&text));
            ExitCode::SUCCESS
        }
        What::Doap => {
            crate::out::print(&proto_xmpp::claims::doap());
            ExitCode::SUCCESS
        }
        What::Man { folder } => crate::client::tell(pages(command, folder)),
    }
}

/// A page a command, and one of its own a subcommand: `holdline-store-split.1`.
fn pages(command: Command, folder: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command, folder).map_err(failed)?;
    Ok(format!("man pages written to {}\n", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_has_a_page_and_completions() {
        let folder = tempfile::TempDir::new().expect("a folder");
        pages(crate::Arguments::command(), &folder.path().join("man1")).expect("room");
        let read = |name: &str| {
            fs::read_to_string(folder.path().join("man1").join(name)).expect("it was written")
        };
        assert!(read("holdline.1").contains("status"));
        assert!(read("holdline-top.1").contains("Time between two refreshes"));
        assert!(read("holdline-store-split.1").contains("NAME"));
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let (mut command, mut text) = (crate::Arguments::command(), Vec::new());
            clap_complete::generate(shell, &mut command, "holdline", &mut text);
            assert!(String::from_utf8_lossy(&text).contains("audit-log"), "{shell}");
        }
    }
}
