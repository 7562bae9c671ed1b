//! `[mqtt]`: `model::limits::TopicLimits`, and the other settings of topics and sessions;
//! `[[mqtt.rewrite]]` and `[[mqtt.auto_subscribe]]`.
//!
//! The broker's own tables decide whether filters are well formed.

use base::section;
use base::setting::{Kind, text, whole};
use broker::rewrite::{AutoSubscribe, AutoSubscribes, RewriteRule, Rewrites};
use model::limits::TopicLimits;
use model::topic::{Qos, RetainHandling};

section! {
    /// `[mqtt]`: topics and sessions.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct MqttSection {
        /// Limits of topics and sessions.
        @part limits: TopicLimits;
        /// Close the connection of a client whose text contains control characters or
        /// non-characters (MQTT5 1.5.4 leaves it to the server). Ill-formed UTF-8 always closes it.
        @live strict_text: bool = false;
        /// Interval of the server's statistics, published retained under $SYS/broker/; 0: never.
        sys_interval_s: u32 = 10, whole(0..=86_400, "seconds");
        /// Topics that are rewritten; the first rule that matches applies.
        @aside rewrites: Vec<Rewrite>;
        /// Subscriptions that every client gets.
        @aside auto_subscribes: Vec<AutoSubscribeSection>;
    }
}

section! {
    /// `[[mqtt.rewrite]]`: topics that are rewritten.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Rewrite {
        /// Filter of the topics to rewrite. Of several rules the first that matches applies, once.
        filter: String, TEXT;
        /// The new topic: $1, $2 and so on are what the filter's wildcards matched, %c is the
        /// client identifier, %u the user.
        to: String, TEXT;
        /// Rewrite the topics of published messages.
        publish: bool = true;
        /// Rewrite subscriptions.
        subscribe: bool = true;
    }
}

impl Rewrite {
    /// The broker's type for it.
    pub fn rule(&self) -> RewriteRule {
        let Rewrite { filter, to, publish, subscribe } = self.clone();
        RewriteRule { filter, to, publish, subscribe }
    }

    /// Its fault, in the broker's words.
    pub(super) fn fault(&self) -> Option<String> {
        Rewrites::new(vec![self.rule()]).err()
    }
}

section! {
    /// `[[mqtt.auto_subscribe]]`: a subscription that every client gets.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct AutoSubscribeSection {
        /// Filter that every client is subscribed to when its session begins; %c is its client
        /// identifier, %u its user.
        filter: String, TEXT;
        /// Maximum QoS of its messages.
        qos: u32 = 0, whole(0..=2, "QoS");
        /// Do not deliver the client's own messages to it.
        no_local: bool = false;
        /// Keep the retain flag as published.
        retain_as_published: bool = false;
        /// Retained messages: 0: sent at every subscription; 1: only if the subscription is new; 2:
        /// not sent.
        retain_handling: u32 = 0, whole(0..=2, "as MQTT 5 numbers it");
    }
}

impl AutoSubscribeSection {
    /// The broker's type for it.
    pub fn wish(&self) -> AutoSubscribe {
        AutoSubscribe {
            filter: self.filter.clone(),
            qos: Qos::of(self.qos as u8).unwrap_or_default(),
            no_local: self.no_local,
            retain_as_published: self.retain_as_published,
            retain_handling: match self.retain_handling {
                0 => RetainHandling::Send,
                1 => RetainHandling::SendIfNew,
                _ => RetainHandling::DoNotSend,
            },
        }
    }

    /// Its fault, in the broker's words.
    pub(super) fn fault(&self) -> Option<String> {
        AutoSubscribes::new(vec![self.wish()]).err()
    }
}

const TEXT: Kind = text("a text of 1 to 1024 bytes", |text| {
    !text.is_empty() && text.len() <= 1_024 && !text.contains('\0')
});
