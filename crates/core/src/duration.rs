//! Durations in configuration files: texts like `15s`, `500ms` and `1h 30m`, and `never` for the longest one.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

const NEVER: &str = "never";

pub(crate) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    match *duration {
        Duration::MAX => to.serialize_str(NEVER),
        duration => to.collect_str(&humantime::format_duration(duration)),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    parse(&String::deserialize(from)?)
}

fn parse<E: Error>(text: &str) -> Result<Duration, E> {
    match text {
        NEVER => Ok(Duration::MAX),
        text => humantime::parse_duration(text).map_err(|error| {
            E::custom(format_args!("{text:?} is no duration ({error}); write one like \"15s\" or \"500ms\""))
        }),
    }
}

/// A duration that may be missing.
pub(crate) mod optional {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(duration: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::serialize(duration, to),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Option::<String>::deserialize(from)?.map(|text| super::parse(&text)).transpose()
    }
}
