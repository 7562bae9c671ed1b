//! Audiences, dry runs and segments: what reaches the shards, and every way to be refused.

use super::description::check_answer;
use super::*;
use model::audience::TagExpression;
use model::id::{DeviceUser, SegmentName, Tag};
use model::ports::pushes::{
    AudienceCounts, DeviceState, PushAnswer, PushCommand, PushCounts, PushTarget, UserTarget,
};
use serde_json::json;

#[test]
fn a_push_is_ordered_for_an_audience_or_only_counted() {
    let test_api = TestApi::new(|command| match command {
        Command::Push(PushCommand::Push(order)) => match &order.target {
            PushTarget::Audience(audience) if !audience.segments().is_empty() => {
                let segment = SegmentName::parse("vip").expect("a name");
                Answer::Push(PushAnswer::UnknownSegment(segment))
            }
            _ => {
                let (outcomes, counts) = (Vec::new(), PushCounts::default());
                Answer::Push(PushAnswer::Pushed { id: order.id, outcomes, counts })
            }
        },
        Command::Push(PushCommand::Count { .. }) => {
            Answer::Push(PushAnswer::Counted(AudienceCounts { matched: 9, online: 2, unknown: 1 }))
        }
        _ => Answer::Push(PushAnswer::Done(false)),
    });
    let push = |target: &str| {
        let body = format!(r#"{{"product": "shop", "body": "b", {target}}}"#);
        test_api.json("POST", "/v1/pushes", &body)
    };
    let tags = r#"{"and": ["a", {"not": {"or": ["b", "c"]}}]}"#;
    let (status, told) = push(&format!(r#""audience": {{"tags": {tags}, "except": ["e", "d"]}}"#));
    assert_eq!((status, &told["state"]), (200, &json!("finished")));
    let asked = test_api.asked();
    let Some(Command::Push(PushCommand::Push(order))) = asked.last() else { panic!() };
    let PushTarget::Audience(audience) = &order.target else { panic!("{:?}", order.target) };
    let except = audience.except.as_ref().expect("it was given");
    assert_eq!(except.iter().collect::<Vec<_>>(), ["d", "e"]);
    let has = |tags: &'static str| move |tag: &Tag| tags.contains(tag.as_str());
    assert!(audience.has("x", || None, &has("a")) && !audience.has("x", || None, &has("ac")));
    assert!(!audience.has("d", || None, &has("a")) && audience.devices.is_none());
    for target in [r#""audience": {"devices": ["a"]}"#, r#""devices": ["a"]"#, r#""all": true"#] {
        let (status, told) = push(&format!(r#"{target}, "dry_run": true"#));
        assert_eq!((status, &told["matched"], &told["unknown"]), (200, &json!(9), &json!(1)));
        check_answer("post", "/v1/pushes", &told);
        assert!(matches!(test_api.asked()[..], [Command::Push(PushCommand::Count { .. })]));
    }
    let (status, told) = push(r#""audience": {"tags": {"segment": "vip"}}"#);
    assert_eq!((status, &told["error"]["code"]), (404, &json!("unknown_segment")));
    let deep = format!("{}\"a\"{}", r#"{"not": "#.repeat(8), "}".repeat(8));
    let many = format!(r#"{{"or": [{}]}}"#, ["\"a\""; 65].join(","));
    for (audience, why) in [
        (r#"{"tags": {"and": []}}"#, "`audience.tags.and` must be a list"),
        (r#"{"tags": {}}"#, "`audience.tags` must be a tag, or an object"),
        (r#"{"tags": {"not": null}}"#, "`audience.tags.not` must be a tag, or an object"),
        (r#"{"tags": null, "devices": ["null"]}"#, "`audience.tags` must not be null"),
        (r#"{"devices": ["a", 1]}"#, "`audience.devices[1]` must be a string"),
        (r#"{"tags": {"and": ["a", 1]}}"#, "`audience.tags.and[1]` must be a tag, or an object"),
        (r#"{"tags": {"xor": ["a"]}}"#, "`audience.tags` must be a tag, or an object"),
        (r#"{"tags": {"and": ["a"], "or": ["b"]}}"#, "`audience.tags` must be"),
        (r#"{"tags": "no blank"}"#, "the name of the tag"),
        (r#"{"tags": {"segment": 7}}"#, "must be the name of a segment"),
        (&*format!(r#"{{"tags": {deep}}}"#), "an expression has 8 levels at most"),
        (&*format!(r#"{{"tags": {many}}}"#), "an expression has 64 tags and segments at most"),
        (r#"{"devices": []}"#, "`audience.devices` has 0 names"),
        (r#"{"devices": ["a b"]}"#, "the name of a device has the byte 0x20"),
        (r#"{"devices": "a"}"#, "must be a list of names"),
        (r#"{"tag": "a"}"#, "unknown field"),
    ] {
        let (status, told) = push(&format!(r#""audience": {audience}"#));
        let message = told["error"]["message"].as_str().expect("text");
        assert!(status == 400 && message.contains(why), "{audience}: {message}");
    }
    // Nothing of a large body is read beyond the limits of expressions and lists.
    let parts = ["{\"not\": \"a\"}"; 20_000].join(",");
    for target in [
        format!(r#""audience": {{"tags": {{"or": [{parts}]}}}}"#),
        format!(r#""user": "ann", "user_tags": {{"or": [{parts}]}}"#),
    ] {
        let (status, told) = push(&target);
        let message = told["error"]["message"].as_str().expect("text");
        let why = ".or[64].not`: an expression has 64 tags and segments at most";
        assert!(status == 400 && message.ends_with(why), "{message}");
    }
    let names = ["\"d\""; 100_000].join(",");
    let (status, _) = push(&format!(r#""audience": {{"devices": [{names}]}}"#));
    assert_eq!(status, 200, "a body that is read aside");
    let (status, told) = push(&format!(r#""devices": [{names}]"#));
    let message = told["error"]["message"].as_str().expect("text");
    assert_eq!((status, message), (400, "`devices` must have 1 to 1000 names"));
    let (status, told) = push(r#""audience": {}, "tag": "a""#);
    let message = told["error"]["message"].as_str().expect("text");
    assert!(status == 400 && message.contains("exactly one of"), "{message}");
}

#[test]
fn segments_are_saved_shown_and_removed() {
    let vip = || SegmentName::parse("vip").expect("a name");
    let tags = TagExpression::Not(Box::new(TagExpression::Tag(Tag::parse("a").expect("a name"))));
    let saved = [(vip(), Arc::new(tags.clone()))];
    let test_api = TestApi::new(move |command| {
        Answer::Push(match command {
            Command::Push(PushCommand::Segments { product, names }) => {
                let is_asked = |name| names.as_ref().is_none_or(|names| names.contains(name));
                let saved = saved.iter().filter(|(name, _)| is_asked(name)).cloned();
                match product.as_str() {
                    "shop" => PushAnswer::Segments(saved.collect()),
                    _ => PushAnswer::UnknownProduct,
                }
            }
            Command::Push(PushCommand::PutSegment { segment, .. })
                if segment.as_str() == "more" =>
            {
                PushAnswer::TooManySegments
            }
            Command::Push(PushCommand::PutSegment { .. }) => PushAnswer::Done(true),
            Command::Push(PushCommand::DropSegment { segment, .. }) => {
                PushAnswer::Done(*segment == vip())
            }
            _ => PushAnswer::Done(false),
        })
    });
    let told_tags = json!({"not": "a"});
    let (path, of_all) =
        ("/v1/products/{product}/segments/{segment}", "/v1/products/shop/segments");
    let (status, told) = test_api.json("GET", of_all, "");
    assert_eq!((status, &told["segments"][0]["tags"]), (200, &told_tags));
    check_answer("get", "/v1/products/{product}/segments", &told);
    let body = r#"{"tags": {"not": "a"}}"#;
    for (method, body) in [("GET", ""), ("PUT", body)] {
        let (status, told) = test_api.json(method, "/v1/products/shop/segments/vip", body);
        assert_eq!((status, &told), (200, &json!({"segment": "vip", "tags": told_tags})));
        check_answer(&method.to_lowercase(), path, &told);
    }
    let asked = test_api.asked();
    let Some(Command::Push(PushCommand::PutSegment { tags: put, .. })) = asked.last() else {
        panic!("{asked:?}")
    };
    assert_eq!(*put, tags);
    assert_eq!(test_api.json("DELETE", "/v1/products/shop/segments/vip", "").0, 200);
    for (method, place, body, code) in [
        ("GET", "shop/segments/x", "", "unknown_segment"),
        ("DELETE", "shop/segments/x", "", "unknown_segment"),
        ("GET", "other/segments", "", "unknown_product"),
        ("PUT", "shop/segments/more", body, "too_many_segments"),
        ("PUT", "shop/segments/a%20b", body, "bad_request"),
        ("PUT", "shop/segments/a", r#"{"tags": {"segment": "vip"}}"#, "bad_request"),
    ] {
        let (_, told) = test_api.json(method, &format!("/v1/products/{place}"), body);
        assert_eq!(told["error"]["code"], json!(code), "{method} {place}");
    }
}

#[test]
fn a_push_is_ordered_for_a_user_and_devices_are_given_to_users() {
    let test_api = TestApi::new(|command| {
        Answer::Push(match command {
            Command::Push(PushCommand::Push(order)) => {
                let (outcomes, counts) = (Vec::new(), PushCounts::default());
                PushAnswer::Pushed { id: order.id, outcomes, counts }
            }
            Command::Push(PushCommand::SetUser { device, .. }) => {
                PushAnswer::Done(device.as_str() != "many")
            }
            Command::Push(PushCommand::UserDevices { .. }) => {
                let user = DeviceUser::parse("ann@example.org");
                PushAnswer::Devices(vec![DeviceState { user, ..super::http::state("d") }])
            }
            _ => PushAnswer::Done(false),
        })
    });
    let push = |target: &str, key: bool| {
        let body = format!(r#"{{"product": "shop", "body": "b", {target}}}"#);
        let key: &[(&str, &[u8])] = if key { &[("Idempotency-Key", b"k")] } else { &[] };
        let (status, text, _) = test_api.send_with(key, "POST", "/v1/pushes", &body);
        let told: Value = serde_json::from_str(&text).expect("JSON");
        (status, told)
    };
    let target = || match test_api.asked().pop() {
        Some(Command::Push(PushCommand::Push(order))) => order.target,
        other => panic!("{other:?}"),
    };
    let ann = DeviceUser::parse("ann").expect("a name");
    let ios = TagExpression::Tag(Tag::parse("ios").expect("a name"));
    let (status, told) = push(r#""user": "ann", "user_tags": "ios", "last_active": true"#, false);
    assert_eq!((status, &told["outcomes"]), (200, &json!([])));
    let (user, tags) = (ann.clone(), Some(ios.clone()));
    assert_eq!(target(), PushTarget::User(UserTarget { user, tags, last_active: true }));
    // A push with a key, or for later, is stored with its audience.
    let (status, told) = push(r#""user": "ann", "user_tags": "ios""#, true);
    assert_eq!((status, &told["state"]), (200, &json!("finished")));
    let PushTarget::Audience(audience) = target() else { panic!() };
    assert_eq!((&audience.user, &audience.tags), (&Some(ann), &Some(ios)));
    for (target, key, why) in [
        (r#""user": """#, false, "the name of a user"),
        (r#""user": "a", "tag": "b""#, false, "exactly one of"),
        (r#""all": true, "last_active": true"#, false, "need `user`"),
        (r#""tag": "a", "user_tags": "b""#, false, "need `user`"),
        (r#""user": "a", "last_active": true"#, true, "`last_active` is for a push"),
        (r#""user": "a", "user_tags": {}"#, false, "`user_tags` must be a tag"),
        (r#""user": "a", "devices_per_s": 1"#, false, "`devices_per_s` needs"),
    ] {
        let (status, told) = push(target, key);
        let message = told["error"]["message"].as_str().expect("text");
        assert!(status == 400 && message.contains(why), "{target}: {message}");
    }
    let path = "/v1/products/shop/devices/d/user";
    let of_document = "/v1/products/{product}/devices/{device}/user";
    for (method, body, user) in [
        ("PUT", r#"{"user": "ann@example.org"}"#, json!("ann@example.org")),
        ("DELETE", "", json!(null)),
    ] {
        let (status, told) = test_api.json(method, path, body);
        assert_eq!((status, &told["user"]), (200, &user));
        check_answer(&method.to_lowercase(), of_document, &told);
    }
    let many = "/v1/device/user?product=shop&device=many";
    let (status, told) = test_api.json("PUT", many, r#"{"user": "ann"}"#);
    assert_eq!((status, &told["error"]["code"]), (409, &json!("too_many_devices")));
    assert_eq!(test_api.json("PUT", path, r#"{"user": "a\nb"}"#).0, 400);
    let (status, told) =
        test_api.json("GET", "/v1/products/shop/owners/ann@example.org/devices", "");
    assert_eq!((status, &told["devices"][0]["user"]), (200, &json!("ann@example.org")));
    check_answer("get", "/v1/products/{product}/owners/{owner}/devices", &told);
}
