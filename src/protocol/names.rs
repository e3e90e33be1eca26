//! The names of a type's members, from the one place that says them: the type.

use serde::de::Visitor;
use serde::{Deserialize, Deserializer};

/// The names of a type's members, as its own reader of objects tells them.
pub(crate) fn names<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    /// Reads nothing: it hears what is asked for.
    struct Listener<'n>(&'n mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for Listener<'_> {
        type Error = serde::de::value::Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(serde::de::Error::custom("there is no value"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Self::Error> {
            *self.0 = fields;
            self.deserialize_any(visitor)
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    let mut names: &'static [&'static str] = &[];
    let nothing = T::deserialize(Listener(&mut names));
    debug_assert!(nothing.is_err());
    names
}
