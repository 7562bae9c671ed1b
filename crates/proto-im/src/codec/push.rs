//! How an account's devices are woken: orders of a device, and their answers (IM 15).

use super::WireFault;
use super::protobuf::{Body, Sink, Value};
use model::chat::{PushRegistration, PushRoute, PushStatus, PushWish, QuietHours};

/// `Push`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PushFields<'a> {
    /// Number that the answer repeats.
    pub number: u32,
    /// The registration to add or to remove.
    pub registration: RegistrationFields<'a>,
    /// The code that was pushed to a device of MIOP.
    pub code: &'a str,
    /// Whether other accounts keep the device, too.
    pub shared: bool,
}

/// `PushRegistration`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RegistrationFields<'a> {
    /// Names it within the account; empty: as the device is named.
    pub name: &'a str,
    /// The device that made it; told, and not said.
    pub device: &'a str,
    /// The application, of a gateway.
    pub app: &'a str,
    /// The gateway's token of the device; sent by clients only.
    pub token: &'a str,
    /// The product, of a device of MIOP.
    pub product: &'a str,
    /// Its name.
    pub miop_device: &'a str,
    /// The address of a push service of XMPP elsewhere; told, and not said.
    pub service: &'a str,
}

/// `PushSettings`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PushSettingsFields {
    /// Number that the answer repeats.
    pub number: u32,
    /// Whether the quiet hours are set to these, or none; otherwise the present settings are asked
    /// for.
    pub sets: bool,
    /// Quiet hours to set.
    pub quiet: Option<QuietFields>,
}

/// `QuietHours`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QuietFields {
    /// Minute of the day at which they begin.
    pub from_min: u32,
    /// Minute at which they end.
    pub to_min: u32,
    /// How much later than UTC the clock is, minutes.
    pub offset_min: i32,
}

/// `PushStatus`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PushStatusFields<'a> {
    /// Number of the request.
    pub number: u32,
    /// The registrations.
    pub registrations: Vec<RegistrationFields<'a>>,
    /// The hours of quiet.
    pub quiet: Option<QuietFields>,
}

impl<'a> PushFields<'a> {
    /// Of a wish to register, or to be registered no longer.
    pub fn of(number: u32, wish: &'a PushWish) -> Option<PushFields<'a>> {
        let text = |text: &'a Option<Box<str>>| text.as_deref().unwrap_or("");
        match wish {
            // Only XMPP says such a way.
            PushWish::Register { route: PushRoute::Service(_), .. } => None,
            PushWish::Register { name, route, code, shared } => {
                let registration = RegistrationFields::of(text(name), "", route, true);
                Some(PushFields { number, registration, code: text(code), shared: *shared })
            }
            PushWish::Remove { name } => {
                let name = text(name);
                let registration = RegistrationFields { name, ..RegistrationFields::default() };
                Some(PushFields { number, registration, code: "", shared: false })
            }
            PushWish::Disable { .. } | PushWish::Show | PushWish::Quiet(_) => None,
        }
    }

    /// The wish; `None`: it makes no sense.
    pub fn wish(&self) -> Option<PushWish> {
        let text = |text: &str| (!text.is_empty()).then(|| text.into());
        let RegistrationFields { name, app, token, product, miop_device, .. } = self.registration;
        let name = text(name);
        let is_gateway = !app.is_empty() || !token.is_empty();
        let is_miop = !product.is_empty() || !miop_device.is_empty();
        let route = match (is_gateway, is_miop) {
            (false, false) if self.code.is_empty() => return Some(PushWish::Remove { name }),
            (true, false) if self.code.is_empty() => PushRoute::gateway(app, token)?,
            (false, true) => PushRoute::miop(product, miop_device)?,
            _ => return None,
        };
        let (code, shared) = (text(self.code), self.shared);
        Some(PushWish::Register { name, route, code, shared })
    }

    pub(super) fn read(value: Value<'a>) -> Result<PushFields<'a>, WireFault> {
        let mut it = PushFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.registration = RegistrationFields::read(value)?,
                3 => it.code = value.text()?,
                4 => it.shared = value.bool()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for PushFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.body(2, &self.registration);
        sink.text(3, self.code);
        sink.bool(4, self.shared);
    }
}

impl<'a> RegistrationFields<'a> {
    fn of(
        name: &'a str,
        device: &'a str,
        route: &'a PushRoute,
        has_token: bool,
    ) -> RegistrationFields<'a> {
        let it = RegistrationFields { name, device, ..RegistrationFields::default() };
        match route {
            PushRoute::Gateway { app, token } => {
                RegistrationFields { app, token: if has_token { token } else { "" }, ..it }
            }
            PushRoute::Miop { product, device } => {
                RegistrationFields { product: product.as_str(), miop_device: device.as_str(), ..it }
            }
            PushRoute::Service(at) => RegistrationFields { service: &at.address, ..it },
        }
    }

    fn read(value: Value<'a>) -> Result<RegistrationFields<'a>, WireFault> {
        let mut it = RegistrationFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.name = value.text()?,
                2 => it.device = value.text()?,
                3 => it.app = value.text()?,
                4 => it.token = value.text()?,
                5 => it.product = value.text()?,
                6 => it.miop_device = value.text()?,
                7 => it.service = value.text()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for RegistrationFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.text(1, self.name);
        sink.text(2, self.device);
        sink.text(3, self.app);
        sink.text(4, self.token);
        sink.text(5, self.product);
        sink.text(6, self.miop_device);
        sink.text(7, self.service);
    }
}

impl PushSettingsFields {
    /// Fields of a wish about quiet hours, or of a question for all settings.
    pub fn of(number: u32, wish: &PushWish) -> Option<PushSettingsFields> {
        match wish {
            PushWish::Show => Some(PushSettingsFields { number, sets: false, quiet: None }),
            PushWish::Quiet(hours) => {
                let quiet = hours.map(QuietFields::of);
                Some(PushSettingsFields { number, sets: true, quiet })
            }
            PushWish::Register { .. } | PushWish::Remove { .. } | PushWish::Disable { .. } => None,
        }
    }

    /// The wish; `None`: it makes no sense.
    pub fn wish(&self) -> Option<PushWish> {
        match (self.sets, self.quiet) {
            (false, None) => Some(PushWish::Show),
            (true, None) => Some(PushWish::Quiet(None)),
            (true, Some(quiet)) => Some(PushWish::Quiet(Some(quiet.hours()?))),
            (false, Some(_)) => None,
        }
    }

    pub(super) fn read(value: Value<'_>) -> Result<PushSettingsFields, WireFault> {
        let mut it = PushSettingsFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.sets = value.bool()?,
                3 => it.quiet = Some(QuietFields::read(value)?),
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for PushSettingsFields {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.bool(2, self.sets);
        self.quiet.iter().for_each(|quiet| sink.body(3, quiet));
    }
}

impl QuietFields {
    /// Fields of these hours.
    fn of(hours: QuietHours) -> QuietFields {
        QuietFields {
            from_min: hours.from_min.into(),
            to_min: hours.to_min.into(),
            offset_min: hours.offset_min.into(),
        }
    }

    /// The hours, if there are such.
    fn hours(&self) -> Option<QuietHours> {
        let (from_min, to_min) = (self.from_min.try_into().ok()?, self.to_min.try_into().ok()?);
        QuietHours::of(from_min, to_min, self.offset_min.try_into().ok()?)
    }

    fn read(value: Value<'_>) -> Result<QuietFields, WireFault> {
        let mut it = QuietFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.from_min = value.u32()?,
                2 => it.to_min = value.u32()?,
                3 => it.offset_min = value.sint32()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for QuietFields {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.from_min);
        sink.u32(2, self.to_min);
        sink.sint32(3, self.offset_min);
    }
}

impl<'a> PushStatusFields<'a> {
    /// Of what is registered.
    pub fn of(status: &'a PushStatus) -> PushStatusFields<'a> {
        let one = |it: &'a PushRegistration| {
            RegistrationFields::of(&it.name, &it.device, &it.route, false)
        };
        PushStatusFields {
            number: status.number,
            registrations: status.registrations.iter().map(one).collect(),
            quiet: status.quiet.map(QuietFields::of),
        }
    }

    pub(super) fn read(value: Value<'a>) -> Result<PushStatusFields<'a>, WireFault> {
        let mut it = PushStatusFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.registrations.push(RegistrationFields::read(value)?),
                3 => it.quiet = Some(QuietFields::read(value)?),
                _ => {}
            }
        }
        Ok(it)
    }

    /// The registrations, as clients get them: without tokens.
    pub fn status(&self) -> RegisteredPushes {
        let one = |it: &RegistrationFields<'_>| RegisteredPush {
            name: it.name.into(),
            device: it.device.into(),
            way: match (it.service, it.product) {
                ("", "") => format!("gateway {}", it.app).into(),
                ("", product) => format!("miop {product} {}", it.miop_device).into(),
                (service, _) => format!("service {service}").into(),
            },
        };
        RegisteredPushes {
            number: self.number,
            registrations: self.registrations.iter().map(one).collect(),
            quiet: self.quiet.and_then(|quiet| quiet.hours()),
        }
    }
}

impl Body for PushStatusFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        self.registrations.iter().for_each(|one| sink.body(2, one));
        self.quiet.iter().for_each(|quiet| sink.body(3, quiet));
    }
}

/// Registrations of an account, as a client gets them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisteredPushes {
    /// Number of the order.
    pub number: u32,
    /// The registrations.
    pub registrations: Vec<RegisteredPush>,
    /// When it is quiet.
    pub quiet: Option<QuietHours>,
}

/// A registration, as a client gets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisteredPush {
    /// Its name.
    pub name: Box<str>,
    /// The device that made it.
    pub device: Box<str>,
    /// The way to it, in words: `gateway APP`, `miop PRODUCT DEVICE`, `service ADDRESS`.
    pub way: Box<str>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::client_frame::ClientFrame;
    use crate::codec::frame::split;
    use model::chat::PushService;

    fn again(frame: ClientFrame<'_>) -> PushWish {
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        let (frame, _) = split(&bytes, 1 << 20).expect("a frame").expect("a whole one");
        match ClientFrame::read(frame).expect("as it was written") {
            ClientFrame::Push(push) => push.wish().expect("it makes sense"),
            ClientFrame::PushSettings(settings) => settings.wish().expect("it makes sense"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_wish_is_read_as_it_was_written() {
        let (gateway, miop) = (PushRoute::gateway("a", "t"), PushRoute::miop("shop", "phone"));
        let register = |route: Option<PushRoute>, name: Option<&str>, code: Option<&str>| {
            let route = route.expect("allowed");
            let (name, code) = (name.map(Box::from), code.map(Box::from));
            PushWish::Register { name, route, code, shared: false }
        };
        for wish in [
            register(gateway.clone(), None, None),
            register(gateway, Some("node"), None),
            register(miop.clone(), Some("node"), None),
            register(miop, None, Some("abcd2345")),
            PushWish::Remove { name: None },
            PushWish::Remove { name: Some("node".into()) },
        ] {
            let fields = PushFields::of(7, &wish).expect("of this frame");
            assert_eq!(again(ClientFrame::Push(fields)), wish);
            assert_eq!(PushSettingsFields::of(7, &wish), None);
        }
        for quiet in [None, QuietHours::of(0, 1_439, -840), QuietHours::of(1_320, 420, 120)] {
            let wish = PushWish::Quiet(quiet);
            let fields = PushSettingsFields::of(7, &wish).expect("of this frame");
            assert_eq!(again(ClientFrame::PushSettings(fields)), wish);
            assert_eq!(PushFields::of(7, &wish), None);
        }
        let fields = PushSettingsFields::of(7, &PushWish::Show).expect("of this frame");
        assert_eq!(again(ClientFrame::PushSettings(fields)), PushWish::Show);
    }

    #[test]
    fn a_push_service_elsewhere_is_told_and_not_said() {
        let service = PushService::new("push.example", "n", Vec::new()).expect("allowed");
        let (name, route) = (service.name(), PushRoute::Service(Box::new(service)));
        let wish = PushWish::Register {
            name: Some(name.clone()),
            route: route.clone(),
            code: None,
            shared: true,
        };
        assert_eq!(PushFields::of(7, &wish), None);
        let registration = PushRegistration { name, device: "phone".into(), route };
        let status = PushStatus { number: 7, registrations: vec![registration], quiet: None };
        let told = PushStatusFields::of(&status).status();
        assert_eq!(&*told.registrations[0].way, "service push.example");
        assert_eq!(&*told.registrations[0].name, "push.example n");
    }

    #[test]
    fn a_wish_that_makes_no_sense_is_none() {
        let of = |app, token, product, miop_device, code| {
            let fields = RegistrationFields::default();
            let registration = RegistrationFields { app, token, product, miop_device, ..fields };
            PushFields { number: 7, registration, code, shared: false }.wish()
        };
        assert_eq!(of("app", "", "", "", ""), None);
        assert_eq!(of("", "t", "", "", ""), None);
        assert_eq!(of("app", "t", "shop", "phone", ""), None);
        assert_eq!(of("app", "t", "", "", "code"), None);
        assert_eq!(of("", "", "shop", "", ""), None);
        assert_eq!(of("", "", "", "", "code"), None);
        let quiet = Some(QuietFields { from_min: 7, to_min: 7, offset_min: 0 });
        assert_eq!(PushSettingsFields { number: 7, sets: true, quiet }.wish(), None);
        let quiet = Some(QuietFields { from_min: 7, to_min: 8, offset_min: 1 << 20 });
        assert_eq!(PushSettingsFields { number: 7, sets: true, quiet }.wish(), None);
        let quiet = Some(QuietFields { from_min: 7, to_min: 8, offset_min: 0 });
        assert_eq!(PushSettingsFields { number: 7, sets: false, quiet }.wish(), None);
    }
}
