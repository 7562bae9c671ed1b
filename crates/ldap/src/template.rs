//! Texts with placeholders: `%u` is the name that the client gives, `%d` the DN of its entry, `%%`
//! a percent sign.

/// Values of the placeholders: the user's name and DN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'a> {
    pub(crate) user: &'a str,
    /// The DN of the user's entry; `None` before the entry was found.
    pub(crate) dn: Option<&'a str>,
}

/// A text with placeholders.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Bytes(Vec<u8>),
    User,
    Dn,
}

impl Template {
    /// Appends bytes of plain text.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        match self.0.last_mut() {
            Some(Part::Bytes(last)) => last.extend_from_slice(bytes),
            _ => self.0.push(Part::Bytes(bytes.to_vec())),
        }
    }

    /// Appends the placeholder with this letter after the percent sign: `u`, `d` or `%`.
    pub(crate) fn push_placeholder(&mut self, letter: Option<u8>) -> Result<(), String> {
        match letter {
            Some(b'u') => self.0.push(Part::User),
            Some(b'd') => self.0.push(Part::Dn),
            Some(b'%') => self.push(b"%"),
            _ => return Err("% must be followed by u, d or %".into()),
        }
        Ok(())
    }

    pub(crate) fn parse(text: &str) -> Result<Template, String> {
        let mut template = Template::default();
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            match byte {
                b'%' => template.push_placeholder(bytes.next())?,
                byte => template.push(&[byte]),
            }
        }
        Ok(template)
    }

    /// Whether the text contains the user's name.
    pub(crate) fn has_user(&self) -> bool {
        self.0.contains(&Part::User)
    }

    /// Whether the text contains the DN.
    pub(crate) fn has_dn(&self) -> bool {
        self.0.contains(&Part::Dn)
    }

    /// Whether the text is empty and has no placeholder.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text with the values inserted unescaped.
    pub(crate) fn fill(&self, values: Values<'_>) -> Vec<u8> {
        self.fill_with(values, |user| user.into())
    }

    /// The text as a DN, with the name escaped as a value in one (RFC 4514 2.4).
    pub(crate) fn fill_dn(&self, user: &str) -> String {
        let bytes = self.fill_with(Values { user, dn: None }, escaped);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn fill_with(&self, values: Values<'_>, of_user: impl Fn(&str) -> String) -> Vec<u8> {
        let mut out = Vec::new();
        for part in &self.0 {
            match part {
                Part::Bytes(bytes) => out.extend_from_slice(bytes),
                Part::User => out.extend_from_slice(of_user(values.user).as_bytes()),
                Part::Dn => out.extend_from_slice(values.dn.unwrap_or_default().as_bytes()),
            }
        }
        out
    }
}

/// Escapes a value for use in a DN.
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (at, letter) in value.chars().enumerate() {
        match letter {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' | '=' => out.extend(['\\', letter]),
            '#' if at == 0 => out.push_str("\\#"),
            ' ' if at == 0 || at == last => out.push_str("\\ "),
            '\0' => out.push_str("\\00"),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_a_dn_stays_one_value() {
        let pattern = Template::parse("uid=%u,ou=people").expect("right");
        for (user, dn) in [
            ("ann", "uid=ann,ou=people"),
            ("jürgen", "uid=jürgen,ou=people"),
            ("x,ou=admins", "uid=x\\,ou\\=admins,ou=people"),
            (" #a+b ", "uid=\\ #a\\+b\\ ,ou=people"),
            ("#a\\\"", "uid=\\#a\\\\\\\",ou=people"),
            ("a\0", "uid=a\\00,ou=people"),
            (" ", "uid=\\ ,ou=people"),
        ] {
            assert_eq!(pattern.fill_dn(user), dn);
        }
    }

    #[test]
    fn placeholders_are_u_d_and_percent() {
        let of = |text: &str| {
            let template = Template::parse(text)?;
            let values = Values { user: "ann", dn: Some("cn=a") };
            Ok::<_, String>(String::from_utf8(template.fill(values)).expect("text"))
        };
        assert_eq!(of("%u@corp"), Ok("ann@corp".into()));
        assert_eq!(of("100%% %d"), Ok("100% cn=a".into()));
        assert!(of("%x").is_err() && of("a%").is_err());
        assert!(Template::parse("").expect("right").is_empty());
    }
}
