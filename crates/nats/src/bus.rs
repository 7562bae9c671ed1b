//! Messages between nodes: core NATS, which keeps nothing and promises nothing.

use crate::{Events, NatsError, NatsEvent};
use async_nats::Client;
use futures_util::StreamExt;

/// Tells of what comes to a subject, which may have wildcards, from now on.
pub(crate) async fn listen(
    client: &Client,
    subject: String,
    events: Events,
) -> Result<(), NatsError> {
    let failed = |error: async_nats::SubscribeError| NatsError::Other(error.to_string());
    let mut heard = client.subscribe(subject).await.map_err(failed)?;
    tokio::spawn(async move {
        while let Some(message) = heard.next().await {
            events(NatsEvent::Heard {
                subject: message.subject.as_str().to_owned(),
                reply: message.reply.map(|reply| reply.as_str().to_owned()),
                payload: message.payload.to_vec(),
            });
        }
    });
    Ok(())
}

/// Publishes a message, to be answered at `reply` if that is given.
pub(crate) async fn say(client: Client, subject: String, reply: Option<String>, payload: Vec<u8>) {
    // Whoever waits for an answer asks again.
    let _ = match reply {
        Some(reply) => client.publish_with_reply(subject, reply, payload.into()).await,
        None => client.publish(subject, payload.into()).await,
    };
}
