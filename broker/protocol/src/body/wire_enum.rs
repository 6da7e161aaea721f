//! Enums as fastjson reads them: by name, or by number from clients that aren't Java; anything
//! unknown is the default, so a newer client is no error.

macro_rules! wire_enum {
    (
        $(#[$doc:meta])*
        $name:ident, default $default:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The name on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            /// The value with this name on the wire; the default for an unknown one.
            #[must_use]
            pub fn from_name(name: &str) -> $name {
                match name { $($text => $name::$variant,)* _ => $name::default() }
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name::$default
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<$name, D::Error> {
                struct Visitor;

                impl serde::de::Visitor<'_> for Visitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("a ", stringify!($name)))
                    }

                    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<$name, E> {
                        Ok($name::from_name(name))
                    }

                    fn visit_i64<E: serde::de::Error>(self, ordinal: i64) -> Result<$name, E> {
                        let at = usize::try_from(ordinal).ok();
                        Ok(at.and_then(|at| $name::ALL.get(at)).copied().unwrap_or_default())
                    }

                    fn visit_u64<E: serde::de::Error>(self, ordinal: u64) -> Result<$name, E> {
                        self.visit_i64(i64::try_from(ordinal).unwrap_or(-1))
                    }

                    fn visit_unit<E: serde::de::Error>(self) -> Result<$name, E> {
                        Ok($name::default())
                    }
                }

                from.deserialize_any(Visitor)
            }
        }
    };
}

pub(super) use wire_enum;
