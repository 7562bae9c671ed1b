//! The URL of a test: whom to call, as which devices, and how they prove themselves.
//!
//! `SCHEME://PREFIX:PRODUCT@HOST:PORT/PATH?QUERY`. The part before the product is the prefix of
//! the device ids: two testers that share one take each other's sessions over.

use model::id::ProductKey;

/// How the target is spoken to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// MIOP.
    Miop,
    /// MIOP in TLS.
    Miops,
    /// MIOP in WebSocket.
    Ws,
    /// MIOP in WebSocket in TLS.
    Wss,
}

impl Scheme {
    /// Whether TLS is around it.
    pub const fn is_encrypted(self) -> bool {
        matches!(self, Scheme::Miops | Scheme::Wss)
    }

    /// Whether WebSocket is around it.
    pub const fn is_web_socket(self) -> bool {
        matches!(self, Scheme::Ws | Scheme::Wss)
    }
}

/// Whom to call, as which devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// How.
    pub scheme: Scheme,
    /// Prefix of the device ids.
    pub prefix: String,
    /// The devices' product.
    pub product: ProductKey,
    /// Host name or address; an IPv6 address stands in brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path of the WebSocket upgrade.
    pub path: String,
    /// MIOP version: 5, 6 or 7.
    pub version: u8,
    /// The product's secret; none: the devices are anonymous.
    pub secret: Option<Box<[u8]>>,
    /// Which of the product's secrets it is.
    pub key_id: u32,
    /// Heartbeat the devices wish, seconds; zero: no wish.
    pub keep_s: u16,
    /// PEM file with the authorities that are trusted; none: any certificate is taken.
    pub authority: Option<String>,
}

impl Target {
    /// Parses a URL.
    pub fn parse(url: &str) -> Result<Target, String> {
        let wrong = |what: &str| format!("invalid URL `{url}`: {what}");
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        let scheme = self::scheme(scheme)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let slash = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(slash);
        let who = "name the devices as HOST:PRODUCT@ in front of the address";
        let (user, address) = authority.rsplit_once('@').ok_or_else(|| wrong(who))?;
        let (prefix, product) = user.split_once(':').ok_or_else(|| wrong(who))?;
        let product = ProductKey::parse(product)
            .map_err(|error| wrong(&format!("the product key {error}")))?;
        let (host, port) = address.rsplit_once(':').ok_or_else(|| wrong("it has no port"))?;
        let port = port.parse().ok().filter(|port| *port > 0);
        let port = port.ok_or_else(|| wrong("its port is no number from 1 to 65535"))?;
        if prefix.is_empty() || host.is_empty() {
            return Err(wrong(if host.is_empty() { "it has no host" } else { who }));
        }
        let mut target = Target {
            scheme,
            prefix: prefix.to_owned(),
            product,
            host: host.to_owned(),
            port,
            path: if path.is_empty() { "/".to_owned() } else { path.to_owned() },
            version: 7,
            secret: None,
            key_id: 1,
            keep_s: 0,
            authority: None,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            target.set(pair).map_err(|what| wrong(&what))?;
        }
        Ok(target)
    }

    fn set(&mut self, pair: &str) -> Result<(), String> {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let allowed = |what: &str| format!("{key}={value}: {what}");
        match key {
            "version" => {
                let version = value.parse().ok().filter(|version| (5..=7).contains(version));
                self.version = version.ok_or_else(|| allowed("versions are 5, 6 and 7"))?;
            }
            "secret" => {
                let bytes = unhex(value).ok_or_else(|| allowed("pairs of hex digits"))?;
                self.secret = Some(bytes);
            }
            "key_id" => self.key_id = value.parse().map_err(|_| allowed("a number"))?,
            "keep" => self.keep_s = value.parse().map_err(|_| allowed("seconds, 0 to 65535"))?,
            "ca" if !value.is_empty() => self.authority = Some(value.to_owned()),
            _ => {
                return Err(format!(
                    "`{key}` is not known; allowed are version, secret, key_id, keep and ca"
                ));
            }
        }
        Ok(())
    }
}

fn scheme(name: &str) -> Result<Scheme, String> {
    match name {
        "miop" => Ok(Scheme::Miop),
        "miops" => Ok(Scheme::Miops),
        "ws" => Ok(Scheme::Ws),
        "wss" => Ok(Scheme::Wss),
        "mqtt" | "mqtts" | "xmpp" | "xmpps" | "im" | "ims" | "http" | "https" | "tcp" => {
            Err(format!("{name}:// comes with its protocol; now there are miop, miops, ws and wss"))
        }
        _ => Err(format!("{name}:// is not known; there are miop, miops, ws and wss")),
    }
}

fn unhex(text: &str) -> Option<Box<[u8]>> {
    let whole = !text.is_empty() && text.len().is_multiple_of(2);
    if !whole || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}
