//! Properties of MQTT 5 from the command line: `-D PACKET NAME VALUE`.

use client::{Block, Property, VarInt};

/// Property of a packet on the command line: packet, name, one value or two.
pub struct Given {
    packet: String,
    name: String,
    value: String,
    second: String,
}

const PACKETS: [&str; 6] = ["connect", "publish", "subscribe", "unsubscribe", "disconnect", "will"];

/// Takes the words of all `-D` apart: a user property has two values, the others one.
pub fn given(words: &[String]) -> Result<Vec<Given>, String> {
    let (mut all, mut words) = (Vec::new(), words.iter().cloned());
    while let Some(packet) = words.next() {
        if !PACKETS.contains(&packet.as_str()) {
            return Err(format!("-D {packet}: unknown packet; use one of {}", PACKETS.join(", ")));
        }
        let mut next = || words.next().ok_or(format!("-D {packet} needs a name and a value"));
        let (name, value) = (next()?, next()?);
        let second = if name == "user-property" { next()? } else { String::new() };
        all.push(Given { packet, name, value, second });
    }
    Ok(all)
}

/// The properties for a packet.
pub fn block(given: &[Given], packet: &str) -> Result<Block, String> {
    let mut block = Block::default();
    for given in given.iter().filter(|given| given.packet == packet) {
        let property = given.property()?;
        let unsent = |_| format!("-D {packet} {}: the value is too long", given.name);
        block.push(property).map_err(unsent)?;
    }
    Ok(block)
}

impl Given {
    fn property(&self) -> Result<Property<'_>, String> {
        let (value, name) = (self.value.as_str(), self.name.as_str());
        let wrong = || format!("-D {} {name} {value}: not a number in range", self.packet);
        let long = || value.parse::<u32>().map_err(|_| wrong());
        let short = || value.parse::<u16>().map_err(|_| wrong());
        let flag = || value.parse::<u8>().ok().filter(|flag| *flag < 2).ok_or_else(wrong);
        let places: &[&str] = match name {
            "payload-format-indicator"
            | "message-expiry-interval"
            | "content-type"
            | "response-topic"
            | "correlation-data" => &["publish", "will"],
            "topic-alias" => &["publish"],
            "subscription-identifier" => &["subscribe"],
            "session-expiry-interval" => &["connect", "disconnect"],
            "will-delay-interval" => &["will"],
            "user-property" => &PACKETS,
            _ => &["connect"],
        };
        if !places.contains(&self.packet.as_str()) {
            return Err(format!("-D {}: {name} is not allowed in this packet", self.packet));
        }
        Ok(match name {
            "payload-format-indicator" => Property::PayloadFormat(flag()?),
            "message-expiry-interval" => Property::MessageExpiry(long()?),
            "content-type" => Property::ContentType(value),
            "response-topic" => Property::ResponseTopic(value),
            "correlation-data" => Property::CorrelationData(value.as_bytes()),
            "topic-alias" => Property::TopicAlias(short()?),
            "subscription-identifier" => Property::SubscriptionId(VarInt(long()?)),
            "session-expiry-interval" => Property::SessionExpiry(long()?),
            "will-delay-interval" => Property::WillDelay(long()?),
            "receive-maximum" => Property::ReceiveMaximum(short()?.max(1)),
            "maximum-packet-size" => Property::MaximumPacketSize(long()?.max(1)),
            "topic-alias-maximum" => Property::TopicAliasMaximum(short()?),
            "request-problem-information" => Property::RequestProblem(flag()?),
            "request-response-information" => Property::RequestResponse(flag()?),
            "user-property" => Property::UserProperty((value, &self.second)),
            _ => return Err(format!("-D {} {name}: unknown property", self.packet)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn several_properties_are_taken_apart() {
        let text = "publish user-property a b publish content-type text connect receive-maximum 5";
        let given = given(&words(text)).unwrap_or_default();
        assert_eq!(given.len(), 3);
        let publish = block(&given, "publish").expect("a block");
        let publish: Vec<_> = publish.properties().iter().map(|p| p.name().to_owned()).collect();
        assert_eq!(publish, ["user_property", "content_type"]);
        let connect = block(&given, "connect").expect("a block");
        assert_eq!(connect.properties().receive_maximum(), Some(5));
    }

    #[test]
    fn what_has_no_sense_is_refused_in_words() {
        assert!(given(&words("ping a b")).is_err());
        assert!(given(&words("publish user-property a")).is_err());
        for text in ["subscribe content-type x", "publish topic-alias x", "connect nothing 1"] {
            let given = given(&words(text)).unwrap_or_default();
            let packet = text.split(' ').next().unwrap_or_default();
            assert!(block(&given, packet).is_err(), "{text}");
        }
    }
}
