//! `holdline pub` and `holdline sub` as a script calls them, against mosquitto and its own
//! commands. Where mosquitto is not installed these tests say so and pass.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A mosquitto on a Unix socket. Dropping it ends it.
struct Mosquitto {
    child: Child,
    folder: tempfile::TempDir,
}

impl Mosquitto {
    fn start() -> Option<Mosquitto> {
        let binaries = ["/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto", "/usr/bin/mosquitto"];
        let Some(binary) = binaries.iter().find(|path| Path::new(path).exists()) else {
            eprintln!("mosquitto is not installed: nothing is tested");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display();
        let config = format!("allow_anonymous true\nuser root\nlistener 0 {path}/socket\n");
        std::fs::write(folder.path().join("conf"), config).expect("a file");
        let mut command = Command::new(binary);
        command.arg("-v").arg("-c").arg(folder.path().join("conf"));
        let mut child =
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        // It says when it is up; what it says afterwards is read so that it never waits.
        let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
        log.find(|line| line.as_ref().is_ok_and(|line| line.ends_with(" running")));
        let reader = std::thread::Builder::new().name("log".into());
        reader.spawn(move || log.for_each(drop)).expect("a thread");
        Some(Mosquitto { child, folder })
    }

    fn command(&self, name: &str, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdline"));
        command.arg(name).arg("--unix").arg(self.folder.path().join("socket"));
        command.args(arguments.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, name: &str, arguments: &str) -> Output {
        self.command(name, arguments).output().expect("it runs")
    }

    /// A subscriber whose subscription is there.
    fn subscriber(&self, arguments: &str) -> Child {
        let mut child = self.command("sub", &format!("{arguments} -d")).spawn().expect("it runs");
        let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
        log.find(|line| line.as_ref().is_ok_and(|line| line.contains("granted")));
        child
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn heard(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), text(&output.stdout))
}

#[test]
fn what_is_published_is_printed() {
    let Some(broker) = Mosquitto::start() else { return };
    for version in ["31", "311", "5"] {
        for qos in 0..=2 {
            let sub = broker.subscriber(&format!("-V {version} -q {qos} -t a/+ -v -C 2"));
            let flags = format!("-V {version} -q {qos} -t a/b -m hello --repeat 2");
            assert_eq!(broker.run("pub", &flags).status.code(), Some(0));
            assert_eq!(heard(sub), (Some(0), "a/b hello\na/b hello\n".to_owned()));
        }
    }
}

#[test]
fn each_line_of_standard_input_is_a_message() {
    let Some(broker) = Mosquitto::start() else { return };
    let lines: String = (0..2_000).map(|at| format!("line {at}\n")).collect();
    let sub = broker.subscriber("-q 1 -t l -C 2000");
    let mut sender = broker.command("pub", "-q 1 -t l -l");
    let mut sender = sender.stdin(Stdio::piped()).spawn().expect("it runs");
    let mut input = sender.stdin.take().expect("piped");
    input.write_all(lines.as_bytes()).expect("it reads");
    drop(input);
    assert_eq!(sender.wait().expect("it ends").code(), Some(0));
    assert_eq!(heard(sub), (Some(0), lines));
}

#[test]
fn a_session_that_is_kept_has_what_was_missed() {
    let Some(broker) = Mosquitto::start() else { return };
    let kept = "-i kept -c -q 1 -t missed";
    assert_eq!(broker.run("sub", &format!("{kept} -E")).status.code(), Some(0));
    assert_eq!(broker.run("pub", "-q 1 -t missed -m one").status.code(), Some(0));
    let output = broker.run("sub", &format!("{kept} -C 1"));
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "one\n".to_owned()));
}

#[test]
fn kept_messages_are_shown_left_out_and_removed_as_asked() {
    let Some(broker) = Mosquitto::start() else { return };
    for topic in ["r/1", "r/2"] {
        let flags = format!("-r -q 1 -t {topic} -m {topic}");
        assert_eq!(broker.run("pub", &flags).status.code(), Some(0));
    }
    let mut all = broker.command("sub", "-t r/# -C 2 -F");
    let all = all.arg("%t=%p,%r,%l").output().expect("it runs");
    assert_eq!(text(&all.stdout), "r/1=r/1,1,3\nr/2=r/2,1,3\n");
    assert_eq!(broker.run("sub", "-t r/# -R -W 1").status.code(), Some(27));
    let some = broker.run("sub", "-t r/# -T r/2 -W 1");
    assert_eq!(text(&some.stdout), "r/1\n");
    assert_eq!(broker.run("sub", "-t r/# --remove-retained -C 2").status.code(), Some(0));
    assert_eq!(text(&broker.run("sub", "-t r/# -W 1").stdout), "");
}

#[test]
fn properties_cross_both_ways() {
    let Some(broker) = Mosquitto::start() else { return };
    let mut sub = broker.command("sub", "-V 5 -t p -C 1 -d -F");
    let mut sub = sub.arg("%C|%P|%R|%E").spawn().expect("it runs");
    let mut log = BufReader::new(sub.stderr.take().expect("piped")).lines();
    log.find(|line| line.as_ref().is_ok_and(|line| line.contains("granted")));
    let flags = "-t p -m x -D publish content-type text -D publish user-property a b \
                 -D publish response-topic r -D publish message-expiry-interval 60";
    assert_eq!(broker.run("pub", flags).status.code(), Some(0));
    assert_eq!(heard(sub), (Some(0), "text|a:b|r|60\n".to_owned()));
}

#[test]
fn faults_say_what_to_do() {
    let Some(broker) = Mosquitto::start() else { return };
    let cases = [
        ("pub", "-t a/# -m x", 1, "is not a valid topic"),
        ("pub", "-m x", 1, "give -t TOPIC"),
        ("pub", "-t a -m x -c", 1, "give -i with -c"),
        ("pub", "-t a -m x -V 311 -x 5", 1, "give -V 5"),
        ("sub", "-t a+", 1, "is not a valid filter"),
        ("sub", "-t a -F %z", 1, "-F"),
        ("sub", "-t a -W 1", 27, "timed out"),
    ];
    for (name, flags, code, words) in cases {
        let output = broker.run(name, flags);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{flags}: {said}");
        assert!(said.contains(words), "{flags}: {said}");
        assert_eq!(said.trim().lines().count(), 1, "{said}");
    }
    let mut nowhere = Command::new(env!("CARGO_BIN_EXE_holdline"));
    let output = nowhere.args(["pub", "-p", "1", "-t", "a", "-m", "x"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("Is the broker running"));
}
