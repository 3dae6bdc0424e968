//! The words of an enumeration, in the order of the documentation.

/// Gives a type its words: as a list, to print and to look up.
macro_rules! vocabulary {
    ($type:ident, { $($word:literal => $variant:ident),+ $(,)? }) => {
        impl $type {
            /// Every word, in the order of the documentation.
            pub const WORDS: &'static [&'static str] = &[$($word),+];
            /// Every variant, in the same order.
            pub const ALL: &'static [$type] = &[$($type::$variant),+];

            pub fn word(self) -> &'static str {
                match self {
                    $($type::$variant => $word,)+
                }
            }

            pub fn of_word(text: &str) -> Option<$type> {
                match text {
                    $($word => Some($type::$variant),)+
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}
pub(crate) use vocabulary;
