//! Vectors, round trips, splits, and the document held against the code.

use super::frame::{Frame, Opcode, flag};
use super::property::Props;
use super::record::{ClassicRecord, PushRecord};
use super::result::ResultCode;
use super::*;
use base::prng::Prng;
use testkit::vector;

const BAD: &str = include_str!("../../vectors/1-malformed.txt");
const GOOD: &str = include_str!("../../vectors/2-frames.txt");
const DOCUMENT: &str = include_str!("../../../../docs/wire/miop.md");

/// `MsgAck` as `msg_ack`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

fn newest_name(opcode: Opcode) -> String {
    match opcode {
        Opcode::Unknown(number) => number.to_string(),
        known => snake(&format!("{known:?}")),
    }
}

/// The name and length of the frame at the front.
fn front(bytes: &[u8], bytes_max: usize) -> Result<Option<(String, usize)>, FrameFault> {
    Ok(match Version::sniff(bytes)? {
        None => None,
        Some(Version::V7) => {
            frame::parse(bytes, bytes_max)?.map(|(frame, len)| (newest_name(frame.opcode), len))
        }
        Some(version) => classic::parse(version, bytes, bytes_max)?
            .map(|(frame, len)| (snake(&format!("{:?}", frame.opcode)), len)),
    })
}

#[test]
fn every_vector_is_read_as_it_says() {
    let vectors = [vector::read(BAD), vector::read(GOOD)].concat();
    assert!(vectors.len() > 100, "{}", vectors.len());
    for vector in &vectors {
        let limit = vector.text("limit").map_or(65_536, |text| text.parse().expect("a number"));
        let seen = match front(&vector.bytes("bytes"), limit) {
            Ok(None) => "more".to_owned(),
            Ok(Some((name, _))) => format!("frame {name}"),
            Err(fault) => format!("error {}", fault.name()),
        };
        assert_eq!(seen, vector.need("expect"), "{}", vector.name);
        let heading = format!(
            "\n#{} {} ",
            "#".repeat(1 + vector.need("section").matches('.').count()),
            vector.need("section")
        );
        assert!(DOCUMENT.contains(&heading), "{}: no section {heading:?}", vector.name);
    }
}

fn some<T>(rng: &mut Prng, value: T) -> Option<T> {
    rng.one_in(2).then_some(value)
}

/// Random properties whose texts come from `text`.
fn props<'a>(rng: &mut Prng, text: &'a str) -> Props<'a> {
    let bytes = text.as_bytes();
    let part = |rng: &mut Prng| &bytes[..rng.below(bytes.len() as u64 + 1) as usize];
    let n = rng.draw();
    Props {
        device_id: some(rng, part(&mut rng.clone())),
        product_key: some(rng, part(&mut rng.clone())),
        client_ts: some(rng, n),
        heartbeat_wish: some(rng, (n as u16, 2, 3)),
        heartbeat: some(rng, n as u16),
        client_nonce: some(rng, [n as u8; 16]),
        server_nonce: some(rng, [n as u8; 16]),
        auth_type: some(rng, n as u8),
        key_id: some(rng, n as u32),
        mac: some(rng, [n as u8; 32]),
        token: some(rng, part(&mut rng.clone())),
        resume_token: some(rng, [n as u8; 32]),
        last_msg_id: some(rng, n),
        session_epoch: some(rng, n),
        result: some(rng, n as u8),
        reason: some(rng, part(&mut rng.clone())),
        retry_after_ms: some(rng, n as u32),
        caps: some(rng, n as u32),
        max_frame: some(rng, n as u32),
        max_inflight: some(rng, n as u16),
        ack_timeout_ms: some(rng, n as u32),
        offline_count: some(rng, n as u32),
        server_time: some(rng, n),
        count: some(rng, n as u16),
        report_seq: some(rng, n as u32),
        addrs: vec!["10.0.0.1:80"; rng.below(5) as usize],
        tags: vec![part(rng); rng.below(4) as usize],
    }
}

#[test]
fn every_frame_of_version_7_survives() {
    let mut rng = Prng::new(7);
    let text = "abcdefghij".repeat(30);
    for round in 0..2_000 {
        let opcode = Opcode::ALL[round % Opcode::ALL.len()];
        let payload = &text.as_bytes()[..rng.below(301) as usize];
        let props = if rng.one_in(3) { Props::default() } else { props(&mut rng, &text) };
        let flags = if rng.one_in(2) { flag::DUP } else { flag::ACK_REQ };
        let number = rng.draw() as u32;
        let frame = Frame { opcode, flags, seq: some(&mut rng, number), props, payload };
        let mut bytes = vec![0xee];
        frame.write(&mut bytes);
        let (read, length) = frame::parse(&bytes[1..], 1 << 20).expect("ours").expect("whole");
        assert_eq!((&read, length), (&frame, bytes.len() - 1), "round {round}");
        let mut again = vec![0xee];
        read.write(&mut again);
        assert_eq!(again, bytes, "a frame has one form");
    }
}

#[test]
fn every_classic_frame_survives() {
    for version in [Version::V5, Version::V6] {
        let mut bytes = Vec::new();
        let record = ClassicRecord { id: u64::MAX, app_id: 3, body: b"body" };
        classic::write_header(version, classic::ClassicOpcode::Ping, &mut bytes);
        classic::write_header(version, classic::ClassicOpcode::Pong, &mut bytes);
        classic::write_props(version, classic::ClassicOpcode::Bind, b"u:a@1\nt:5", &mut bytes);
        classic::write_msg(version, &record, &mut bytes);
        classic::write_props(version, classic::ClassicOpcode::MsgAck, b"ack:1", &mut bytes);
        classic::write_props(version, classic::ClassicOpcode::Unbind, b"u:a@1", &mut bytes);
        let addrs = vec!["10.0.0.1:80".to_owned(); 6];
        classic::write_bind_ack(version, Some("1"), 33, &addrs, &mut bytes);
        classic::write_unbind_ack(version, 1, &mut bytes);
        let (mut rest, mut seen) = (bytes.as_slice(), Vec::new());
        while let Some((frame, length)) = classic::parse(version, rest, 1 << 20).expect("ours") {
            seen.push(frame.opcode as u16);
            match frame.opcode {
                classic::ClassicOpcode::Msg => {
                    let mut data = frame.data;
                    assert_eq!(ClassicRecord::read(&mut data), Ok(record));
                    assert_eq!(frame.props.value("ack"), Some("18446744073709551615"));
                }
                classic::ClassicOpcode::BindAck => {
                    assert_eq!(frame.props.number("r"), Ok(Some(33)));
                    assert_eq!(frame.props.addrs().len(), ADDRESSES_MAX);
                }
                _ => assert!(frame.data.is_empty()),
            }
            rest = &rest[length..];
        }
        assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6, 7], "{version:?}");
        assert!(rest.is_empty());
    }
}

#[test]
fn records_survive_and_cut_ones_are_faults() {
    let record = PushRecord {
        id: 1 << 60,
        app_id: 9,
        flags: PushRecord::SILENT | PushRecord::HIGH,
        expire_at: 1_700_000_000,
        collapse: b"key",
        body: b"",
    };
    let mut bytes = Vec::new();
    record.write(&mut bytes);
    assert_eq!(PushRecord::read(&mut bytes.as_slice()), Ok(record));
    for cut in 0..bytes.len() {
        assert_eq!(PushRecord::read(&mut &bytes[..cut]), Err(FrameFault::BadRecord), "{cut}");
    }
}

/// All whole frames at the front, and how many bytes they have.
fn frames(bytes: &[u8]) -> (Vec<String>, usize) {
    let (mut names, mut taken) = (Vec::new(), 0);
    while let Some((name, length)) = front(&bytes[taken..], 65_536).expect("good frames") {
        assert!(length <= bytes.len() - taken);
        names.push(name);
        taken += length;
    }
    (names, taken)
}

#[test]
fn a_stream_gives_the_same_frames_wherever_it_is_split() {
    let zeros: &[u8] = &[0, 0, 0, 0];
    for digit in ['5', '6', '7'] {
        let own = |bytes: &Vec<u8>| bytes.starts_with(&[0, digit as u8 - b'0']);
        let bytes = |vector: &vector::Vector| vector.bytes("bytes");
        let pieces: Vec<Vec<u8>> = vector::read(GOOD).iter().map(bytes).filter(own).collect();
        let strip = |piece: &Vec<u8>| piece.strip_suffix(zeros).unwrap_or(piece).to_vec();
        let pieces: Vec<Vec<u8>> = pieces.iter().map(strip).collect();
        let stream = pieces.concat();
        let (whole, taken) = frames(&stream);
        assert_eq!((whole.len(), taken), (pieces.len(), stream.len()), "version {digit}");
        for cut in 0..=stream.len() {
            let (mut names, taken) = frames(&stream[..cut]);
            assert!(taken <= cut);
            let (rest, more) = frames(&stream[taken..]);
            names.extend(rest);
            assert_eq!((names, taken + more), (whole.clone(), stream.len()), "cut at {cut}");
        }
    }
}

#[test]
fn an_announced_length_allocates_nothing() {
    // Even without a limit: the parser waits for bytes that will not come.
    let huge = [0, 7, flag::BODY, 8, 0xff, 0xff, 0xff, 0xff, 0];
    assert_eq!(frame::parse(&huge, usize::MAX), Ok(None));
    let mut payload = 0xffff_ffffu32.to_be_bytes().to_vec();
    payload.splice(0..0, *b"\x00\x06\x00\x03\x00\x05ack:1");
    let parsed = classic::parse(Version::V6, &payload, usize::MAX);
    assert_eq!(parsed, Err(FrameFault::TooLarge));
}

/// The fenced blocks of the document that are dumps, with the line that names each.
fn dumps() -> Vec<(String, Vec<u8>)> {
    let mut dumps = Vec::new();
    let mut lines = DOCUMENT.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("```dump ") else { continue };
        let hex = lines.by_ref().take_while(|line| !line.starts_with("```"));
        let hex: Vec<&str> = hex.map(|line| line.split('|').next().unwrap_or_default()).collect();
        let bytes = vector::bytes(&hex.join(" ")).unwrap_or_else(|| panic!("dump {name}"));
        dumps.push((name.to_owned(), bytes));
    }
    dumps
}

#[test]
fn the_dumps_of_the_document_are_frames() {
    let mut shown = Vec::new();
    for (name, bytes) in dumps() {
        let (read, length) = front(&bytes, 65_536).expect(&name).expect(&name);
        assert_eq!((read.as_str(), length), (name.split(' ').next().unwrap_or(""), bytes.len()));
        if bytes[1] == 7 {
            let (frame, _) = frame::parse(&bytes, 65_536).expect(&name).expect(&name);
            let mut again = Vec::new();
            frame.write(&mut again);
            assert_eq!(again, bytes, "{name}: as we would write it");
            shown.push(frame.opcode);
        }
    }
    for opcode in Opcode::ALL {
        assert!(shown.contains(opcode), "no dump of {opcode:?}");
    }
}

#[test]
fn the_signatures_of_the_document_are_ours() {
    const SECRET: &[u8] = b"sixteen byte key";
    let dumps = dumps();
    let dump = |start: &str| {
        let found = dumps.iter().find(|(name, _)| name.starts_with(start));
        &found.unwrap_or_else(|| panic!("no dump {start}")).1
    };
    let read = |bytes| frame::parse(bytes, 4_096).expect("a frame").expect("whole").0.props;
    let (bind, auth) = (read(dump("bind signed")), read(dump("auth ")));
    let claim = crate::sign::Claim {
        product: bind.product_key.expect("a product"),
        device: bind.device_id.expect("a device"),
        client_ts: bind.client_ts.expect("a time"),
        client_nonce: &bind.client_nonce.expect("a nonce"),
        caps: bind.caps.unwrap_or(0),
    };
    let signed = claim.bytes();
    assert_eq!(bind.mac, Some(crate::sign::mac(SECRET, &signed)));
    let nonce = read(dump("challenge")).server_nonce.expect("a nonce");
    let answer = crate::sign::challenged(&signed, &nonce);
    assert_eq!(auth.mac, Some(crate::sign::mac(SECRET, &answer)));

    let bytes = dump("bind of version 6 signed");
    let (frame, _) = classic::parse(Version::V6, bytes, 4_096).expect("a frame").expect("whole");
    let [u, ts, t] = ["u", "ts", "t"].map(|key| frame.props.value(key).expect("it is there"));
    let sign = crate::sign::classic_mac(SECRET, &crate::sign::classic(u, ts, t));
    assert_eq!(frame.props.value("sign"), Some(base::hex::encode(&sign).as_str()));
}

#[test]
fn the_tables_of_the_document_are_the_code() {
    let mut rows = Vec::new();
    for opcode in Opcode::ALL {
        rows.push(format!("| {} | {} |", opcode.number(), newest_name(*opcode).to_uppercase()));
    }
    let own = Props::KEYS.iter().copied();
    for (key, name) in own.chain([(property::ADDR, "addr"), (property::TAG, "tag")]) {
        rows.push(format!("| {key} | {name} |"));
    }
    for (code, meaning) in ResultCode::ALL {
        rows.push(format!("| {} | {meaning} |", code.number()));
    }
    for fault in FrameFault::ALL {
        let (reason, code) = (fault.close_reason().name(), fault.result().number());
        rows.push(format!("| {} | {reason} | {code} |", fault.name()));
    }
    for row in rows {
        assert!(DOCUMENT.contains(&row), "the document has no row {row}");
    }
}

/// A frame of version 7 with this property block.
fn newest(props: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    varint::write(props.len() as u32, &mut body);
    body.extend_from_slice(props);
    let mut frame = vec![0, 7, flag::BODY, 1];
    frame.extend_from_slice(&(body.len() as u32).to_be_bytes());
    frame.extend_from_slice(&body);
    frame
}

/// So many bytes under a key.
fn property(key: u8, length: usize) -> Vec<u8> {
    let mut property = vec![key];
    varint::write(length as u32, &mut property);
    property.resize(property.len() + length, b'x');
    property
}

#[test]
fn limits_of_version_7_are_where_they_are_said_to_be() {
    /// A key of which nothing is known and that may be passed over.
    const OTHER: u8 = 100;
    let many = |key: u8, length: usize, count: usize| property(key, length).repeat(count);
    let filled = |bytes: usize| {
        let whole = many(OTHER, 509, bytes / 512);
        let rest = bytes - whole.len();
        [whole, property(OTHER, rest - 2)].concat()
    };
    for (props, fault) in [
        (property(OTHER, property::VALUE_BYTES_MAX), None),
        (property(OTHER, property::VALUE_BYTES_MAX + 1), Some(FrameFault::BadProperty)),
        (many(property::TAG, 3, property::TAGS_MAX), None),
        (many(property::TAG, 3, property::TAGS_MAX + 1), Some(FrameFault::TooLarge)),
        (many(property::ADDR, ADDRESS_BYTES_MAX, ADDRESSES_MAX), None),
        (many(property::ADDR, 1, ADDRESSES_MAX + 1), Some(FrameFault::BadProperty)),
        (property(property::ADDR, ADDRESS_BYTES_MAX + 1), Some(FrameFault::BadProperty)),
        (property(property::ADDR, 0), Some(FrameFault::BadProperty)),
        (filled(PROPERTIES_BYTES_MAX - 512 + 100), None),
    ] {
        let frame = newest(&props);
        let read = frame::parse(&frame, frame.len()).map(|found| found.expect("all of it").1);
        assert_eq!(
            read,
            fault.map_or(Ok(frame.len()), Err),
            "{} bytes of {}",
            props.len(),
            props[0]
        );
        assert_eq!(frame::parse(&frame, frame.len() - 1).err(), Some(FrameFault::TooLarge));
    }
    for (bytes, fits) in [(PROPERTIES_BYTES_MAX, true), (PROPERTIES_BYTES_MAX + 1, false)] {
        let props = [many(OTHER, 500, 16), property(OTHER, bytes - 16 * 503 - 3)].concat();
        assert_eq!(props.len(), bytes);
        let frame = newest(&props);
        let fault = frame::parse(&frame, usize::MAX).err();
        assert_eq!(fault, (!fits).then_some(FrameFault::TooLarge), "{bytes}");
    }
}

#[test]
fn limits_of_the_classic_versions_are_where_they_are_said_to_be() {
    let with = |opcode: u8, props: usize, data: Option<u32>| {
        let mut frame = vec![0, 5, 0, opcode];
        frame.extend_from_slice(&(props as u16).to_be_bytes());
        frame.extend_from_slice(b"u:");
        frame.resize(6 + props, b'x');
        frame.extend(data.into_iter().flat_map(u32::to_be_bytes));
        frame
    };
    for (bytes, fault) in
        [(PROPERTIES_BYTES_MAX, None), (PROPERTIES_BYTES_MAX + 1, Some(FrameFault::TooLarge))]
    {
        assert_eq!(classic::parse(Version::V5, &with(2, bytes, None), usize::MAX).err(), fault);
    }
    let bind = with(2, 20, None);
    for (bytes_max, fault) in [(bind.len(), None), (bind.len() - 1, Some(FrameFault::TooLarge))] {
        assert_eq!(classic::parse(Version::V5, &bind, bytes_max).err(), fault);
    }
    let msg = |length: usize| with(3, 20, Some(length as u32));
    let header = msg(1).len();
    for (length, bytes_max, fault) in [
        (classic::DATA_BYTES_MAX, usize::MAX, None),
        (classic::DATA_BYTES_MAX + 1, usize::MAX, Some(FrameFault::TooLarge)),
        (100, header + 100, None),
        (100, header + 99, Some(FrameFault::TooLarge)),
    ] {
        let msg = msg(length);
        let read = classic::parse(Version::V5, &msg, bytes_max);
        assert_eq!(read.err(), fault, "{length} of {bytes_max}");
    }
}
