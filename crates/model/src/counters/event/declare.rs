//! Declaration of a kind of event, and of a line of the log.

/// Declares kinds of events, by group: a constant each, and all of them as `KINDS`.
///
/// A kind is its meaning as a comment, then `CONSTANT "name" WHERE "what a line says" [fields]`,
/// and `= "metric"` if one counts the same. WHERE is a level of the log, or `streamed` or
/// `by_name`, which say no words.
macro_rules! kinds {
    ($(
        $group:ident { $(
            $(#[doc = $doc:literal])+
            $kind:ident $name:literal $told:ident $($says:literal)? [$($field:ident)*]
                $(= $counter:literal)?;
        )+ }
    )+) => {
        $($(
            $(#[doc = $doc])+
            pub const $kind: $crate::event::EventKind = $crate::event::EventKind {
                name: $name,
                of: $crate::event::EventGroup::$group,
                told: told!($told $($says)?),
                fields: &[$(stringify!($field)),*],
                counter: counter!($($counter)?),
                meaning: &[$($doc),+],
            };
        )+)+

        /// All of them, in order.
        pub(super) const KINDS: &[$crate::event::EventKind] = &[$($($kind),+),+];
    };
}

macro_rules! told {
    (error $says:literal) => {
        $crate::event::Told::Logged($crate::event::Severity::Error, $says)
    };
    (warn $says:literal) => {
        $crate::event::Told::Logged($crate::event::Severity::Warn, $says)
    };
    (info $says:literal) => {
        $crate::event::Told::Logged($crate::event::Severity::Info, $says)
    };
    (debug $says:literal) => {
        $crate::event::Told::Logged($crate::event::Severity::Debug, $says)
    };
    (streamed) => {
        $crate::event::Told::Streamed
    };
    (by_name) => {
        $crate::event::Told::StreamedByName
    };
}

macro_rules! counter {
    () => {
        None
    };
    ($metric:literal) => {
        Some($metric)
    };
}

/// Tells a line of the log: of a kind, with fields as those of `tracing`.
///
/// The calling crate has `tracing`. A field that the kind does not declare does not compile, and
/// neither does a kind that is no line of the log. The kind's name comes last, as `event`.
#[macro_export]
macro_rules! tell {
    ($kind:path $(, $($fields:tt)*)?) => {{
        const KIND: $crate::event::EventKind = $kind;
        $crate::told_fields!(KIND $($($fields)*)?);
        const LEVEL: ::tracing::Level = match KIND.severity() {
            $crate::event::Severity::Error => ::tracing::Level::ERROR,
            $crate::event::Severity::Warn => ::tracing::Level::WARN,
            $crate::event::Severity::Info => ::tracing::Level::INFO,
            $crate::event::Severity::Debug => ::tracing::Level::DEBUG,
        };
        $crate::told_line!(LEVEL, KIND, $($($fields)*)?)
    }};
}

/// The line itself, with or without fields.
#[doc(hidden)]
#[macro_export]
macro_rules! told_line {
    ($level:ident, $kind:ident,) => {
        ::tracing::event!($level, { event = $kind.name }, "{}", $kind.says())
    };
    ($level:ident, $kind:ident, $($fields:tt)+) => {
        ::tracing::event!($level, { $($fields)+, event = $kind.name }, "{}", $kind.says())
    };
}

/// That the kind declares each of these fields.
#[doc(hidden)]
#[macro_export]
macro_rules! told_fields {
    ($kind:ident) => {};
    ($kind:ident % $field:ident $(, $($rest:tt)*)?) => {
        $crate::told_fields!($kind = $field; $($($rest)*)?);
    };
    ($kind:ident ? $field:ident $(, $($rest:tt)*)?) => {
        $crate::told_fields!($kind = $field; $($($rest)*)?);
    };
    ($kind:ident = $field:ident; $($rest:tt)*) => {
        const _: () = assert!(
            $kind.has(stringify!($field)),
            concat!("the kind of event does not declare the field ", stringify!($field)),
        );
        $crate::told_fields!($kind $($rest)*);
    };
    ($kind:ident $field:ident = % $value:expr $(, $($rest:tt)*)?) => {
        $crate::told_fields!($kind = $field; $($($rest)*)?);
    };
    ($kind:ident $field:ident = ? $value:expr $(, $($rest:tt)*)?) => {
        $crate::told_fields!($kind = $field; $($($rest)*)?);
    };
    ($kind:ident $field:ident = $value:expr $(, $($rest:tt)*)?) => {
        $crate::told_fields!($kind = $field; $($($rest)*)?);
    };
    ($kind:ident $field:ident $(, $($rest:tt)*)?) => {
        $crate::told_fields!($kind = $field; $($($rest)*)?);
    };
}
