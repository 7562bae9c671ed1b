//! Products of a declaration: the struct, its defaults, and a table that agrees with both.

use super::*;

crate::words! {
    /// Colours.
    enum Colour {
        /// Not blue.
        Red = "red",
        /// Not red.
        Blue = "blue",
    }
}

crate::section! {
    /// A part.
    #[derive(Clone, PartialEq, Eq, Debug)]
    struct Part {
        /// Count of things
        /// that are kept.
        inner: u8 = 7, whole(0..=300, "things");
    }
}

crate::section! {
    /// All there is.
    #[derive(Clone, PartialEq, Eq, Debug)]
    struct All {
        /// Its name.
        @aside name: String;
        /// Where.
        place: String, text("a place", |place| !place.is_empty());
        /// Its part.
        @part part: Part;
        /// Its colour.
        @live hue as "colour": Colour = Colour::Red;
        /// Other colours.
        others: Vec<Colour> = vec![Colour::Blue];
        /// The secret of the part.
        password: Hidden = Hidden::of("x"), text("a password", |_| true), secret;
        /// Where it is told.
        url: String = String::new(), text("a URL", |_| true), url;
    }
}

#[test]
fn a_field_is_a_key_with_all_that_was_said_of_it() {
    let told = All::settings().into_iter().map(|setting| {
        (setting.name, setting.text, setting.reload, setting.required, setting.shown)
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            ("place", "Where.", Reload::Restart, true, Shown::Whole),
            ("inner", "Count of things that are kept.", Reload::Restart, false, Shown::Whole),
            ("colour", "Its colour.", Reload::Live, false, Shown::Whole),
            ("others", "Other colours.", Reload::Restart, false, Shown::Whole),
            ("password", "The secret of the part.", Reload::Restart, false, Shown::Never),
            ("url", "Where it is told.", Reload::Restart, false, Shown::WithoutSecrets),
        ]
    );
    let all = All::default();
    assert_eq!((all.name.as_str(), all.place.as_str(), all.part.inner), ("", "", 7));
    assert_eq!((all.hue, all.password.reveal()), (Colour::Red, "x"));
    let allowed = |at: usize| All::settings()[at].kind.allowed();
    assert_eq!(allowed(2), "one of \"red\", \"blue\"");
    assert_eq!(allowed(3), "a list of at most 2 of \"red\", \"blue\"");
}

#[test]
fn what_is_put_is_the_value_from_then_on() {
    let mut all = All::default();
    let blue = Value::Text("blue".into());
    assert!(all.put("colour", &blue) && all.put("inner", &Value::Whole(9)));
    assert_eq!((all.hue, all.part.inner), (Colour::Blue, 9));
    assert_eq!((all.value("colour"), all.value("inner")), (Some(blue), Some(Value::Whole(9))));
    let both = Value::List(vec!["red".into(), "blue".into()]);
    assert!(all.put("others", &both) && all.others == Colour::ALL);
    assert_eq!(all.value("others"), Some(both));
    let before = all.clone();
    for (name, value) in [
        ("hue", Value::Text("red".into())),
        ("colour", Value::Text("green".into())),
        ("others", Value::List(vec!["red".into(), "green".into()])),
        ("inner", Value::Whole(256)),
        ("name", Value::Text("n".into())),
        ("place", Value::Other),
    ] {
        assert!(!all.put(name, &value), "{name} = {value}");
    }
    assert_eq!((all.value("name"), all.value("hue")), (None, None));
    assert_eq!(all, before);
}
