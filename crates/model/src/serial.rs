//! Ids and kinds as texts, and weights as numbers, by serde.

use core::fmt::{self, Formatter};
use core::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::{ClaimId, Kind, Weight};

/// Reads a text.
struct Text<T>(fn(&str) -> Option<T>, &'static str);

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}

/// As a text, like `15f8c3a09be2d471-43`.
impl Serialize for ClaimId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ClaimId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Text(|text| Self::from_str(text).ok(), "the id of a claim"))
    }
}

/// As its [name](Kind::as_str).
impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let named = |text: &str| {
            [Self::Mutex, Self::RwLock, Self::Semaphore].into_iter().find(|kind| kind.as_str() == text)
        };
        from.deserialize_str(Text(named, "the kind of a lock"))
    }
}

/// As a number.
impl Serialize for Weight {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u32(self.get())
    }
}

/// From a number from 1 to 2^31 − 1.
impl<'de> Deserialize<'de> for Weight {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let weight = u32::deserialize(from)?;
        Self::new(weight).ok_or_else(|| Error::custom(format_args!("{weight} is no weight")))
    }
}
