//! `holdline check` by root: files that root can read and the service's user cannot.
//!
//! The user is that of the systemd unit which serves the same configuration file; without such a
//! unit nothing is known and nothing is said. Access is judged by owner, group and mode: ACLs are
//! not looked at.

use server::config::Config;
use std::fs::read_to_string;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The unit of the package.
const UNIT: &str = "holdline.service";

/// Folders of units; the first that has the unit counts.
const UNIT_FOLDERS: [&str; 4] =
    ["etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"];

/// User that a service runs as.
#[derive(PartialEq, Eq, Debug)]
struct User {
    name: String,
    uid: u32,
    /// The own one first.
    gids: Vec<u32>,
}

/// Files that the service's user cannot read, a sentence each; none unless root asks.
pub fn warnings(file: Option<&Path>, config: &Config) -> Vec<String> {
    let is_root = Path::new("/proc/self").metadata().is_ok_and(|it| it.uid() == 0);
    let file = file.filter(|_| is_root).and_then(|file| file.canonicalize().ok());
    let user = file.as_deref().and_then(|file| user_of_unit(Path::new("/"), file));
    let Some(user) = user else { return Vec::new() };
    let sections = config.shown();
    let values = sections.iter().flat_map(|section| &section.settings).map(|it| it.value.as_str());
    let mut paths: Vec<&Path> = values.flat_map(paths).collect();
    paths.extend(file.as_deref());
    paths.sort_unstable();
    paths.dedup();
    paths.into_iter().filter_map(|path| warning(path, &user)).collect()
}

/// Absolute paths of files in a value as it is written in the configuration.
fn paths(value: &str) -> impl Iterator<Item = &Path> {
    let parts = value.split('"').map(Path::new);
    parts.filter(|path| path.is_absolute() && path.is_file())
}

fn warning(path: &Path, user: &User) -> Option<String> {
    let real = path.canonicalize().ok()?;
    let folders = real.ancestors().skip(1);
    let closed = folders.filter(|folder| !allows(folder, user, 0o1)).last();
    let (what, hindrance) = match closed {
        Some(folder) => ("enter", folder),
        None if !allows(&real, user, 0o4) => ("read", &*real),
        None => return None,
    };
    let about = hindrance.metadata().ok()?;
    Some(format!(
        "{}: the service runs as {} and cannot {what} {} (mode {:03o}, owner {}, group {}): the \
         service cannot use it",
        path.display(),
        user.name,
        hindrance.display(),
        about.mode() & 0o777,
        name(Path::new("/etc/passwd"), about.uid()),
        name(Path::new("/etc/group"), about.gid()),
    ))
}

/// Whether these bits of the mode are the user's.
fn allows(path: &Path, user: &User, bits: u32) -> bool {
    let Ok(about) = path.metadata() else { return false };
    let shift = if about.uid() == user.uid {
        6
    } else if user.gids.contains(&about.gid()) {
        3
    } else {
        0
    };
    user.uid == 0 || about.mode() >> shift & bits == bits
}

/// The user of the unit, if that serves this configuration. `root` is `/` but in tests.
fn user_of_unit(root: &Path, file: &Path) -> Option<User> {
    let units = UNIT_FOLDERS.iter().map(|folder| root.join(folder).join(UNIT));
    let mut text = units.into_iter().find_map(|unit| read_to_string(unit).ok())?;
    let mut further: Vec<_> = UNIT_FOLDERS
        .iter()
        .filter_map(|folder| root.join(folder).join(format!("{UNIT}.d")).read_dir().ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    further.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));
    for path in further {
        text += "\n";
        text += &read_to_string(path).unwrap_or_default();
    }
    let serves = values(&text, "ExecStart")
        .into_iter()
        .any(|command| command.split_whitespace().any(|word| Path::new(word) == file));
    let name = values(&text, "User").into_iter().next_back().filter(|_| serves)?;
    let passwd = read_to_string(root.join("etc/passwd")).ok()?;
    let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let row = passwd.lines().map(fields).find(|row| row.first().is_some_and(|it| it == name))?;
    let (uid, gid) = (row.get(2)?.parse().ok()?, row.get(3)?.parse().ok()?);
    let groups = read_to_string(root.join("etc/group")).unwrap_or_default();
    let of_groups = groups.lines().map(fields).filter_map(|row| {
        let is_member = row.get(3)?.split(',').any(|member| member == name);
        is_member.then(|| row.get(2)?.parse().ok())?
    });
    Some(User { name: name.to_owned(), uid, gids: [gid].into_iter().chain(of_groups).collect() })
}

/// Values of a key in the text of a unit, in their order.
fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let lines = text.lines().filter_map(|line| line.split_once('='));
    lines.filter(|(found, value)| *found == key && !value.is_empty()).map(|it| it.1).collect()
}

/// The name of a number in a table of users or groups, else the number.
fn name(table: &Path, number: u32) -> String {
    let text = read_to_string(table).unwrap_or_default();
    let found = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then(|| name.to_owned())
    });
    found.unwrap_or_else(|| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn machine(unit: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        let put = |place: &str, text: &str| {
            let path = root.path().join(place);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            fs::write(path, text).expect("a file");
        };
        put("usr/lib/systemd/system/holdline.service", unit);
        put("etc/passwd", "root:x:0:0::/:/bin/sh\nholdline:x:990:991::/:/bin/false\n");
        put("etc/group", "holdline:x:991:\nssl-cert:x:120:www-data,holdline\nadm:x:4:\n");
        root
    }

    const SERVES: &str = "[Service]\nUser=holdline\n\
                          ExecStart=/usr/bin/holdline serve --config /etc/holdline/a.toml\n";

    #[test]
    fn the_user_is_that_of_the_unit_that_serves_this_configuration() {
        let root = machine(SERVES);
        let user = |file: &str| user_of_unit(root.path(), Path::new(file));
        let found = user("/etc/holdline/a.toml").expect("a user");
        assert_eq!(found, User { name: "holdline".into(), uid: 990, gids: vec![991, 120] });
        assert_eq!(user("/etc/holdline/other.toml"), None);
        // A drop-in has another user.
        let folder = root.path().join("etc/systemd/system/holdline.service.d");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("user.conf"), "[Service]\nUser=root\n").expect("a file");
        assert_eq!(user("/etc/holdline/a.toml").expect("a user").uid, 0);
    }

    #[test]
    fn a_file_is_readable_by_owner_group_or_others_as_its_mode_says() {
        let root = tempfile::tempdir().expect("a folder");
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("mode");
        let key = root.path().join("key.pem");
        fs::write(&key, "").expect("a file");
        let about = key.metadata().expect("it is there");
        let user = |uid, gids: &[u32]| User { name: "svc".into(), uid, gids: gids.to_vec() };
        let (owner, group) = (about.uid(), about.gid());
        let stranger = user(owner + 7, &[group + 7]);
        let mode =
            |mode| fs::set_permissions(&key, fs::Permissions::from_mode(mode)).expect("mode");
        mode(0o640);
        assert!(warning(&key, &user(owner + 7, &[group])).is_none());
        let told = warning(&key, &stranger).expect("a stranger cannot");
        for part in ["key.pem", "runs as svc", "cannot read", "mode 640", "owner "] {
            assert!(told.contains(part), "{part}: {told}");
        }
        mode(0o644);
        assert!(warning(&key, &stranger).is_none());
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o700)).expect("mode");
        let told = warning(&key, &stranger).expect("the folder is closed");
        assert!(told.contains("cannot enter") && told.contains("mode 700"), "{told}");
        assert!(warning(&key, &user(0, &[0])).is_none(), "root can");
    }

    #[test]
    fn paths_of_a_value_are_those_of_files_that_are_there() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().display();
        let found: Vec<_> = paths(&format!("[\"{path}\", \"/nowhere\", \"text\"]"))
            .map(Path::to_path_buf)
            .collect();
        assert_eq!(found, [file.path()]);
    }
}
