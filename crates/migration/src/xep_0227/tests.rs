//! Files as servers write them, and bent ones.

use super::*;
use model::ports::users::ImportForm;

const HEAD: &str = "<?xml version='1.0' encoding='UTF-8'?>";

fn one(text: &str, host: Option<&str>) -> Result<Moving, String> {
    read(vec![("file.xml".into(), text.as_bytes())], host)
}

/// A file of one host with these users.
fn hosted(users: &str) -> String {
    format!("{HEAD}<server-data xmlns='{PIE}'><host jid='a.example'>{users}</host></server-data>")
}

fn base64(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// Keys as Prosody writes them.
fn credentials(mechanism: &str, bytes: usize) -> String {
    let (server, stored) = (base64(&vec![2; bytes]), base64(&vec![1; bytes]));
    format!(
        "<scram-credentials xmlns='{SCRAM}' mechanism='{mechanism}'><server-key>{server}\
         </server-key><stored-key>{stored}</stored-key><iter-count>10000</iter-count>\
         <salt>c2FsdA==</salt></scram-credentials>"
    )
}

/// The hash that those become.
fn hash(mark: &str, bytes: usize) -> String {
    format!("${mark}$10000$c2FsdA==${}${}", base64(&vec![1; bytes]), base64(&vec![2; bytes]))
}

fn lines(moving: &Moving) -> Vec<(ImportForm, &str)> {
    moving.lines.iter().map(|line| (line.form, &*line.text)).collect()
}

/// Import line of a user with this text, or why it is left out.
fn user(text: &str) -> Result<String, String> {
    let moving = one(&hosted(text), None)?;
    match (&*moving.lines, &*moving.left) {
        ([line], []) => Ok(line.text.clone()),
        ([], [left]) => Err(left.to_string()),
        (lines, left) => panic!("{} lines, {left:?}", lines.len()),
    }
}

#[test]
fn users_of_every_form_become_lines() {
    let (old, new) = (credentials("SCRAM-SHA-1", 20), credentials("SCRAM-SHA-256", 32));
    let text = hosted(&format!(
        "\n <user name='ann' password='a &quot;b&quot; &lt;&#x21;'/>\n\
         <user name='bob'>{old}<query xmlns='jabber:iq:roster'><item jid='x@y'/></query></user>\
         <user name='carl'><vCard xmlns='vcard-temp'><user name='no'/></vCard>{new}{old}</user>"
    ));
    let moving = one(&text, None).expect("right");
    assert_eq!(moving.left, []);
    let [sha_1, sha_256] = [hash("scram-sha-1", 20), hash("scram-sha-256", 32)];
    assert_eq!(
        lines(&moving),
        [
            (ImportForm::Csv, "ann,\"a \"\"b\"\" <!\""),
            (ImportForm::Passwords, &*format!("bob:{sha_1}")),
            (ImportForm::Passwords, &*format!("carl:{sha_256} {sha_1}")),
        ]
    );
    assert_eq!(moving.lines[0].place, "file.xml: ann");
}

#[test]
fn names_are_those_of_their_namespaces() {
    let text = hosted("<user name='ann' password='x'/>");
    let prefixed = "<p:server-data xmlns:p='urn:xmpp:pie:0'><p:host jid='a.example'><p:user \
                    name='ann' password='x'/></p:host></p:server-data>";
    for text in [&*text, prefixed, &*text.replace("<user", "<user xmlns='other'/><user")] {
        let moving = one(text, None).expect("right");
        assert_eq!(lines(&moving), [(ImportForm::Csv, "ann,\"x\"")], "{text}");
    }
    let why = user(&format!(
        "<user name='ann'>{}</user>",
        credentials("SCRAM-SHA-1", 20).replace(SCRAM, "o")
    ));
    assert!(why.is_err_and(|why| why.contains("neither")));
}

#[test]
fn a_host_may_be_the_root_and_its_keys_in_base64_twice_as_ejabberd_writes_them() {
    let twice = |bytes: &[u8]| base64(base64(bytes).as_bytes());
    for (mechanism, mark, bytes) in
        [("SCRAM-SHA-1", "scram-sha-1", 20), ("SCRAM-SHA-256", "scram-sha-256", 32)]
    {
        let text = format!(
            "{HEAD}<host xmlns='{PIE}' xmlns:xi='{INCLUDE}' jid='a.example'><user name='ann'>\
             <scram-credentials xmlns='{SCRAM}' mechanism='{mechanism}'><iter-count>4096\
             </iter-count><salt>{}</salt><server-key>{}</server-key><stored-key>{}</stored-key>\
             </scram-credentials></user></host>",
            twice(b"salt"),
            twice(&vec![2; bytes]),
            twice(&vec![1; bytes]),
        );
        let moving = one(&text, None).expect("right");
        let hash = hash(mark, bytes).replace("10000", "4096");
        assert_eq!(lines(&moving), [(ImportForm::Passwords, &*format!("ann:{hash}"))]);
    }
}

#[test]
fn keys_in_a_password_are_those_of_older_ejabberd() {
    let [stored, server, long] = [base64(&[1; 20]), base64(&[2; 20]), base64(&[3; 32])];
    let of = |text: &str| user(&format!("<user name='ann' password='{text}'/>"));
    let text = format!("scram:{stored},{server},c2FsdA==,10000");
    assert_eq!(of(&text), Ok(format!("ann:{}", hash("scram-sha-1", 20))));
    let text = format!("scram:sha256,{long},{long},c2FsdA==,4096");
    assert_eq!(of(&text), Ok(format!("ann:$scram-sha-256$4096$c2FsdA==${long}${long}")));
    for wrong in [
        format!("scram:{stored},{server},c2FsdA==,x"),
        format!("scram:{stored},{long},c2FsdA==,1"),
        format!("scram:sha512,{long},{long},c2FsdA==,1"),
        "scram:a,b,c,d".into(),
    ] {
        assert!(of(&wrong).is_err_and(|why| why.contains("incomplete")), "{wrong}");
    }
    assert_eq!(of("scram: a,b"), Ok("ann,\"scram: a,b\"".into()), "somebody's password");
}

#[test]
fn what_cannot_be_taken_over_is_named_with_the_reason() {
    let right = credentials("SCRAM-SHA-1", 20);
    let bent =
        |what: &str, by: &str| format!("<user name='ann'>{}</user>", right.replace(what, by));
    for (text, why) in [
        ("<user name='ann'/>".into(), "neither a password nor keys"),
        ("<user name='ann' password=''/>".into(), "neither"),
        ("<user password='x'/>".into(), "1 to 64 bytes"),
        ("<user name='a&#10;b' password='x'/>".into(), "file.xml: a\\nb: the name has the byte"),
        (
            bent("SCRAM-SHA-1", "SCRAM-SHA-512"),
            "its keys are SCRAM-SHA-512, which is not supported",
        ),
        (bent("SCRAM-SHA-1", "SCRAM-SHA-256"), "incomplete"),
        (bent("<salt>c2FsdA==</salt>", "<salt>c2FsdA</salt>"), "incomplete"),
        (bent("<salt>c2FsdA==</salt>", ""), "1 to 1024"),
        (bent("10000", ""), "incomplete"),
        (bent("10000", "-1"), "incomplete"),
        (bent("10000", "10000001"), "rounds"),
        (bent("AgIC", "&amp;AgIC"), "incomplete"),
        (bent("c2FsdA==", &"c2FsdA==".repeat(1_000)), "incomplete"),
    ] {
        let told = user(&text);
        assert!(told.as_ref().is_err_and(|told| told.contains(why)), "{text}: {told:?}");
    }
    let text = bent("c2FsdA==", "c2\n Fs<x>no</x>dA<!-- no -->==");
    assert_eq!(user(&text), Ok(format!("ann:{}", hash("scram-sha-1", 20))), "one text in pieces");
    // Keys that are taken make good for those that are not.
    let both =
        format!("<user name='ann'>{}{right}</user>", right.replace("SCRAM-SHA-1", "SCRAM-SHA-512"));
    assert_eq!(user(&both), Ok(format!("ann:{}", hash("scram-sha-1", 20))));
    let longest = base64(base64(&[7; 1_024]).as_bytes());
    assert!(longest.len() <= PART_BYTES_MAX, "a salt of the longest is read");
}

#[test]
fn one_host_is_taken_and_which_must_be_clear() {
    let host = |jid: &str, name: &str| {
        format!("<host jid='{jid}'><user name='{name}' password='x'/></host>")
    };
    let file = |hosts: &str| format!("<server-data xmlns='{PIE}'>{hosts}</server-data>");
    let both = file(&(host("A.example", "ann") + &host("b.example", "bob")));
    let of = |name| one(&both, name).map(|moving| lines(&moving)[0].1.to_owned());
    assert_eq!(of(Some("a.Example")), Ok("ann,\"x\"".into()));
    assert_eq!(of(Some("b.example")), Ok("bob,\"x\"".into()));
    let why = of(None).expect_err("which?");
    assert_eq!(
        why,
        "file.xml:1: the file has the hosts a.example and b.example: choose one with --host"
    );
    let why = of(Some("c.example")).expect_err("there is none");
    assert_eq!(why, "`c.example` not found; the file has a.example, b.example");
    assert!(one(&file(""), None).is_err_and(|why| why.contains("a host not found")));
    // A file a user, as Prosody keeps them.
    let files = ["ann", "bob"].map(|name| (format!("{name}.xml"), file(&host("a.example", name))));
    let files = files.iter().map(|(name, text)| (name.clone(), text.as_bytes())).collect();
    let moving = read(files, None).expect("right");
    assert_eq!(lines(&moving).len(), 2);
    assert_eq!(moving.lines[1].place, "bob.xml: bob");
}

#[test]
fn files_that_are_something_else_are_refused_with_their_line() {
    let right = hosted("<user name='ann' password='x'/>");
    let (begin, end) = right.split_once("<user").expect("one");
    for (text, why) in [
        (String::new(), "too early"),
        ("<a/>".into(), "not an XEP-0227 file"),
        (right.replace(PIE, "urn:other"), "not an XEP-0227 file"),
        (right.replace("UTF-8", "ISO-8859-1"), "not UTF-8"),
        (format!("{begin}<!DOCTYPE x [<!ENTITY e 'x'>]><user{end}"), "document type"),
        (format!("{right}{right}").replace(HEAD, ""), "a second root"),
        (right.replace("</host>", ""), ""),
        (begin.into(), "too early"),
        (right.replace("jid=", "id="), "no jid"),
        (right.replace("password=", "name="), ""),
        (right.replace("'x'", "'&other;'"), "password"),
    ] {
        let told = one(&text, None);
        assert!(told.as_ref().is_err_and(|told| told.contains(why)), "{text}: {told:?}");
    }
    let mut bytes = right.clone().into_bytes();
    bytes.insert(begin.len(), 0xff);
    assert!(read(vec![("f".into(), &*bytes)], None).is_err(), "no UTF-8");
    let spread = right.replace('>', ">\n").replace("</host>", "</hos>");
    assert!(one(&spread, None).is_err_and(|why| why.starts_with("file.xml:5: ")));
    let include = format!(
        "<server-data xmlns='{PIE}' xmlns:xi='{INCLUDE}'><xi:include href='h.xml'/></server-data>"
    );
    assert!(one(&include, None).is_err_and(|why| why.contains("the file `h.xml`")));
}

#[test]
fn elements_stand_in_each_other_up_to_a_limit() {
    let deep = |count: usize| {
        let (begin, end) = ("<x>".repeat(count), "</x>".repeat(count));
        one(&hosted(&format!("<user name='ann' password='x'>{begin}{end}</user>")), None)
    };
    assert!(deep(DEPTH_MAX).is_ok());
    assert!(deep(DEPTH_MAX + 1).is_err_and(|why| why.contains("256 nested elements")));
}

#[test]
fn a_text_has_so_many_bytes_and_a_file_any() {
    let of = |text: &str| one(&hosted(&format!("<user name='a' password='x'>{text}</user>")), None);
    let most = TOKEN_BYTES_MAX;
    assert!(of(&"x".repeat(most + 1)).is_err_and(|why| why.contains("16777216 bytes")));
    let picture = format!("<p>{}</p>", "x".repeat(most / 2));
    assert!(of(&picture.repeat(3)).is_ok());
}
