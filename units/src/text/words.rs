//! Enums whose values are words of a unit file, of JSON or of a message.

/// The values and words of an enum that [`words`] declares. Code that reads such a word is generic
/// over this trait.
pub(crate) trait Words: Copy + 'static {
    /// All values.
    const VALUES: &'static [Self];
    /// The word of each value.
    const NAMES: &'static [&'static str];
}

/// Declares an enum with a word for each value, as `Variant = "word"`.
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$doc:meta])* $variant:ident = $word:literal,)*
    }) => {
        $(#[$meta])*
        $vis enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All values, in the order of the documentation.
            pub const ALL: [$name; [$($word),*].len()] = [$($name::$variant),*];

            /// The word of each value, in the same order.
            pub const WORDS: [&'static str; [$($word),*].len()] = [$($word),*];

            /// The word as it is written and shown.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }
        }

        impl $crate::text::words::Words for $name {
            const VALUES: &'static [$name] = &$name::ALL;
            const NAMES: &'static [&'static str] = &$name::WORDS;
        }
    };
}
pub(crate) use words;
