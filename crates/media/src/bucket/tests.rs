//! Addresses of a bucket, held against what AWS has published.

use super::*;

/// The keys of AWS's own examples.
fn example() -> BucketSettings {
    BucketSettings {
        endpoint: "https://s3.amazonaws.com".into(),
        region: "us-east-1".into(),
        bucket: "examplebucket".into(),
        is_path_style: false,
        access_key: "AKIAIOSFODNN7EXAMPLE".into(),
        secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
        public_url: String::new(),
    }
}

/// 2013-05-24T00:00:00Z.
const THEN_S: u64 = 1_369_353_600;

fn wish(media_type: &str) -> UploadWish {
    UploadWish { name: "a b.png".into(), media_type: media_type.into(), bytes: 48_213 }
}

#[test]
fn the_published_example_is_signed_as_it_is_published() {
    // Amazon S3 API Reference, "Authenticating Requests: Using Query Parameters (AWS Signature
    // Version 4)", the example at its end.
    let request = Request {
        method: "GET",
        key: "test.txt",
        now_s: THEN_S,
        holds_s: 86_400,
        headers: &[],
        query: &[],
    };
    assert_eq!(
        Bucket::new(example()).signed(&request),
        "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256\
         &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
         &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
         &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    );
}

#[test]
fn an_upload_is_held_to_its_length_and_type() {
    let slot = Bucket::new(example()).slot(THEN_S, "x/a b.png", (60, 600), &wish("image/png"));
    assert!(slot.put_url.contains("/x/a%20b.png?"), "{}", slot.put_url);
    assert!(slot.put_url.contains("SignedHeaders=content-length%3Bcontent-type%3Bhost&"));
    assert!(slot.put_url.contains("X-Amz-Expires=60&"));
    assert_eq!(slot.headers, [("Content-Type".into(), "image/png".into())]);
    assert_eq!((slot.put_until_s, slot.get_until_s), (THEN_S + 60, THEN_S + 600));
    assert!(slot.get_url.contains("&response-content-disposition=inline&"), "{}", slot.get_url);
    let other = wish("image/svg+xml");
    let slot = Bucket::new(example()).slot(THEN_S, "x", (60, 600), &other);
    assert!(slot.get_url.contains("&response-content-disposition=attachment&"));
}

#[test]
fn another_length_or_secret_has_another_signature() {
    let of = |settings: BucketSettings, bytes| {
        let wish = UploadWish { bytes, ..wish("image/png") };
        let slot = Bucket::new(settings).slot(THEN_S, "x", (60, 60), &wish);
        slot.put_url.rsplit_once("Signature=").expect("it is signed").1.to_owned()
    };
    let usual = of(example(), 1);
    assert_ne!(usual, of(example(), 2));
    assert_ne!(usual, of(BucketSettings { secret_key: "other".into(), ..example() }, 1));
}

#[test]
fn the_bucket_stands_in_the_path_or_before_the_host_and_no_address_shows_the_secret() {
    let in_path = BucketSettings {
        endpoint: "http://127.0.0.1:9000/".into(),
        is_path_style: true,
        ..example()
    };
    let slot = Bucket::new(in_path.clone()).slot(THEN_S, "x", (60, 60), &wish(""));
    assert!(slot.put_url.starts_with("http://127.0.0.1:9000/examplebucket/x?"));
    assert!(slot.put_url.contains("SignedHeaders=content-length%3Bhost&"), "{}", slot.put_url);
    assert_eq!(slot.headers, []);
    for url in [&slot.put_url, &slot.get_url] {
        assert!(!url.contains("wJalr"), "{url}");
    }
    let public = BucketSettings { public_url: "https://files.example/".into(), ..in_path };
    let slot = Bucket::new(public).slot(THEN_S, "x/a b", (60, 9_999_999), &wish(""));
    assert_eq!(
        (&*slot.get_url, slot.get_until_s),
        ("https://files.example/x/a%20b", THEN_S + 9_999_999)
    );
}

#[test]
fn no_signed_address_holds_for_longer_than_a_week() {
    let slot = Bucket::new(example()).slot(THEN_S, "x", (60, 9_999_999), &wish(""));
    assert!(slot.get_url.contains("X-Amz-Expires=604800&"), "{}", slot.get_url);
    assert_eq!(slot.get_until_s, THEN_S + 604_800);
}

#[test]
fn a_page_may_reach_where_addresses_lead_and_nothing_else() {
    let origins = |settings: &BucketSettings| settings.origins().join(" ");
    let mut settings = example();
    assert_eq!(origins(&settings), "https://examplebucket.s3.amazonaws.com");
    settings.public_url = "https://files.example.org:8443/chat/".into();
    settings.is_path_style = true;
    settings.endpoint = "http://127.0.0.1:9000/".into();
    assert_eq!(origins(&settings), "http://127.0.0.1:9000 https://files.example.org:8443");
    let slot = Bucket::new(settings).slot(THEN_S, "x", (60, 600), &wish("image/png"));
    assert!(slot.put_url.starts_with("http://127.0.0.1:9000/examplebucket/x?"));
    assert!(slot.get_url.starts_with("https://files.example.org:8443/chat/x"));
}
