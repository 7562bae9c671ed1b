//! The two macros that declare: a section with its keys, and the words that a key may have.
//!
//! The macros only write out what would be written by hand: a struct, its `Default`, and a
//! [`Section`](super::Section) that goes over its fields; docs/adr/0015 says why they are macros.

/// Declares a struct that is a section. A field is a key with its text, its type, its default, and
/// what it takes (where the type does not say it, [`Plain`](crate::setting::Plain)):
///
/// ```
/// use base::setting::whole;
/// base::section! {
///     /// What bounds connections.
///     #[derive(Clone, PartialEq, Eq, Debug)]
///     pub struct Bounds {
///         /// Connections held. One more is told BUSY and closed.
///         connections_max: u32 = 1_000, whole(1..=65_536, "connections");
///         /// Whether those who are told so may ask again.
///         @live patient: bool = true;
///     }
/// }
/// assert_eq!(Bounds::default().connections_max, 1_000);
/// ```
///
/// A key without a default must be given. Behind what it takes may stand `secret`, for a value that
/// is never shown, or `url`, for one that is shown without its password; behind the field's name,
/// `as "name"` if the file has another. `@live` marks a key that a running process follows, `@part`
/// a field that is itself a section, whose keys stand among these, and `@aside` a field that is no
/// key.
#[macro_export]
macro_rules! section {
    (
        $(#[$meta:meta])*
        $vis:vis struct $section:ident { $(
            $(#[doc = $doc:literal])+
            $(@$mark:ident)? $field:ident $(as $name:literal)? : $type:ty
            $(= $default:expr)? $(, $kind:expr $(, $shown:ident)?)? ;
        )+ }
    ) => {
        $(#[$meta])*
        $vis struct $section { $(
            $(#[doc = $doc])+
            $(#[doc = concat!("\n\nTakes `", stringify!($kind), "`.")])?
            $(#[doc = concat!("\n\nUsually `", stringify!($default), "`.")])?
            pub $field: $type,
        )+ }

        impl Default for $section {
            fn default() -> Self {
                $section { $($field: $crate::section!(default $($default)?),)+ }
            }
        }

        impl $crate::setting::Section for $section {
            fn settings() -> Vec<&'static $crate::setting::Setting> {
                let mut settings = Vec::new();
                $($crate::section!(
                    settings [$($mark)?] settings, $type,
                    [$field $($name)?] [$($default)?] [$($kind $(, $shown)?)?] $($doc)+
                );)+
                settings
            }

            fn value(&self, name: &str) -> Option<$crate::setting::Value> {
                $($crate::section!(value [$($mark)?] name, self.$field, [$field $($name)?]);)+
                None
            }

            fn put(&mut self, name: &str, value: &$crate::setting::Value) -> bool {
                $($crate::section!(
                    put [$($mark)?] name, value, self.$field, [$field $($name)?]
                );)+
                false
            }
        }
    };

    (settings [aside] $($rest:tt)*) => {};
    (settings [part] $settings:ident, $type:ty, $($rest:tt)*) => {
        $settings.extend(<$type as $crate::setting::Section>::settings());
    };
    (
        settings [$($live:ident)?] $settings:ident, $type:ty, [$($name:tt)+] [$($default:expr)?]
        [$($kind:expr $(, $shown:ident)?)?] $($doc:literal)+
    ) => {{
        static SETTING: $crate::setting::Setting = $crate::setting::Setting {
            name: $crate::section!(name $($name)+),
            kind: $crate::section!(kind $type $(, $kind)?),
            reload: $crate::section!(reload $($live)?),
            text: concat!($($doc),+).trim_ascii(),
            required: $crate::section!(required $($default)?),
            shown: $crate::section!(shown $($($shown)?)?),
        };
        $settings.push(&SETTING);
    }};

    (value [aside] $($rest:tt)*) => {};
    (value [part] $wanted:ident, $this:ident.$field:ident, $name:tt) => {
        if let Some(value) = $crate::setting::Section::value(&$this.$field, $wanted) {
            return Some(value);
        }
    };
    (value [$($live:ident)?] $wanted:ident, $this:ident.$field:ident, [$($name:tt)+]) => {
        if $wanted == $crate::section!(name $($name)+) {
            return Some($crate::setting::Field::show(&$this.$field));
        }
    };

    (put [aside] $($rest:tt)*) => {};
    (put [part] $wanted:ident, $value:ident, $this:ident.$field:ident, $name:tt) => {
        if $crate::setting::Section::put(&mut $this.$field, $wanted, $value) {
            return true;
        }
    };
    (
        put [$($live:ident)?] $wanted:ident, $value:ident, $this:ident.$field:ident, [$($name:tt)+]
    ) => {
        if $wanted == $crate::section!(name $($name)+) {
            let taken = $crate::setting::Field::take($value);
            return taken.map(|taken| $this.$field = taken).is_some();
        }
    };

    (default) => { Default::default() };
    (default $default:expr) => { $default };
    (required) => { true };
    (required $default:expr) => { false };
    (name $field:ident) => { stringify!($field) };
    (name $field:ident $name:literal) => { $name };
    (kind $type:ty) => { <$type as $crate::setting::Plain>::KIND };
    (kind $type:ty, $kind:expr) => { $kind };
    (reload) => { $crate::setting::Reload::Restart };
    (reload live) => { $crate::setting::Reload::Live };
    (shown) => { $crate::setting::Shown::Whole };
    (shown url) => { $crate::setting::Shown::WithoutSecrets };
    (shown secret) => { $crate::setting::Shown::Never };
}

/// Declares an enum that is written as one of some words.
#[macro_export]
macro_rules! words {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident { $(
            $(#[$variant_meta:meta])* $variant:ident = $word:literal
        ),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        $vis enum $name { $($(#[$variant_meta])* $variant),+ }

        impl $name {
            /// Every one.
            pub const ALL: [$name; [$($word),+].len()] = [$($name::$variant),+];

            /// The word in configurations.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }

        impl $crate::setting::Field for $name {
            fn show(&self) -> $crate::setting::Value {
                $crate::setting::Value::Text(self.name().into())
            }

            fn take(value: &$crate::setting::Value) -> Option<Self> {
                let $crate::setting::Value::Text(text) = value else { return None };
                $name::ALL.into_iter().find(|one| one.name() == text)
            }
        }

        impl $crate::setting::Plain for $name {
            const KIND: $crate::setting::Kind = $crate::setting::Kind::Word(&[$($word),+]);
        }

        impl $crate::setting::Word for $name {
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn word(self) -> &'static str {
                self.name()
            }
        }
    };
}
