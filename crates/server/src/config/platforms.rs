//! `[platform.NAME]`: push services of platforms, for devices that are away.

use super::access::URL_OR_NONE;
use admin::{ApnsIdentity, PlatformService, PlatformSettings, WEB_PUSH_ENDPOINTS};
use base::setting::{Kind, list, text, whole};
use base::{section, words};
use model::limits::PlatformLimits;
use model::push::PlatformRule;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Largest file of a key or of certificates that is read, bytes.
const FILE_BYTES_MAX: u64 = 256 * 1024;

section! {
    /// `[platform.NAME]`: the push service of a platform, which reaches devices that are away.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct PlatformSection {
        /// Its name in the configuration.
        @aside name: String;
        /// Kind of the service: webpush (browsers, RFC 8030), fcm (Firebase Cloud Messaging, HTTP
        /// v1), apns (Apple), huawei (Push Kit) or xiaomi (Mi Push).
        kind: PlatformKind;
        /// How long a device must be away before its pushes go to the platform. After a start it
        /// counts from the start.
        away_s: u32 = 30, whole(0..=30 * 86_400, "seconds");
        /// File of the private key, PEM as PKCS #8: of webpush the VAPID key, of apns the team's
        /// key, or that of certificate_file. Of fcm the JSON file of a service account.
        key_file: Option<PathBuf> = None;
        /// Of apns, instead of key_id and team_id: file of the app's certificate with its chain,
        /// PEM; "" is none.
        certificate_file: Option<PathBuf> = None;
        /// Of huawei and xiaomi: file of the app's secret; "" is none.
        secret_file: Option<PathBuf> = None;
        /// The app: of apns its topic (mostly the bundle id), of huawei its id, of xiaomi its
        /// package.
        app: String = String::new(), SHORT;
        /// Of apns: id of the key in key_file.
        key_id: String = String::new(), SHORT;
        /// Of apns: id of the team that the key belongs to.
        team_id: String = String::new(), SHORT;
        /// Where pushes are sent, instead of the platform's own address; "" is that. Not for
        /// webpush. Apple's service for development is https://api.sandbox.push.apple.com.
        url: String = String::new(), URL_OR_NONE, url;
        /// Of huawei: where access tokens are asked for; "" is Huawei's own address.
        token_url: String = String::new(), URL_OR_NONE, url;
        /// Of webpush: a mailto: or https: URI at which push services reach you.
        subject: String = String::new(), SHORT;
        /// Of webpush: origins that subscriptions may name as their push service; *. stands for any
        /// subdomain. []: the services of Chrome, Firefox, Edge and Safari. A browser chooses its
        /// own service, so others would let anybody make this server send requests anywhere.
        endpoints: Vec<String> = Vec::new(), ORIGINS;
        /// File with the authorities of the service's certificate, PEM, instead of the usual ones;
        /// "" is none.
        ca_file: Option<PathBuf> = None;
        /// Send through the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names. Not for apns.
        proxy_from_environment: bool = false;
        /// Limits of the platform.
        @part limits: PlatformLimits;
    }
}

words! {
    /// Kind of a push service.
    pub enum PlatformKind {
        /// Web Push.
        WebPush = "webpush",
        /// Firebase Cloud Messaging.
        Fcm = "fcm",
        /// Apple Push Notification service.
        Apns = "apns",
        /// Huawei Push Kit.
        Huawei = "huawei",
        /// Xiaomi Mi Push.
        Xiaomi = "xiaomi",
    }
}

/// The kind of a section before its file is read; the key must be set.
impl Default for PlatformKind {
    fn default() -> PlatformKind {
        PlatformKind::WebPush
    }
}

const ORIGINS: Kind = list(64, "origins such as https://push.example", is_origin);
const SHORT: Kind = text("up to 256 visible characters", is_short);

fn is_short(text: &str) -> bool {
    text.len() <= 256 && text.bytes().all(|b| b.is_ascii_graphic())
}

fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-.:*[]".contains(&b);
    host.is_some_and(|host| {
        let rest = host.strip_prefix("*.").unwrap_or(host);
        !rest.is_empty() && !rest.contains('*') && host.bytes().all(allowed)
    })
}

impl PlatformSection {
    /// A platform of this name with the defaults; an error says why the name is invalid.
    pub fn named(name: &str) -> Result<PlatformSection, String> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
        if name.is_empty() || name.len() > 32 || !name.bytes().all(allowed) {
            return Err("a platform's name must be 1 to 32 letters, digits, - and _".into());
        }
        Ok(PlatformSection { name: name.into(), ..PlatformSection::default() })
    }

    /// The rule for the order of pushes.
    pub fn rule(&self) -> PlatformRule {
        PlatformRule { name: self.name.as_str().into(), away_s: self.away_s }
    }

    /// The settings for the API's crate, with what their files hold. An error says what to change.
    pub fn settings(&self) -> Result<PlatformSettings, String> {
        let of_file = |key: &str, path: &Path| {
            read(path)
                .map_err(|why| format!("platform.{}: {key} {}: {why}", self.name, path.display()))
        };
        let key = || match &self.key_file {
            Some(path) => of_file("key_file", path),
            None => Err(format!("platform.{}: set key_file", self.name)),
        };
        let secret = || {
            let Some(path) = &self.secret_file else {
                return Err(format!("platform.{}: set secret_file", self.name));
            };
            let text = String::from_utf8(of_file("secret_file", path)?);
            let text =
                text.map_err(|_| format!("platform.{}: secret_file is no text", self.name))?;
            Ok(text.trim().to_owned())
        };
        let (app, url) = (self.app.clone(), self.url.clone());
        let service = match self.kind {
            PlatformKind::WebPush => PlatformService::WebPush {
                key: key()?,
                subject: self.subject.clone(),
                endpoints: match self.endpoints.is_empty() {
                    true => WEB_PUSH_ENDPOINTS.map(String::from).into(),
                    false => self.endpoints.clone(),
                },
            },
            PlatformKind::Fcm => PlatformService::Fcm { account: key()?, url },
            PlatformKind::Apns => {
                let identity = match &self.certificate_file {
                    Some(path) => ApnsIdentity::Certificate {
                        certificate: of_file("certificate_file", path)?,
                        key: key()?,
                    },
                    None => ApnsIdentity::Token {
                        key: key()?,
                        key_id: self.key_id.clone(),
                        team_id: self.team_id.clone(),
                    },
                };
                PlatformService::Apns { identity, topic: app, url }
            }
            PlatformKind::Huawei => {
                let token_url = self.token_url.clone();
                PlatformService::Huawei { app, secret: secret()?, url, token_url }
            }
            PlatformKind::Xiaomi => {
                PlatformService::Xiaomi { package: app, secret: secret()?, url }
            }
        };
        let authorities =
            self.ca_file.as_deref().map(|path| of_file("ca_file", path)).transpose()?;
        let settings = PlatformSettings {
            name: self.name.as_str().into(),
            service,
            authorities,
            proxied: self.proxy_from_environment,
            limits: self.limits.clone(),
        };
        match admin::Platforms::check_settings(&settings) {
            Ok(()) => Ok(settings),
            Err(why) => Err(format!("platform.{}: {why}", self.name)),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    match bytes.len() as u64 <= FILE_BYTES_MAX {
        true => Ok(bytes),
        false => Err(format!("the file has more than {FILE_BYTES_MAX} bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_and_a_host() {
        for good in ["https://a.example", "https://*.a.example", "http://127.0.0.1:8080"] {
            assert!(is_origin(good), "{good}");
        }
        for bad in
            ["", "a.example", "https://", "https://*.", "https://a.*.b", "https://a/b", "ftp://a"]
        {
            assert!(!is_origin(bad), "{bad}");
        }
        assert!(WEB_PUSH_ENDPOINTS.into_iter().all(is_origin));
    }

    #[test]
    fn what_is_missing_is_told_with_its_section() {
        let section = PlatformSection::named("web").expect("a name");
        assert_eq!(section.settings().err(), Some("platform.web: set key_file".into()));
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("key.pem");
        let section = PlatformSection { key_file: Some(file.clone()), ..section };
        assert!(section.settings().is_err_and(|why| why.contains("key.pem: No such file")));
        std::fs::write(file, "nothing").expect("written");
        let why = section.settings().err().expect("no key");
        assert!(why.starts_with("platform.web: key_file holds no private key"), "{why}");
        let file = folder.path().join("long.pem");
        std::fs::write(&file, vec![b'x'; FILE_BYTES_MAX as usize + 1]).expect("written");
        let section = PlatformSection { key_file: Some(file), ..section };
        assert!(section.settings().is_err_and(|why| why.contains("more than 262144 bytes")));
        assert!(PlatformSection::named("a b").is_err());
    }
}
