//! What the rules look at: the repository's text files, and its crates as cargo lists them.
//!
//! Build output, hidden folders other than those of the build, and files that are not UTF-8 are
//! left out. A test makes a tree from literal snippets with [`Tree::of`], so no rule needs a disk.

use std::fs;
use std::io;
use std::path::Path;

use super::source::Source;

/// Hidden entries that belong to the project.
const HIDDEN_KEPT: &[&str] = &[".cargo", ".ci", ".gitignore", ".gitattributes"];

/// Folders that hold output, never source.
const OUTPUT_FOLDERS: &[&str] = &["target", "__pycache__"];

/// Folders that hold output where they stand in the root; a crate may have a module of that name.
const OUTPUT_FOLDERS_OF_THE_ROOT: &[&str] = &["data"];

/// Folders with a crate in each of their folders: those of the server, and the laboratory's.
pub const CRATES: &[&str] = &["crates", "laboratory"];

/// Larger files are measurements or pictures.
const FILE_BYTES_MAX: u64 = 2 << 20;

/// One text file.
pub struct File {
    /// Path from the root, with `/` between its parts.
    pub path: String,
    /// The whole text.
    pub text: String,
    /// The text as Rust, for a file that is Rust.
    pub rust: Option<Source>,
}

impl File {
    fn new(path: String, text: String) -> File {
        let rust = path.ends_with(".rs").then(|| Source::new(&text));
        File { path, text, rust }
    }

    /// The last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Whether this file is in a crate of [`CRATES`].
    pub fn is_of_a_crate(&self) -> bool {
        self.crate_path().is_some()
    }

    /// Whether this is a source file of a crate of [`CRATES`].
    pub fn is_crate_source(&self) -> bool {
        self.crate_path().is_some_and(|(_, path)| path.starts_with("src/"))
    }

    /// The crate's folder, and the path from there, of a file in a crate of [`CRATES`].
    pub fn crate_path(&self) -> Option<(&str, &str)> {
        let (folder, rest) = self.path.split_once('/')?;
        let name = CRATES.contains(&folder).then(|| rest.split_once('/'))??.0;
        let end = folder.len() + 1 + name.len();
        Some((&self.path[..end], &self.path[end + 1..]))
    }
}

/// A crate of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// The crate's name.
    pub name: String,
    /// Path of its manifest from the root.
    pub manifest: String,
    /// Everything it depends on directly.
    pub dependencies: Vec<Dependency>,
}

/// One direct dependency of a crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// The name under which the other crate is published or found.
    pub name: String,
    /// Whether only tests, examples and benches get it.
    pub is_dev: bool,
}

/// Everything the rules may look at.
#[derive(Default)]
pub struct Tree {
    /// All text files, in the order of their paths.
    pub files: Vec<File>,
    /// All crates of the workspace.
    pub packages: Vec<Package>,
}

impl Tree {
    /// Reads the text files below `root`.
    pub fn read(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree::default();
        collect(root, "", &mut tree.files)?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    /// A tree of snippets, for the tests of the rules.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|(path, text)| File::new((*path).into(), (*text).into()));
        Tree { files: files.collect(), packages: Vec::new() }
    }

    /// The file at exactly this path.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// All Rust files with their source.
    pub fn rust_files(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files.iter().filter_map(|file| Some((file, file.rust.as_ref()?)))
    }
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<File>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') && !HIDDEN_KEPT.contains(&name.as_str()) {
            continue;
        }
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            let is_output = OUTPUT_FOLDERS.contains(&name.as_str())
                || prefix.is_empty() && OUTPUT_FOLDERS_OF_THE_ROOT.contains(&name.as_str());
            if !is_output {
                collect(&entry.path(), &format!("{path}/"), files)?;
            }
        } else if kind.is_file()
            && let Some(text) = read_text(&entry.path())?
        {
            files.push(File::new(path, text));
        }
    }
    Ok(())
}

/// The file's text; `None` when it is large, no text, or was removed since it was listed, as
/// editors and other tools do.
fn read_text(path: &Path) -> io::Result<Option<String>> {
    let bytes = match fs::metadata(path) {
        Ok(facts) if facts.len() <= FILE_BYTES_MAX => fs::read(path),
        Ok(_) => return Ok(None),
        Err(error) => Err(error),
    };
    match bytes {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the crates out of what `cargo metadata --no-deps` prints.
pub fn read_packages(json: &[u8], root: &Path) -> Result<Vec<Package>, String> {
    let value: serde_json::Value =
        serde_json::from_slice(json).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = value["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    packages.iter().map(|package| read_package(package, root)).collect()
}

fn read_package(package: &serde_json::Value, root: &Path) -> Result<Package, String> {
    let name = package["name"].as_str().ok_or("a package has no name")?.to_owned();
    let manifest = package["manifest_path"].as_str().ok_or("a package has no manifest")?;
    let manifest = Path::new(manifest).strip_prefix(root).unwrap_or(Path::new(manifest));
    let mut dependencies = Vec::new();
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        let name = dependency["name"].as_str().ok_or("a dependency has no name")?.to_owned();
        dependencies.push(Dependency { name, is_dev: dependency["kind"] == "dev" });
    }
    Ok(Package { name, manifest: manifest.to_string_lossy().into_owned(), dependencies })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_from_metadata() {
        let json = br#"{"packages": [{"name": "net", "manifest_path": "/r/crates/net/Cargo.toml",
            "dependencies": [{"name": "model", "kind": null}, {"name": "testkit", "kind": "dev"},
                {"name": "cc", "kind": "build"}]}]}"#;
        let packages = read_packages(json, Path::new("/r")).expect("well formed");
        let dependency = |name: &str, is_dev| Dependency { name: name.into(), is_dev };
        let expected = Package {
            name: "net".into(),
            manifest: "crates/net/Cargo.toml".into(),
            dependencies: vec![
                dependency("model", false),
                dependency("testkit", true),
                dependency("cc", false),
            ],
        };
        assert_eq!(packages, [expected]);
    }

    #[test]
    fn metadata_that_is_no_metadata_is_an_error() {
        assert!(read_packages(b"{}", Path::new("/r")).is_err());
        assert!(read_packages(b"error: no such command", Path::new("/r")).is_err());
    }

    #[test]
    fn only_sources_of_crates_are_crate_sources() {
        let tree = Tree::of(&[
            ("crates/net/src/shard.rs", ""),
            ("crates/net/tests/slow_reader.rs", ""),
            ("laboratory/load/src/run.rs", ""),
            ("xtask/src/main.rs", ""),
        ]);
        let sources: Vec<bool> = tree.files.iter().map(File::is_crate_source).collect();
        assert_eq!(sources, [true, false, true, false]);
        assert_eq!(tree.files[1].crate_path(), Some(("crates/net", "tests/slow_reader.rs")));
        assert_eq!(tree.files[3].crate_path(), None);
    }
}
