//! `[mqtt]`: `model::limits::TopicLimits`, and what else holds for topics and sessions;
//! `[[mqtt.rewrite]]` and `[[mqtt.auto_subscribe]]`.
//!
//! Whether filters are well formed is asked of the broker's own tables.

use base::section;
use base::setting::{Kind, text, whole};
use broker::rewrite::{AutoSubscribe, AutoSubscribes, RewriteRule, Rewrites};
use model::limits::TopicLimits;
use model::topic::{Qos, RetainHandling};

section! {
    /// `[mqtt]`: topics and sessions.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct MqttSection {
        /// What bounds them.
        @part limits: TopicLimits;
        /// Whether control characters and non-characters in a client's text end its connection
        /// (MQTT5 1.5.4 leaves it to the server). Ill-formed UTF-8 always does.
        strict_text: bool = false;
        /// Time between two publications of what the server counts, retained under $SYS/broker/; 0
        /// is never.
        sys_interval_s: u32 = 10, whole(0..=86_400, "seconds");
        /// Topics that are taken for others, the first that matches.
        @aside rewrites: Vec<Rewrite>;
        /// Subscriptions that every client gets.
        @aside auto_subscribes: Vec<AutoSubscribeSection>;
    }
}

section! {
    /// `[[mqtt.rewrite]]`: topics that are taken for others.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Rewrite {
        /// Topics that are taken for others: a filter. Of several rules the first that matches
        /// holds, once.
        filter: String, TEXT;
        /// What they are taken for: $1, $2 and so on stand for what the filter's wildcards matched,
        /// %c for the client identifier, %u for the user.
        to: String, TEXT;
        /// Whether it holds for what is published.
        publish: bool = true;
        /// Whether it holds for subscriptions.
        subscribe: bool = true;
    }
}

impl Rewrite {
    /// The broker's word for it.
    pub fn rule(&self) -> RewriteRule {
        let Rewrite { filter, to, publish, subscribe } = self.clone();
        RewriteRule { filter, to, publish, subscribe }
    }

    /// What is wrong with it, in the broker's words.
    pub(super) fn fault(&self) -> Option<String> {
        Rewrites::new(vec![self.rule()]).err()
    }
}

section! {
    /// `[[mqtt.auto_subscribe]]`: a subscription that every client gets.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct AutoSubscribeSection {
        /// What every client is subscribed to when its session begins; %c stands for its
        /// identifier, %u for its user.
        filter: String, TEXT;
        /// The highest QoS of its messages.
        qos: u32 = 0, whole(0..=2, "QoS");
        /// Nothing that the client published itself.
        no_local: bool = false;
        /// Messages keep the retain flag they were published with.
        retain_as_published: bool = false;
        /// Retained messages: 0, sent whenever it is subscribed; 1, only if it was not there; 2,
        /// not sent.
        retain_handling: u32 = 0, whole(0..=2, "as MQTT 5 numbers it");
    }
}

impl AutoSubscribeSection {
    /// The broker's word for it.
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

    /// What is wrong with it, in the broker's words.
    pub(super) fn fault(&self) -> Option<String> {
        AutoSubscribes::new(vec![self.wish()]).err()
    }
}

const TEXT: Kind = text("a text of 1 to 1024 bytes", |text| {
    !text.is_empty() && text.len() <= 1_024 && !text.contains('\0')
});
