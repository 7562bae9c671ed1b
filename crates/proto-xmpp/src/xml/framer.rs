//! Where the pieces of a stream begin and end (RFC 6120 4.2, 11).
//!
//! The framer goes over each byte once, however the bytes are cut, and keeps its state in twelve
//! bytes. It knows tags, quotes and depth, and no names: whether a piece is XML is for
//! [`scan`](super::scan) to say when the piece is whole. Forbidden input is refused here, before a
//! piece is whole: comments, processing instructions, DTDs, too much, too deep.
//!
//! ```text
//!            <        name        >              <
//!   Between ───► Open ────► Start ───► Text ◄──► Open ─ / ─► End ─ > ─► Text, or it is whole
//!                  │ !       │ ▲ quotes │ ]]>
//!                  ▼         ▼ │        │
//!               Bang ──► Section ───────┘
//! ```

use crate::fault::StreamFault;

/// Elements within each other, the stream not counted. One more is a `policy-violation`, for
/// [`scan`](crate::xml::scan) to say, since what is written is framed too.
pub const DEPTH_MAX: u8 = 64;

/// Elements within each other that are framed: of a stanza with all that is put around it, which is
/// most for a carbon (XEP-0280 6.1). More is refused before it is whole.
const FRAMED_DEPTH_MAX: u8 = DEPTH_MAX + 3;

const SECTION: &[u8] = b"[CDATA[";
const DECLARATION: &[u8] = b"xml";

/// A whole piece at the front, with the bytes that it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamPiece {
    /// White space between stanzas: somebody is still there (RFC 6120 4.6.1).
    Space(usize),
    /// The tag that opens a stream, with the XML declaration in front of it.
    Header(usize),
    /// A stanza, or another element of the first level.
    Element(usize),
    /// The tag that closes the stream.
    Close(usize),
}

/// How far the scan of a piece has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Framer {
    at: u32,
    state: State,
    depth: u8,
    /// Bytes of a word that have matched.
    matched: u8,
}

const _: () = assert!(size_of::<Framer>() <= 12);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    /// Before a piece, or between a declaration and the tag behind it.
    #[default]
    Between,
    /// Behind `<`.
    Open,
    /// Behind `<?`, up to the end of `xml`.
    Question,
    /// In the declaration.
    Declaration,
    /// Behind `<!`.
    Bang,
    /// In a CDATA section.
    Section,
    /// In a start tag.
    Start,
    /// Behind a `/` in a start tag.
    Slash,
    /// In a value within `"`.
    Double,
    /// In a value within `'`.
    Single,
    /// In an end tag.
    End,
    /// In an element.
    Text,
}

impl Framer {
    /// The piece that is whole at the front of `bytes`; `None`: more must come. `bytes` begin where
    /// they began in the last call, unless that gave a piece. `is_open`: the stream has a header.
    pub fn next(
        &mut self,
        bytes: &[u8],
        is_open: bool,
        bytes_max: usize,
    ) -> Result<Option<StreamPiece>, StreamFault> {
        if *self == Framer::default() && bytes.first().is_some_and(is_space) {
            let count = bytes.iter().take_while(|byte| is_space(byte)).count();
            return Ok(Some(StreamPiece::Space(count)));
        }
        loop {
            self.skip(&bytes[..bytes.len().min(bytes_max)]);
            let Some(&byte) = bytes.get(self.at as usize) else { return Ok(None) };
            if self.at as usize >= bytes_max {
                return Err(StreamFault::PolicyViolation);
            }
            self.at += 1;
            if let Some(piece) = self.step(byte, is_open)? {
                *self = Framer::default();
                return Ok(Some(piece));
            }
        }
    }

    /// Goes over bytes that leave the state as it is, all but those that [`step`](Framer::step)
    /// names: most of a stanza.
    fn skip(&mut self, bytes: &[u8]) {
        let rest = bytes.get(self.at as usize..).unwrap_or_default();
        let mut ahead = rest.iter();
        let count = match self.state {
            State::Text => ahead.position(|byte| *byte == b'<'),
            State::Start => {
                ahead.position(|byte| matches!(byte, b'>' | b'/' | b'"' | b'\'' | b'<'))
            }
            State::Double => ahead.position(|byte| matches!(byte, b'"' | b'<')),
            State::Single => ahead.position(|byte| matches!(byte, b'\'' | b'<')),
            State::End => ahead.position(|byte| matches!(byte, b'>' | b'<')),
            _ => Some(0),
        };
        self.at += count.unwrap_or(rest.len()) as u32;
    }

    /// Begins again: what was given as a piece is shown once more.
    pub fn reset(&mut self) {
        *self = Framer::default();
    }

    /// Whether nothing of a piece has come.
    pub fn is_between(&self) -> bool {
        *self == Framer::default()
    }

    fn step(&mut self, byte: u8, is_open: bool) -> Result<Option<StreamPiece>, StreamFault> {
        self.state = match (self.state, byte) {
            (State::Between, b'<') => State::Open,
            (State::Between, byte) if is_space(&byte) => State::Between,
            (State::Between, _) => return Err(StreamFault::BadFormat),
            (State::Open, byte) => self.opened(byte, is_open)?,
            (State::Question, byte) => self.question(byte)?,
            (State::Declaration, b'?') => {
                self.matched = 1;
                State::Declaration
            }
            (State::Declaration, b'>') if self.matched == 1 => State::Between,
            (State::Declaration, _) => {
                self.matched = 0;
                State::Declaration
            }
            (State::Bang, byte) => self.bang(byte)?,
            (State::Section, byte) => self.section(byte),
            (State::Start, b'>') => return self.in_element(is_open),
            (State::Start, b'/') => State::Slash,
            (State::Start, b'"') => State::Double,
            (State::Start, b'\'') => State::Single,
            (State::Start | State::Double | State::Single | State::End, b'<') => {
                return Err(StreamFault::NotWellFormed);
            }
            (State::Slash, b'>') => return self.leave_empty(is_open),
            (State::Slash, _) => return Err(StreamFault::NotWellFormed),
            (State::Double, b'"') | (State::Single, b'\'') => State::Start,
            (State::End, b'>') => return Ok(self.leave()),
            (State::Text, b'<') => State::Open,
            (State::Start | State::Double | State::Single | State::End | State::Text, _) => {
                self.state // as `skip` has it
            }
        };
        Ok(None)
    }

    fn opened(&mut self, byte: u8, is_open: bool) -> Result<State, StreamFault> {
        self.matched = 0;
        match byte {
            b'/' if is_open => Ok(State::End),
            b'/' => Err(StreamFault::BadFormat),
            b'?' if !is_open && self.at == 2 => Ok(State::Question),
            b'?' => Err(StreamFault::RestrictedXml),
            b'!' if self.depth > 0 => Ok(State::Bang),
            b'!' => Err(StreamFault::RestrictedXml),
            b'>' | b'=' | b'"' | b'\'' | b'<' | b'&' | 0..=b' ' => Err(StreamFault::NotWellFormed),
            _ => Ok(State::Start),
        }
    }

    fn question(&mut self, byte: u8) -> Result<State, StreamFault> {
        match DECLARATION.get(usize::from(self.matched)) {
            Some(&expected) if expected == byte => {
                self.matched += 1;
                Ok(State::Question)
            }
            None if is_space(&byte) => {
                self.matched = 0;
                Ok(State::Declaration)
            }
            _ => Err(StreamFault::RestrictedXml),
        }
    }

    fn bang(&mut self, byte: u8) -> Result<State, StreamFault> {
        if SECTION[usize::from(self.matched)] != byte {
            return Err(StreamFault::RestrictedXml);
        }
        self.matched += 1;
        if usize::from(self.matched) < SECTION.len() {
            return Ok(State::Bang);
        }
        self.matched = 0;
        Ok(State::Section)
    }

    fn section(&mut self, byte: u8) -> State {
        match byte {
            b']' => self.matched = (self.matched + 1).min(2),
            b'>' if self.matched == 2 => return State::Text,
            _ => self.matched = 0,
        }
        State::Section
    }

    fn in_element(&mut self, is_open: bool) -> Result<Option<StreamPiece>, StreamFault> {
        if !is_open {
            return Ok(Some(StreamPiece::Header(self.at as usize)));
        }
        if self.depth == FRAMED_DEPTH_MAX {
            return Err(StreamFault::PolicyViolation);
        }
        self.depth += 1;
        self.state = State::Text;
        Ok(None)
    }

    fn leave_empty(&mut self, is_open: bool) -> Result<Option<StreamPiece>, StreamFault> {
        if !is_open {
            return Err(StreamFault::BadFormat); // a stream that is over as it begins
        }
        if self.depth == 0 {
            return Ok(Some(StreamPiece::Element(self.at as usize)));
        }
        self.state = State::Text;
        Ok(None)
    }

    fn leave(&mut self) -> Option<StreamPiece> {
        match self.depth {
            0 => Some(StreamPiece::Close(self.at as usize)),
            1 => Some(StreamPiece::Element(self.at as usize)),
            _ => {
                self.depth -= 1;
                self.state = State::Text;
                None
            }
        }
    }
}

/// White space (XML 2.3).
pub(crate) fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pieces of a stream that is shown in two parts, each behind what was not taken.
    fn pieces(stream: &str, cut: usize) -> Result<Vec<String>, StreamFault> {
        let (mut framer, mut at, mut is_open, mut seen) = (Framer::default(), 0, false, Vec::new());
        for end in [cut, stream.len()] {
            while at < end {
                let Some(piece) = framer.next(&stream.as_bytes()[at..end], is_open, 200)? else {
                    break;
                };
                let length = match piece {
                    StreamPiece::Space(length) => {
                        at += length;
                        continue;
                    }
                    StreamPiece::Header(length) => {
                        is_open = true;
                        length
                    }
                    StreamPiece::Element(length) | StreamPiece::Close(length) => length,
                };
                let kind = format!("{piece:?}");
                let kind = kind.split('(').next().expect("it has a name");
                seen.push(format!("{kind} {}", &stream[at..at + length]));
                at += length;
            }
        }
        Ok(seen)
    }

    #[test]
    fn a_stream_is_taken_apart_however_it_is_cut() {
        let stream = "<?xml version='1.0'?> \n<stream:stream a='>'> <a/>\n<b c=\"'/>\"><d>\
            <![CDATA[</b>]]]>&lt;</d></b><e x='\"'></e ></stream:stream>";
        let expected = [
            "Header <?xml version='1.0'?> \n<stream:stream a='>'>",
            "Element <a/>",
            "Element <b c=\"'/>\"><d><![CDATA[</b>]]]>&lt;</d></b>",
            "Element <e x='\"'></e >",
            "Close </stream:stream>",
        ];
        for cut in 0..=stream.len() {
            assert_eq!(
                pieces(stream, cut).as_deref(),
                Ok(&expected.map(String::from)[..]),
                "{cut}"
            );
        }
    }

    #[test]
    fn what_a_stream_may_not_have_is_refused_before_it_is_whole() {
        use StreamFault::*;
        for (text, fault) in [
            ("x", BadFormat),
            ("<s/>", BadFormat),
            ("</s>", BadFormat),
            ("<?php", RestrictedXml),
            ("<?xmlx", RestrictedXml),
            ("<!D", RestrictedXml),
            ("<s><!-", RestrictedXml),
            ("<s><a><!-", RestrictedXml),
            ("<s><a><![CDAX", RestrictedXml),
            ("<s><![", RestrictedXml),
            ("<s><?", RestrictedXml),
            ("<s>x", BadFormat),
            ("<s><a><?", RestrictedXml),
            ("<s>< a", NotWellFormed),
            ("<s><a<", NotWellFormed),
            ("<s><a b='<", NotWellFormed),
            ("<s><a/b", NotWellFormed),
            ("<s></a<", NotWellFormed),
        ] {
            for cut in 0..=text.len() {
                assert_eq!(pieces(text, cut), Err(fault), "{text} cut at {cut}");
            }
        }
    }

    #[test]
    fn what_is_too_long_or_too_deep_is_refused_where_it_is() {
        let long = |bytes: usize| format!("<s><a>{}</a>", "x".repeat(bytes - "<a></a>".len()));
        assert!(pieces(&long(200), 7).is_ok());
        assert_eq!(pieces(&long(201), 7), Err(StreamFault::PolicyViolation));
        let deep = |depth: usize| {
            let mut framer = Framer::default();
            framer.next("<a>".repeat(depth).as_bytes(), true, 1 << 20)
        };
        assert_eq!(deep(67), Ok(None));
        assert_eq!(deep(68), Err(StreamFault::PolicyViolation));
    }
}
