use super::*;

#[test]
fn what_is_no_name_of_a_file_is_none() {
    let long = "x".repeat(FILE_NAME_BYTES_MAX + 1);
    for bad in ["", ".", "..", "a/b", "..\\b", "a\nb", "a\0", &long] {
        assert!(!is_file_name(bad), "{bad:?}");
    }
    for good in ["a", ".hidden", "cat picture.png", "猫.png", &long[1..]] {
        assert!(is_file_name(good), "{good:?}");
    }
}

#[test]
fn types_and_patterns_are_told_apart() {
    for bad in ["", "image", "image/", "/png", "image/*", "text/plain; charset=x", "a/b/c"] {
        assert!(!is_media_type(bad), "{bad:?}");
    }
    assert!(is_media_type("image/svg+xml") && is_type_pattern("image/svg+xml"));
    assert!(is_type_pattern("*/*") && is_type_pattern("image/*"));
    for bad in ["*", "*/png", "image*", "image/p*"] {
        assert!(!is_type_pattern(bad), "{bad:?}");
    }
    assert!(is_type_of("Image/PNG", "image/*") && is_type_of("Image/PNG", "image/png"));
    assert!(is_type_of("x/y", "*/*"));
    assert!(!is_type_of("imagery/png", "image/*") && !is_type_of("image/png", "image/jpeg"));
}

#[test]
fn only_pictures_that_run_nothing_are_pictures() {
    assert!(is_picture("image/png") && is_picture("IMAGE/JPEG"));
    assert!(!is_picture("image/svg+xml") && !is_picture("text/html") && !is_picture(""));
}

#[test]
fn a_note_is_read_as_it_was_written() {
    let note = FileNote {
        url: "https://a.example/media/x/cat.png?k=v",
        name: "cat: a picture.png",
        media_type: "image/png",
        bytes: 48_213,
        size: (800, 600),
        blurhash: "LEHV6nWB2yk8pyo0adR*.7kCMdnj",
        stanza: "<message>\n\n<x/></message>",
    };
    assert_eq!(FileNote::parse(&note.write()), Some(note));
    let bare = FileNote::of_url("http://a.example/x").expect("an address");
    assert_eq!(&*bare.write(), b"url: http://a.example/x\n");
    assert_eq!(FileNote::parse(&bare.write()), Some(bare));
}

#[test]
fn a_note_needs_an_address_and_no_more() {
    for bad in ["", "name: x", "url: javascript:alert(1)", "url: https://", "url: http://a b"] {
        assert_eq!(FileNote::parse(bad.as_bytes()), None, "{bad}");
    }
    assert_eq!(FileNote::parse(&[0xff]), None);
    let some =
        FileNote::parse(b"later: more\nurl: http://a/b\nbytes: many\nsize: 1\n").expect("one");
    assert_eq!((some.url, some.bytes, some.size), ("http://a/b", 0, (0, 0)));
}

#[test]
fn a_line_end_in_a_name_makes_no_line() {
    let note = FileNote { url: "http://a/b", name: "x\nurl: http://evil/", ..FileNote::default() };
    let written = note.write();
    assert_eq!(FileNote::parse(&written).expect("a note").url, "http://a/b");
}

#[test]
fn an_address_tells_the_name_that_is_in_it() {
    for (url, name) in [
        ("https://a.example/m/x/cat.png", "cat.png"),
        ("https://a.example/m/my%20cat.png?k=a/b#c", "my cat.png"),
        ("https://a.example/%e7%8c%ab.png", "猫.png"),
        ("https://a.example/100%", "100%"),
        ("https://a.example/a%2Fb", ""),
        ("https://a.example/%ff", ""),
        ("https://a.example/", ""),
        ("https://a.example", ""),
    ] {
        assert_eq!(name_in_url(url), name, "{url}");
    }
    assert_eq!(type_by_name("a.JPG"), "image/jpeg");
    assert_eq!(type_by_name("a.exe"), UNKNOWN_TYPE);
    assert_eq!(type_by_name("png"), UNKNOWN_TYPE);
}
