//! Properties of a message that go on unaltered to every receiver, as bytes and back.
//!
//! [`model::topic::Publication`] carries them in the encoding of MQTT 5 without their length
//! (MQTT5 2.2.2.2): an identifier of one byte, then a value. Those of a message are these five
//! (MQTT5 3.3.2.3); the others are about one hop. It knows no packet. Invariant: what
//! [`encode`] makes, [`decode`] gives back.

/// The five.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Properties {
    /// The payload is UTF-8 (MQTT5 3.3.2.3.2).
    pub(crate) is_utf8: bool,
    /// Media type of the payload (MQTT5 3.3.2.3.9).
    pub(crate) content_type: Option<String>,
    /// Where an answer goes (MQTT5 3.3.2.3.5).
    pub(crate) response_topic: Option<String>,
    /// Data that the response must repeat (MQTT5 3.3.2.3.6).
    pub(crate) correlation_data: Option<Vec<u8>>,
    /// Names and values, in order; a name may come again (MQTT5 3.3.2.3.7).
    pub(crate) user_properties: Vec<(String, String)>,
}

const PAYLOAD_FORMAT: u8 = 0x01;
const CONTENT_TYPE: u8 = 0x03;
const RESPONSE_TOPIC: u8 = 0x08;
const CORRELATION_DATA: u8 = 0x09;
const USER_PROPERTY: u8 = 0x26;

/// As bytes. Every text and the data have at most 65,535 of them: orders are checked for it.
pub(crate) fn encode(properties: &Properties) -> Vec<u8> {
    let mut out = Vec::new();
    if properties.is_utf8 {
        out.extend([PAYLOAD_FORMAT, 1]);
    }
    let texts = [
        (CONTENT_TYPE, properties.content_type.as_deref().map(str::as_bytes)),
        (RESPONSE_TOPIC, properties.response_topic.as_deref().map(str::as_bytes)),
        (CORRELATION_DATA, properties.correlation_data.as_deref()),
    ];
    for (identifier, value) in texts {
        if let Some(value) = value {
            out.push(identifier);
            counted(value, &mut out);
        }
    }
    for (name, value) in &properties.user_properties {
        out.push(USER_PROPERTY);
        counted(name.as_bytes(), &mut out);
        counted(value.as_bytes(), &mut out);
    }
    out
}

/// The bytes' meaning, as far as it is known here: the first other identifier ends it.
pub(crate) fn decode(mut bytes: &[u8]) -> Properties {
    let mut properties = Properties::default();
    while next(&mut bytes, &mut properties).is_some() {}
    properties
}

fn next(bytes: &mut &[u8], properties: &mut Properties) -> Option<()> {
    match *bytes.split_off_first()? {
        PAYLOAD_FORMAT => properties.is_utf8 = *bytes.split_off_first()? == 1,
        CONTENT_TYPE => properties.content_type = Some(text(bytes)?),
        RESPONSE_TOPIC => properties.response_topic = Some(text(bytes)?),
        CORRELATION_DATA => properties.correlation_data = Some(data(bytes)?.to_vec()),
        USER_PROPERTY => {
            let pair = (text(bytes)?, text(bytes)?);
            properties.user_properties.push(pair);
        }
        _ => return None,
    }
    Some(())
}

/// Two bytes of length, then so many (MQTT5 1.5.4, 1.5.6).
fn counted(value: &[u8], out: &mut Vec<u8>) {
    let length = u16::try_from(value.len()).expect("orders are checked for it");
    out.extend(length.to_be_bytes());
    out.extend(value);
}

fn data<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = bytes.split_off(..2)?;
    bytes.split_off(..usize::from(u16::from_be_bytes([length[0], length[1]])))
}

fn text(bytes: &mut &[u8]) -> Option<String> {
    data(bytes).map(|text| String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_go_both_ways() {
        let properties = Properties {
            is_utf8: true,
            content_type: Some("text/plain".into()),
            response_topic: Some("a/b".into()),
            correlation_data: Some(vec![0, 255]),
            user_properties: vec![("k".into(), "v".into()), ("k".into(), String::new())],
        };
        let bytes = encode(&properties);
        assert_eq!(bytes[..5], [0x01, 1, 0x03, 0, 10]);
        assert_eq!(decode(&bytes), properties);
        assert!(encode(&Properties::default()).is_empty());
    }

    #[test]
    fn bytes_that_make_no_sense_end_it() {
        let bytes = encode(&Properties { is_utf8: true, ..Properties::default() });
        let cut = [&bytes[..], &[0x03, 0, 9, b'x']].concat();
        assert_eq!(decode(&cut), Properties { is_utf8: true, ..Properties::default() });
        assert_eq!(decode(&[0x7f, 1]), Properties::default());
    }
}
