//! Connections to NATS as the settings say.

use crate::{Events, NatsError, NatsEvent, NatsLogin, NatsSettings, NatsTls};
use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use std::time::Duration;

/// A server that does not answer to a ping for twice so long is left for another one.
const PING_EVERY: Duration = Duration::from_secs(2);

/// A connection that does not come about is given up after so long.
const CONNECT: Duration = Duration::from_secs(3);

/// Longest pause between two attempts.
const AGAIN: Duration = Duration::from_secs(1);

/// Connects; if it is `patient`, goes on trying in the background.
pub(crate) async fn connect(
    settings: &NatsSettings,
    name: &str,
    is_patient: bool,
    events: Option<Events>,
) -> Result<Client, NatsError> {
    let addresses = addresses(settings)?;
    let mut options = ConnectOptions::new()
        .name(name)
        .connection_timeout(CONNECT)
        .ping_interval(PING_EVERY)
        .request_timeout(Some(crate::api::MAKING))
        .reconnect_delay_callback(|attempts| {
            AGAIN.min(Duration::from_millis(50) * (attempts.min(100) as u32))
        });
    if is_patient {
        options = options.retry_on_initial_connect();
    }
    if let Some(events) = events {
        options = options.event_callback(move |event| {
            tell(&events, &event);
            std::future::ready(())
        });
    }
    options = with_tls(options, settings.tls.as_ref());
    options = with_login(options, &settings.login)?;
    let connected = tokio::time::timeout(2 * CONNECT, options.connect(addresses)).await;
    match connected {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => Err(NatsError::Other(error.to_string())),
        Err(_) => Err(NatsError::Silent),
    }
}

/// The addresses, each of which makes sense.
pub(crate) fn addresses(settings: &NatsSettings) -> Result<Vec<ServerAddr>, NatsError> {
    if settings.servers.is_empty() {
        return Err(NatsError::Other("no address".into()));
    }
    let parse = |text: &String| {
        text.parse::<ServerAddr>()
            .map_err(|error| NatsError::Other(format!("the address {text:?}: {error}")))
    };
    settings.servers.iter().map(parse).collect()
}

fn tell(events: &Events, event: &Event) {
    match event {
        Event::Connected => events(NatsEvent::Connected(true)),
        Event::Disconnected => events(NatsEvent::Connected(false)),
        Event::ServerError(error) => events(NatsEvent::Said(error.to_string())),
        Event::ClientError(error) => events(NatsEvent::Said(error.to_string())),
        _ => {}
    }
}

fn with_tls(options: ConnectOptions, tls: Option<&NatsTls>) -> ConnectOptions {
    let Some(NatsTls { ca, certificate }) = tls else { return options };
    let mut options = options.require_tls(true);
    if let Some(ca) = ca {
        options = options.add_root_certificates(ca.clone());
    }
    if let Some((certificate, key)) = certificate {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    options
}

fn with_login(options: ConnectOptions, login: &NatsLogin) -> Result<ConnectOptions, NatsError> {
    let read = |path: &std::path::Path| {
        std::fs::read_to_string(path)
            .map_err(|error| NatsError::Other(format!("{}: {error}", path.display())))
    };
    match login {
        NatsLogin::None => Ok(options),
        NatsLogin::Credentials(path) => {
            let said = read(path)?;
            let failed =
                |error: std::io::Error| NatsError::Other(format!("{}: {error}", path.display()));
            options.credentials(&said).map_err(failed)
        }
        NatsLogin::NKey(path) => Ok(options.nkey(read(path)?.trim().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_make_no_sense_are_refused_by_name() {
        let of = |servers: &[&str]| {
            let servers = servers.iter().map(|it| it.to_string()).collect();
            addresses(&NatsSettings { servers, ..NatsSettings::default() })
        };
        assert_eq!(of(&["nats://a:4222", "tls://b:4222", "c:4222"]).map(|it| it.len()), Ok(3));
        let wrong = of(&["a:4222", "http://b"]).expect_err("not NATS").to_string();
        assert!(wrong.contains("http://b"), "{wrong}");
        assert!(of(&[]).is_err());
    }
}
