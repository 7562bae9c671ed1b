//! Requests of a client along with its login (XEP-0388, XEP-0386, XEP-0484): a token for the next
//! login, resumption of its stream, or a resource with acknowledgements and carbons.
//!
//! ```text
//! authenticate ─► (challenge, response) ─► let in ─► Token ─► Resume ─► resumed ───┐
//!                                              │        └ no ─► Bind ─► bound ─────┤
//!                                              └────────────────┴─► (neither) ─────┴─► success,
//!                                                                                       features
//! ```
//! The stream does not begin again. Everything that the client says behind `authenticate` waits for
//! its `success`, so a client that knows how it logs in is online in one round trip. Invariant:
//! what `success` says is so.

use super::feature::{self, Feature};
use super::opening::{Granted, Opening, Stage};
use super::session::Session;
use super::stream_management::resumption::{self, KeepLimits, Wish};
use super::{End, Out};
use crate::claims::Xep;
use crate::forms::truth;
use crate::jid;
use crate::render::CARBONS;
use crate::sasl::{self, Mechanism, SaslFailure};
use crate::stanza::timestamp;
use crate::stream::{self, BIND2, CSI, FAST, SASL2, SM};
use crate::xml::scan::Element;
use crate::xml::text;
use base::time::Now;
use model::chat::{
    ChatRequest, DEVICE_NAME_BYTES_MAX, FAST_AGENT_BYTES_MAX, FastBinding, FastOutcome, FastSecret,
    FastWish, Redeeming, ResumptionId,
};
use model::link::Link;
use model::machine::Input;

/// Bytes of a tag that stand in the name of a resource, before the part that tells devices apart.
const TAG_BYTES_MAX: usize = 40;

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[
        Xep::complete(
            386,
            ("Bind 2", "1.1.0"),
            "",
            "xmpp/test_resume.py::\
         test_a_client_with_a_token_is_online_in_one_round_trip_and_goes_on_in_one",
        ),
        Xep::partial(
            388,
            ("Extensible SASL Profile", "1.0.4"),
            "no tasks",
            "xmpp/test_resume.py::\
         test_a_client_with_a_token_is_online_in_one_round_trip_and_goes_on_in_one",
        ),
        Xep::complete(
            484,
            ("Fast Authentication Streamlining Tokens", "0.2.0"),
            "no 0-RTT",
            "xmpp/test_resume.py::\
         test_a_client_with_a_token_is_online_in_one_round_trip_and_goes_on_in_one",
        ),
    ],
    ..Feature::NONE
};

/// Requests along with a login.
#[derive(Default)]
pub(super) struct Inline {
    /// Which of the client's devices it is, as it says.
    agent: Option<Box<str>>,
    /// Whether the tokens of its device become invalid, if the client logs in by a token.
    invalidates: Option<bool>,
    /// Binding of the token that the client asks for.
    wants: Option<FastBinding>,
    /// The token that it has, as it is said.
    token: String,
    resume: Option<Resume>,
    bind: Option<Bind>,
    /// Answer to a resumption that failed.
    failed: Box<str>,
    /// The last word of the mechanism.
    data: Option<Box<[u8]>>,
    limits: KeepLimits,
}

struct Resume {
    id: Option<ResumptionId>,
    has: u32,
}

struct Bind {
    tag: Box<str>,
    carbons: bool,
    inactive: bool,
    acks: Option<Wish>,
}

impl Inline {
    fn of(authenticate: &Element<'_, '_>, limits: KeepLimits) -> Result<Inline, SaslFailure> {
        let agent = authenticate.child("user-agent", SASL2).and_then(|it| it.attribute("id"));
        let agent = agent.filter(|id| (1..=FAST_AGENT_BYTES_MAX).contains(&id.len()));
        let resume = authenticate.child("resume", SM).map(|resume| {
            let id = resume.attribute("previd").and_then(|id| resumption::read_id(id.trim()));
            let has = resumption::read_count(&resume);
            has.map(|has| Resume { id, has }).map_err(|_| SaslFailure::MalformedRequest)
        });
        let bind = authenticate.child("bind", BIND2).map(|bind| Bind {
            tag: bind.child("tag", BIND2).map(|tag| tag.text().into()).unwrap_or_default(),
            carbons: bind.child("enable", CARBONS).is_some(),
            inactive: bind.child("inactive", CSI).is_some(),
            acks: bind.child("enable", SM).map(|enable| Wish::of(&enable)),
        });
        let invalidates = authenticate.child("fast", FAST).map(|fast| {
            fast.attribute("invalidate").is_some_and(|it| truth(it.trim()) == Some(true))
        });
        let wants = authenticate.child("request-token", FAST);
        let wants = wants.and_then(|it| binding_of(&it.attribute("mechanism")?));
        Ok(Inline {
            agent: agent.map(|agent| agent.as_ref().into()),
            invalidates,
            wants,
            resume: resume.transpose()?,
            bind,
            limits,
            ..Inline::default()
        })
    }
}

impl Bind {
    /// The name of the resource: the same each time for a device that says which it is, so that a
    /// stream that is dead is not left beside the new one.
    fn name(&self, agent: Option<&str>, out: &Out) -> Option<Box<str>> {
        let tag = jid::is_plain_resource(&self.tag, TAG_BYTES_MAX).then_some(&*self.tag);
        let tag = tag.unwrap_or("client");
        let part = out.draw(&[b"resource", agent?.as_bytes()]);
        let name = format!("{tag}~{part:016x}");
        (name.len() <= DEVICE_NAME_BYTES_MAX).then(|| name.into())
    }
}

/// The name of the mechanism that shows a token (draft-schmaus-kitten-sasl-ht).
const fn mechanism_of(binding: FastBinding) -> &'static str {
    match binding {
        FastBinding::None => "HT-SHA-256-NONE",
        FastBinding::Exporter => "HT-SHA-256-EXPR",
        FastBinding::EndPoint => "HT-SHA-256-ENDP",
    }
}

fn binding_of(mechanism: &str) -> Option<FastBinding> {
    FastBinding::ALL.into_iter().find(|it| mechanism_of(*it) == mechanism)
}

/// Channel binding data of a connection for tokens; `None`: it has no TLS, or not this binding.
fn bound_of(link: &Link, binding: FastBinding) -> Option<Box<[u8]>> {
    let bindings = link.tls.as_ref()?.bindings.as_deref();
    match binding {
        FastBinding::None => Some(Box::default()),
        FastBinding::Exporter => bindings?.exporter.map(|it| it.into()),
        FastBinding::EndPoint => bindings?.end_point.as_deref().map(Box::from),
    }
}

/// Ways to come by a token, where tokens are taken.
fn fast_offer(fast: bool, link: &Link) -> String {
    if !fast {
        return String::new();
    }
    let all = FastBinding::ALL.into_iter().filter(|it| bound_of(link, *it).is_some());
    let names: String =
        all.map(|it| format!("<mechanism>{}</mechanism>", mechanism_of(it))).collect();
    if names.is_empty() { names } else { format!("<fast xmlns='{FAST}'>{names}</fast>") }
}

/// Writes what is offered of this (XEP-0388 2.3).
pub(super) fn offer(mechanisms: &[Mechanism], fast: bool, link: &Link) -> String {
    if mechanisms.is_empty() {
        return String::new();
    }
    let names = mechanisms.iter().map(|it| format!("<mechanism>{}</mechanism>", it.name()));
    let names: String = names.collect();
    let features = feature::inline().map(|it| format!("<feature var='{it}'/>"));
    let features: String = features.collect();
    format!(
        "<authentication xmlns='{SASL2}'>{names}<inline><bind xmlns='{BIND2}'><inline>{features}\
         </inline></bind><sm xmlns='{SM}'/>{}</inline></authentication>",
        fast_offer(fast, link)
    )
}

impl Opening {
    /// An element of SASL 2. False: it is left where it is.
    pub(super) fn sasl2(
        &mut self,
        element: &Element<'_, '_>,
        (now, input): (Now, &Input<'_>),
        out: &mut Out,
    ) -> Result<bool, End> {
        let is_begun = self.inline.is_some();
        if !is_begun {
            // Whatever fails is said in these words.
            self.inline = Some(Box::default());
        }
        let result = match (element.name(), &self.stage) {
            ("authenticate", Stage::Features) => self.authenticate(element, (now, input), out),
            ("response" | "abort", Stage::First | Stage::Challenged) if is_begun => {
                return self.sasl(element, (now, input), out);
            }
            _ => Err(SaslFailure::MalformedRequest),
        };
        result.or_else(|failure| self.fails(failure, out).map(|()| true))
    }

    fn authenticate(
        &mut self,
        element: &Element<'_, '_>,
        (now, input): (Now, &Input<'_>),
        out: &mut Out,
    ) -> Result<bool, SaslFailure> {
        let limits = KeepLimits::of(&input.limits.chat);
        self.inline = Some(Box::new(Inline::of(element, limits)?));
        let first = element.child("initial-response", SASL2).map(|it| it.text().into_owned());
        let mechanism = element.attribute("mechanism").unwrap_or_default();
        if let Some(binding) = binding_of(&mechanism).filter(|_| self.listener.fast) {
            let first = first.unwrap_or_default();
            return self.redeems((binding, &first), (now, input), out);
        }
        let first = first.as_deref().unwrap_or_default();
        self.begins((&mechanism, first), (now, input), out)
    }

    /// Begins a login by a token (XEP-0484 3.4).
    fn redeems(
        &mut self,
        (binding, first): (FastBinding, &str),
        (now, input): (Now, &Input<'_>),
        out: &mut Out,
    ) -> Result<bool, SaslFailure> {
        let inline = self.inline.as_ref().ok_or(SaslFailure::MalformedRequest)?;
        let invalidates = inline.invalidates.ok_or(SaslFailure::MalformedRequest)?;
        let agent = inline.agent.clone().ok_or(SaslFailure::MalformedRequest)?;
        let bound = bound_of(input.link, binding).ok_or(SaslFailure::InvalidMechanism)?;
        let message = sasl::decoded(first)?;
        let (account, mac) = sasl::hashed_token(&message, &self.domain)?;
        if !self.is_at_home(&account, (now, input), out) {
            return Ok(false);
        }
        let login = self.words(account, input.link);
        let redeeming = Redeeming { login, agent, binding, bound, mac, invalidates };
        out.say(ChatRequest::Redeem(Box::new(redeeming)));
        Ok(true)
    }

    /// Continues after login by SASL 2: asks the service for what the client requested along with
    /// it.
    pub(super) fn goes_inline(&mut self, data: Option<Box<[u8]>>, out: &mut Out) {
        let (Some(inline), Some(granted)) = (&mut self.inline, &self.granted) else { return };
        inline.data = data;
        if let (Some(binding), Some(agent), true) =
            (inline.wants, &inline.agent, self.listener.fast)
        {
            let (session, agent) = (granted.session, Some(agent.clone()));
            let secret = Some(FastSecret(out.secrets().draw()));
            self.stage = Stage::Asked;
            let wish = FastWish { session, number: 0, agent, binding, secret };
            out.say(ChatRequest::Token(Box::new(wish)));
            return;
        }
        self.goes_further(out);
    }

    /// The client has a token, or gets none.
    pub(super) fn has_token(&mut self, outcome: FastOutcome, out: &mut Out) {
        let Some(inline) = &mut self.inline else { return };
        if let FastOutcome::Given { secret, until_s } = outcome {
            let token = base::hex::encode(&secret.0);
            let expiry = timestamp(u64::from(until_s) * 1_000);
            inline.token = format!("<token xmlns='{FAST}' expiry='{expiry}' token='{token}'/>");
        }
        self.goes_further(out);
    }

    fn goes_further(&mut self, out: &mut Out) {
        let (Some(inline), Some(granted)) = (&mut self.inline, &self.granted) else { return };
        match inline.resume.take() {
            Some(Resume { id: Some(id), has }) => {
                self.stage = Stage::Resuming(has);
                out.say(ChatRequest::Resume { session: granted.session, id: Box::new(id) });
            }
            Some(Resume { id: None, .. }) => self.binds_instead(None, out),
            None => self.binds_inline(out),
        }
    }

    /// Binds a resource instead of a resumption that failed.
    pub(super) fn binds_instead(&mut self, handled: Option<u32>, out: &mut Out) {
        if let Some(inline) = &mut self.inline {
            inline.failed = crate::stream::management_failed("item-not-found", handled).into();
        }
        self.binds_inline(out);
    }

    fn binds_inline(&mut self, out: &mut Out) {
        let (Some(inline), Some(granted)) = (&self.inline, &self.granted) else { return };
        if let Some(bind) = &inline.bind {
            let device = bind.name(inline.agent.as_deref(), out);
            self.stage = Stage::Binding(Box::default());
            out.say(ChatRequest::Bind { session: granted.session, device });
            return;
        }
        let address = granted.address.as_str().to_owned();
        if let Some(inline) = self.inline.take() {
            let (before, after) = inline.success(&address);
            let said = format!("{before}{}{after}", inline.failed);
            out.bytes().extend_from_slice(said.as_bytes());
        }
        let capabilities = self.listener.advertised.stream_capabilities(self.has_accounts());
        stream::write_session_features(capabilities, out.bytes());
        self.stage = Stage::Features;
    }
}

/// Features of a stream that has its resource: none is left.
const BOUND_FEATURES: &str = "<stream:features/>";

impl Inline {
    /// The resource stands: it is said with all that was asked for.
    pub(super) fn binds(
        self: Box<Inline>,
        (granted, jid): (&Granted, &str),
        out: &mut Out,
    ) -> Box<Session> {
        let mut session = Session::new(granted.session, jid, granted.silence_s);
        let mut enabled = String::new();
        let (before, after) = self.success(jid);
        let Inline { failed, bind, limits, .. } = *self;
        if let Some(bind) = bind {
            session.set(Session::CARBONS, bind.carbons);
            session.set(Session::INACTIVE, bind.inactive);
            if let Some(wish) = bind.acks {
                session.acks = Some(Box::default());
                enabled = session.enabled(limits, wish, out);
            }
        }
        let bound = format!("<bound xmlns='{BIND2}'>{enabled}</bound>");
        let said = format!("{before}{failed}{bound}{after}{BOUND_FEATURES}");
        out.bytes().extend_from_slice(said.as_bytes());
        session.marks(out);
        Box::new(session)
    }

    /// Text before and behind the answer to a resumption along with a login.
    pub(super) fn around_resumed(&self, jid: &str) -> Box<(String, String)> {
        let (before, after) = self.success(jid);
        Box::new((before, format!("{after}{BOUND_FEATURES}")))
    }

    /// Text before and behind the results of the other requests along with a login.
    fn success(&self, jid: &str) -> (String, String) {
        let data = self.data.as_deref().map(sasl::encoded);
        let data = data.map(|data| format!("<additional-data>{data}</additional-data>"));
        let whose = text::escaped(jid);
        let before = format!(
            "<success xmlns='{SASL2}'>{}<authorization-identifier>{whose}\
             </authorization-identifier>{}",
            data.unwrap_or_default(),
            self.token
        );
        (before, "</success>".into())
    }
}
