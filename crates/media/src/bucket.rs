//! A bucket of a storage that speaks S3: addresses signed for it (AWS Signature Version 4, query
//! form).
//!
//! ```text
//! secret, day, region, "s3" ─► key ─► HMAC of (time, scope, digest of the request) ─► signature
//! ```
//! The bucket is never asked anything: it believes whoever has signed, and holds the request to
//! what was signed, its length and its type too. So bytes pass between device and bucket alone.
//! Invariant: the secret is in no address.

use crate::keyed::{digest, escaped, mac};
use base::{calendar, hex};
use model::media::{UploadSlot, UploadWish, is_picture};

/// How long an address holds at most: what the protocol allows.
pub const BUCKET_S_MAX: u32 = 7 * 86_400;

/// Where a bucket is, and with what it is signed for.
#[derive(Clone, PartialEq, Eq)]
pub struct BucketSettings {
    /// Scheme, host and perhaps port: `https://s3.example.org`.
    pub endpoint: String,
    /// Its region.
    pub region: String,
    /// Its name.
    pub bucket: String,
    /// The name stands in the path, and not in front of the host.
    pub is_path_style: bool,
    /// The public part of the key.
    pub access_key: String,
    /// The secret part.
    pub secret_key: String,
    /// Where files are got without a signature; empty: they are got with one.
    pub public_url: String,
}

/// A bucket that addresses are signed for.
pub(crate) struct Bucket {
    settings: BucketSettings,
    scheme: String,
    host: String,
}

/// A request that is signed.
struct Request<'a> {
    method: &'a str,
    key: &'a str,
    now_s: u64,
    holds_s: u32,
    /// Headers besides `host`, by their names in lower case, in order.
    headers: &'a [(&'a str, &'a str)],
    /// Parameters of the query besides the signature.
    query: &'a [(&'a str, &'a str)],
}

impl BucketSettings {
    /// Scheme and host where files are put, and got with a signature.
    fn place(&self) -> (&str, String) {
        let (scheme, host) = self.endpoint.split_once("://").unwrap_or(("https", ""));
        let host = host.trim_end_matches('/');
        match self.is_path_style {
            true => (scheme, host.to_owned()),
            false => (scheme, format!("{}.{host}", self.bucket)),
        }
    }

    /// Scheme and host of all addresses that are made for it: the bucket's own, and where files
    /// are got without a signature.
    pub fn origins(&self) -> Vec<String> {
        let (scheme, host) = self.place();
        let public = Some(origin(&self.public_url)).filter(|public| !public.is_empty());
        [format!("{scheme}://{host}")].into_iter().chain(public).collect()
    }
}

/// Scheme, host and port of an address; nothing of what is none.
pub fn origin(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            format!("{scheme}://{}", rest.split('/').next().unwrap_or_default())
        }
        None => String::new(),
    }
}

impl Bucket {
    pub(crate) fn new(settings: BucketSettings) -> Bucket {
        let (scheme, host) = settings.place();
        Bucket { scheme: scheme.to_owned(), host, settings }
    }

    /// Leave to put a file there under this key, for so long, and to get it for as long.
    pub(crate) fn slot(
        &self,
        now_s: u64,
        key: &str,
        (upload_s, keep_s): (u32, u32),
        wish: &UploadWish,
    ) -> UploadSlot {
        let (upload_s, get_s) = (upload_s.min(BUCKET_S_MAX), keep_s.min(BUCKET_S_MAX));
        let length = wish.bytes.to_string();
        let headers = [("content-length", &*length), ("content-type", &*wish.media_type)];
        // What was not told a client may say as it likes, or not at all.
        let told = if wish.media_type.is_empty() { 1 } else { 2 };
        let put = Request {
            method: "PUT",
            key,
            now_s,
            holds_s: upload_s,
            headers: &headers[..told],
            query: &[],
        };
        let how = shown_how(wish.media_type());
        let query =
            [("response-content-disposition", how), ("response-content-type", wish.media_type())];
        let get =
            Request { method: "GET", key, now_s, holds_s: get_s, headers: &[], query: &query };
        let public = self.settings.public_url.trim_end_matches('/');
        let (get_url, get_s) = match public {
            "" => (self.signed(&get), get_s),
            public => (format!("{public}/{}", path_of(key)), keep_s),
        };
        UploadSlot {
            put_url: self.signed(&put).into(),
            headers: wish.headers(),
            get_url: get_url.into(),
            put_until_s: now_s + u64::from(upload_s),
            get_until_s: now_s + u64::from(get_s),
        }
    }

    fn signed(&self, request: &Request<'_>) -> String {
        let BucketSettings { region, bucket, access_key, secret_key, .. } = &self.settings;
        let host = &*self.host;
        let path = match self.settings.is_path_style {
            true => format!("/{}/{}", escaped(bucket), path_of(request.key)),
            false => format!("/{}", path_of(request.key)),
        };
        let (day, time) = stamps(request.now_s);
        let scope = format!("{day}/{region}/s3/aws4_request");
        let mut headers: Vec<(&str, &str)> = vec![("host", host)];
        headers.extend(request.headers);
        headers.sort_unstable();
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let (credential, holds) = (format!("{access_key}/{scope}"), request.holds_s.to_string());
        let mut query = vec![
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", &*credential),
            ("X-Amz-Date", &*time),
            ("X-Amz-Expires", &*holds),
            ("X-Amz-SignedHeaders", &*names),
        ];
        query.extend(request.query);
        let mut pairs: Vec<String> = query
            .iter()
            .map(|(name, value)| format!("{}={}", escaped(name), escaped(value)))
            .collect();
        pairs.sort_unstable();
        let query = pairs.join("&");
        let lines: String =
            headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let canonical =
            format!("{}\n{path}\n{query}\n{lines}\n{names}\nUNSIGNED-PAYLOAD", request.method);
        let digest = hex::encode(&digest(canonical.as_bytes()));
        let said = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}");
        let secret = format!("AWS4{secret_key}");
        let key = [&*day, region, "s3", "aws4_request"]
            .iter()
            .fold(secret.into_bytes(), |key, part| mac(&key, &[part.as_bytes()]).to_vec());
        let signature = hex::encode(&mac(&key, &[said.as_bytes()]));
        format!("{}://{host}{path}?{query}&X-Amz-Signature={signature}", self.scheme)
    }
}

/// How a browser is to take a file of this type: pictures it shows, everything else it keeps.
pub(crate) fn shown_how(media_type: &str) -> &'static str {
    if is_picture(media_type) { "inline" } else { "attachment" }
}

/// A key as it stands in a path: its slashes are the path's.
fn path_of(key: &str) -> String {
    key.split('/').map(escaped).collect::<Vec<_>>().join("/")
}

/// The day, and the second, as signatures have them.
fn stamps(now_s: u64) -> (String, String) {
    let day = calendar::date(now_s).replace('-', "");
    let (hour, minute) = (now_s / 3_600 % 24, now_s / 60 % 60);
    let time = format!("{day}T{hour:02}{minute:02}{:02}Z", now_s % 60);
    (day, time)
}

#[cfg(test)]
mod tests;
