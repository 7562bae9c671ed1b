//! Stanzas from other domains, on their way to accounts, or answered for the domain itself.
//!
//! A stanza is handed to the shard of the account that it concerns, and the answer decides whether
//! its sender gets an error. It knows no stream. Invariant: what is being taken in is within its
//! limit, and each of it is answered once, or needs no answer.

use crate::TakenStanza;
use base::time::{Instant, Now};
use model::chat::foreign::{ArrivalWhat, ForeignArrival};
use model::chat::{ChatDelivery, ClientMessageId};
use model::limits::FederationLimits;
use model::ports::chat::{ChatAnswer, ChatCommand};
use model::ports::control::{Answer, Command, Control};
use proto_xmpp::fault::StanzaFault;
use proto_xmpp::peer::StreamPlace;
use proto_xmpp::peer::stanzas::{self, StanzaPurpose};
use proto_xmpp::server::NodesQuestion;
use proto_xmpp::xml::scan::{Element, Scan};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Longest time that is waited for what becomes of a stanza: homes answer sooner, but the answer
/// may find no room on its way back.
const TAKING_TIME: Duration = Duration::from_secs(120);

/// How an answer comes back.
pub type TellTaken = Arc<dyn Fn(TakenStanza) + Send + Sync>;

/// Where stanzas are taken in.
pub struct ArrivalDesk {
    control: Arc<dyn Control + Send + Sync>,
    tell: TellTaken,
    /// Stanzas that are being taken in, by number: enough of each to answer it with an error.
    taking: HashMap<u64, Taking>,
    /// Their bytes.
    bytes: u64,
    taking_max: usize,
    bytes_max: u64,
    last: u64,
    /// First half of the ids made for messages without one.
    seed: u64,
    /// Places of counted streams that are taken.
    placed: Vec<StreamPlace>,
}

/// A stanza that is being taken in.
struct Taking {
    xml: Box<[u8]>,
    /// Whether the sender gets an error if nobody is there.
    is_asking: bool,
    since: Instant,
    /// Form of the answer, if the stanza asks about what an account publishes.
    question: Option<NodesQuestion>,
    /// Place of the stanza in a stream that is counted.
    place: Option<StreamPlace>,
    /// The arrival for all devices of the account, if the one that it is for is not online.
    for_others: Option<ForeignArrival>,
}

/// Next step for the caller that handed in a stanza.
pub enum Judged {
    /// Nothing to do, or not yet.
    Nothing,
    /// The sender gets this error.
    Refused(Box<[u8]>, StanzaFault),
    /// The stanza is a question to the domain.
    Question(Box<[u8]>),
    /// This is the answer to a question.
    Answered(Box<[u8]>),
}

impl ArrivalDesk {
    /// One over these shards.
    pub fn new(
        control: Arc<dyn Control + Send + Sync>,
        tell: TellTaken,
        (limits, seed): (&FederationLimits, u64),
    ) -> ArrivalDesk {
        let FederationLimits { taking_max, taking_bytes_max: bytes_max, .. } = *limits;
        let (taking, taking_max) = (HashMap::new(), taking_max as usize);
        let (bytes, last, placed) = (0, 0, Vec::new());
        ArrivalDesk { control, tell, taking, bytes, taking_max, bytes_max, last, seed, placed }
    }

    /// Sets other limits. Stanzas being processed beyond them go on.
    pub fn set_limits(&mut self, limits: &FederationLimits) {
        (self.taking_max, self.bytes_max) = (limits.taking_max as usize, limits.taking_bytes_max);
    }

    /// A stanza that is for a domain of ours, of a sender that was shown, and where it stands in a
    /// stream that is counted.
    pub fn take(&mut self, now: Now, xml: Box<[u8]>, place: Option<StreamPlace>) -> Judged {
        let before = self.taking.len();
        let judged = self.judge(now, (xml, place), false);
        if self.taking.len() == before {
            self.placed.extend(place);
        }
        judged
    }

    /// The error of a message that was said before the start: it is for the device that said it,
    /// or for all of its account that are there if that is not, as clients name themselves anew.
    pub fn comes_back(&mut self, now: Now, error: Box<[u8]>) {
        // Of one that does not get there nothing is said.
        self.judge(now, (error, None), true);
    }

    /// Places of counted streams whose stanzas are taken since it was asked.
    pub fn take_placed(&mut self) -> Vec<StreamPlace> {
        std::mem::take(&mut self.placed)
    }

    fn judge(
        &mut self,
        now: Now,
        (xml, place): (Box<[u8]>, Option<StreamPlace>),
        is_of_account: bool,
    ) -> Judged {
        let made = self.made_up();
        let read = match Scan::of_peer(&xml) {
            Ok(scan) => {
                let root = scan.root();
                let read = stanzas::read(&root, made);
                read.map(|read| (read, is_asking(&root)))
            }
            Err(_) => return Judged::Nothing,
        };
        let since = now.mono;
        let taking = |xml, is_asking, question| {
            let for_others = None;
            Taking { xml, is_asking, since, question, place, for_others }
        };
        match read {
            Ok((StanzaPurpose::Nothing, _)) => Judged::Nothing,
            Ok((StanzaPurpose::Question, _)) => Judged::Question(xml),
            Ok((StanzaPurpose::Arrival(arrival), is_asking)) => {
                let is_asking = is_asking && !matches!(arrival.what, ArrivalWhat::Wish(_));
                let for_others = is_of_account.then(|| for_all(&arrival)).flatten();
                let taking = Taking { for_others, ..taking(xml, is_asking, None) };
                self.hand_in(arrival, taking)
            }
            Ok((StanzaPurpose::Nodes(arrival, question), is_asking)) => {
                self.hand_in(arrival, taking(xml, is_asking, Some(question)))
            }
            Err(fault) => Judged::Refused(xml, fault),
        }
    }

    fn hand_in(&mut self, arrival: ForeignArrival, taking: Taking) -> Judged {
        let bytes = self.bytes + taking.xml.len() as u64;
        if self.taking.len() >= self.taking_max || bytes > self.bytes_max {
            return Judged::Refused(taking.xml, StanzaFault::ResourceConstraint);
        }
        self.bytes = bytes;
        self.last += 1;
        let (number, tell) = (self.last, self.tell.clone());
        self.taking.insert(number, taking);
        let command = Command::Chat(ChatCommand::Foreign(Box::new(arrival)));
        let reply = move |answer| tell(TakenStanza { number, answer });
        self.control.ask(command, Box::new(reply));
        Judged::Nothing
    }

    /// Takes the answer of an account's shard to a stanza.
    pub fn taken(&mut self, taken: TakenStanza) -> Judged {
        let Some(mut taking) = self.taking.remove(&taken.number) else { return Judged::Nothing };
        self.placed.extend(taking.place);
        self.bytes -= taking.xml.len() as u64;
        if let Some(arrival) = taking.for_others.take()
            && matches!(taken.answer, Answer::Chat(ChatAnswer::Reached(false)))
        {
            return self.hand_in(arrival, taking);
        }
        let Taking { xml, is_asking, question, .. } = taking;
        if let (Some(question), Answer::Chat(ChatAnswer::Told(Some(told)))) =
            (question, &taken.answer)
            && let ChatDelivery::Nodes(answer) = &**told
            && let Ok(scan) = Scan::of_peer(&xml)
        {
            let answer = question.answer((**answer).clone(), &scan.root());
            return Judged::Answered(answer.into());
        }
        match fault_of(&taken.answer).filter(|_| is_asking) {
            Some(fault) => Judged::Refused(xml, fault),
            None => Judged::Nothing,
        }
    }

    /// Forgets those of which nothing was heard for too long.
    pub fn sweep(&mut self, now: Instant) {
        let over = self.taking.extract_if(|_, taking| now >= taking.since + TAKING_TIME);
        self.placed.extend(over.filter_map(|(_, taking)| taking.place));
        self.bytes = self.taking.values().map(|taking| taking.xml.len() as u64).sum();
    }

    /// Whether any is being taken in.
    pub fn is_idle(&self) -> bool {
        self.taking.is_empty()
    }

    /// An id for a message that has none (a UUID of version 8, RFC 9562 5.8).
    fn made_up(&mut self) -> ClientMessageId {
        self.last += 1;
        let id = u128::from(self.seed) << 64 | u128::from(self.last) | 2 << 62;
        ClientMessageId((id & !(0xf << 76) | 8 << 76).to_be_bytes())
    }
}

/// The arrival for all devices of its account, if it is a stanza for one device.
fn for_all(arrival: &ForeignArrival) -> Option<ForeignArrival> {
    let ArrivalWhat::Stanza { from, device: Some(_), xml } = &arrival.what else { return None };
    let what = ArrivalWhat::Stanza { from: from.clone(), device: None, xml: xml.clone() };
    Some(ForeignArrival { home: arrival.home.clone(), what })
}

/// Whether whoever sent a stanza waits for something, or should know that it came to nobody.
fn is_asking(stanza: &Element<'_, '_>) -> bool {
    let is_said = stanza.child("body", proto_xmpp::xml::scan::CLIENT).is_some();
    stanza.name() == "iq" || stanza.name() == "message" && is_said
}

/// Why a stanza was not taken, if it was not.
fn fault_of(answer: &Answer) -> Option<StanzaFault> {
    match answer {
        Answer::Chat(ChatAnswer::Told(Some(told))) => match &**told {
            ChatDelivery::Failed { why, .. } => Some(StanzaFault::of(*why, false)),
            ChatDelivery::Rejected(rejected) => Some(StanzaFault::of(rejected.why, false)),
            _ => None,
        },
        Answer::Chat(ChatAnswer::Reached(true)) => None,
        Answer::Chat(ChatAnswer::Told(None) | ChatAnswer::Reached(false)) => {
            Some(StanzaFault::ServiceUnavailable)
        }
        _ => Some(StanzaFault::ResourceConstraint),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::MessageId;
    use model::ports::control::Reply;
    use std::sync::Mutex;

    /// Keeps what it is asked, and how it would answer.
    #[derive(Default)]
    struct Asked(Mutex<Vec<(Command, Reply)>>);

    impl Asked {
        /// The first command that is not answered yet.
        fn next(&self) -> (Command, Reply) {
            self.0.lock().expect("no panic").remove(0)
        }
    }

    impl Control for Asked {
        fn ask(&self, command: Command, reply: Reply) {
            self.0.lock().expect("no panic").push((command, reply));
        }

        fn next_id(&self) -> MessageId {
            MessageId(0)
        }
    }

    fn message(text: &str) -> Box<[u8]> {
        let xml = format!(
            "<message from='bob@b.example' to='ann@a.example' type='chat'>\
             <body>{text}</body></message>"
        );
        xml.into_bytes().into()
    }

    #[test]
    fn what_is_being_taken_in_is_bounded_in_bytes_too() {
        let (control, told) = (Arc::new(Asked::default()), Arc::<Mutex<Vec<_>>>::default());
        let put = told.clone();
        let tell: TellTaken = Arc::new(move |taken| put.lock().expect("no panic").push(taken));
        let large = message(&"x".repeat(40_000));
        let bytes = 2 * large.len() as u64;
        let limits = FederationLimits { taking_bytes_max: bytes, ..FederationLimits::default() };
        let mut desk = ArrivalDesk::new(control.clone(), tell, (&limits, 1));
        let now = Now::default();
        let is_taken = |desk: &mut ArrivalDesk, xml: Box<[u8]>| match desk.take(now, xml, None) {
            Judged::Nothing => true,
            Judged::Refused(_, fault) => {
                assert_eq!(fault, StanzaFault::ResourceConstraint);
                false
            }
            Judged::Question(_) | Judged::Answered(_) => panic!("it is none"),
        };
        assert!(is_taken(&mut desk, large.clone()) && is_taken(&mut desk, large.clone()));
        assert!(!is_taken(&mut desk, message("y")), "one byte too many");
        let (_, reply) = control.next();
        reply(Answer::Chat(ChatAnswer::Reached(true)));
        let taken = told.lock().expect("no panic").remove(0);
        desk.taken(taken);
        assert!(is_taken(&mut desk, message("y")) && !is_taken(&mut desk, large));
        desk.sweep(now.mono + TAKING_TIME);
        assert!(desk.is_idle() && desk.bytes == 0);
    }

    /// Answers what the desk asks, once that it is so, and tells whom that was for.
    fn answers(
        desk: &mut ArrivalDesk,
        asked: &Asked,
        told: &Mutex<Vec<TakenStanza>>,
        is: bool,
    ) -> Option<Box<str>> {
        let (Command::Chat(ChatCommand::Foreign(arrival)), reply) = asked.next() else {
            panic!("a stanza")
        };
        let ArrivalWhat::Stanza { device, xml, .. } = arrival.what else { panic!("a stanza") };
        assert!(String::from_utf8_lossy(&xml).contains(" id='7'"));
        reply(Answer::Chat(ChatAnswer::Reached(is)));
        let taken = told.lock().expect("no panic").remove(0);
        assert!(matches!(desk.taken(taken), Judged::Nothing));
        device
    }

    #[test]
    fn an_error_of_before_the_start_is_for_its_device_or_else_for_all_that_are_there() {
        let (control, told) = (Arc::new(Asked::default()), Arc::<Mutex<Vec<_>>>::default());
        let put = told.clone();
        let tell: TellTaken = Arc::new(move |taken| put.lock().expect("no panic").push(taken));
        let mut desk = ArrivalDesk::new(control.clone(), tell, (&FederationLimits::default(), 1));
        let error: Box<[u8]> = b"<message from='bob@b.example' to='ann@a.example/desk' id='7' \
            type='error'><error type='cancel'/></message>"[..]
            .into();
        let now = Now::default();
        desk.comes_back(now, error.clone());
        assert_eq!(answers(&mut desk, &control, &told, false).as_deref(), Some("desk"));
        assert_eq!(answers(&mut desk, &control, &told, false), None, "then all");
        assert!(desk.is_idle() && desk.bytes == 0, "then nobody is there");
        desk.comes_back(now, error.clone());
        assert_eq!(answers(&mut desk, &control, &told, true).as_deref(), Some("desk"));
        assert!(desk.is_idle());
        assert!(matches!(desk.take(now, error, None), Judged::Nothing));
        assert_eq!(answers(&mut desk, &control, &told, false).as_deref(), Some("desk"));
        assert!(desk.is_idle() && desk.bytes == 0, "any other error is for its device alone");
    }
}
