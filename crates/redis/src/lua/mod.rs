//! The texts of the scripts, assembled from their files.

pub(crate) mod record;

macro_rules! text {
    ($($file:literal),+) => { concat!($(include_str!($file)),+) };
}

pub(crate) const JOIN: &str = text!("alone.lua", "join-usual.lua", "line.lua", "join.lua");
pub(crate) const LEAVE: &str = text!("alone.lua", "leave-usual.lua", "line.lua", "leave.lua");
pub(crate) const JOIN_MANY: &str = text!("each.lua", "join-usual.lua", "line.lua", "join.lua", "many.lua");
pub(crate) const LEAVE_MANY: &str = text!("each.lua", "leave-usual.lua", "line.lua", "leave.lua", "many.lua");
pub(crate) const LIGHTEN: &str = text!("caller.lua", "line.lua", "lighten.lua");
pub(crate) const RESIZE: &str = text!("caller.lua", "line.lua", "resize.lua");
pub(crate) const LOOK: &str = text!("caller.lua", "line.lua", "look.lua");
pub(crate) const RENEW: &str = text!("renew.lua");
pub(crate) const INSPECT: &str = text!("inspect.lua");
pub(crate) const CHECK: &str = text!("check.lua");
pub(crate) const CONFIRM: &str = text!("confirm.lua");

/// The text as a server runs it: each name of the record is replaced by its value.
pub(crate) fn with_values(text: &str) -> String {
    let names = record::names();
    let value = |word: &str| names.iter().find(|(name, _)| *name == word).map(|(_, value)| value.clone());
    words(text).map(|word| value(word).unwrap_or_else(|| word.to_owned())).collect()
}

/// All of the text, split into words and what stands between them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_word = rest.starts_with(in_word);
        let end = rest.find(|c| in_word(c) != is_word).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind;
        (!word.is_empty()).then_some(word)
    })
}

fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::record::*;
    use super::*;

    const ALL: [&str; 11] =
        [JOIN, LEAVE, JOIN_MANY, LEAVE_MANY, LIGHTEN, RESIZE, LOOK, RENEW, INSPECT, CHECK, CONFIRM];

    /// The scripts' lines without their comments.
    fn code() -> impl Iterator<Item = &'static str> {
        ALL.iter().flat_map(|text| text.lines()).map(|line| line.split("--").next().unwrap_or_default())
    }

    #[test]
    fn no_script_has_a_number_or_a_letter_of_the_record_without_its_name() {
        // The padding of the µs is a text, not a number.
        for line in code().map(|line| line.replace("'00000'", "")) {
            let is_number = |word: &&str| word.len() > 1 && word.bytes().all(|b| b.is_ascii_digit());
            let numbers = words(&line).filter(is_number);
            assert_eq!(numbers.collect::<Vec<_>>(), Vec::<&str>::new(), "{line}");
            let letters = ["+", "i", "m", "z", "=", "h:", "s:", "w:", " m ", " z ", " = ", " - "];
            for letter in letters.map(|letter| format!("'{letter}'")) {
                assert!(!line.contains(&letter), "{letter} in {line}");
            }
            assert!(!line.contains("%+"), "{line}");
        }
    }

    #[test]
    fn every_name_is_used_and_every_use_is_a_name() {
        let redis = [
            "ARGV",
            "BYSCORE",
            "DEL",
            "HDEL",
            "HGET",
            "HGETALL",
            "HMGET",
            "HRANDFIELD",
            "HSET",
            "KEYS",
            "KINDS",
            "LIMIT",
            "NX",
            "PEXPIRE",
            "PUBLISH",
            "REV",
            "TIME",
            "WITHSCORES",
            "WITHVALUES",
            "ZADD",
            "ZPOPMIN",
            "ZRANGE",
            "ZREM",
            "ZREMRANGEBYSCORE",
            "ZSCORE",
        ];
        let is_capital = |word: &&str| word.len() > 1 && word.contains(|c: char| c.is_ascii_uppercase());
        let used: BTreeSet<&str> = code().flat_map(words).filter(is_capital).collect();
        let names: BTreeSet<&str> = names().into_iter().map(|(name, _)| name).chain(redis).collect();
        assert_eq!(used, names);
    }

    #[test]
    fn a_value_stands_in_place_of_each_name() {
        let text = with_values("sub(one, 1, ONE_WAITS - 1) .. 'IN_LINE' .. not_ONE_WAITS, '^%BORN?(%d*)'");
        assert_eq!(text, "sub(one, 1, 28 - 1) .. 'z' .. not_ONE_WAITS, '^%+?(%d*)'");
    }

    /// From the first to the last of these characters, counted as Lua counts.
    fn sub(text: &str, first: usize, last: usize) -> &str {
        &text[first - 1..last]
    }

    #[test]
    fn the_parts_stand_where_the_names_say() {
        let (place, lasts, born) = ("170000000000002", "00000015000", "170000000000001");
        let tail = format!("{lasts} {MUTEX} 00000000000000ff-12 its label");
        let one = format!("170000000000003 1700003600 {NOBODY} {place} {tail}");
        assert_eq!(sub(&one, 1, ONE_TOKEN_END), "170000000000003");
        assert_eq!(sub(&one, ONE_FRESH, ONE_FRESH_END), "1700003600");
        assert_eq!(sub(&one, ONE_WAITS, ONE_WAITS), "-");
        assert_eq!(sub(&one, ONE_PLACE, ONE_PLACE_END), place);
        assert_eq!(sub(&one, ONE_LASTS, ONE_LASTS_END), lasts);
        assert_eq!(sub(&one, ONE_CLAIM, ONE_SESSION_END), "00000000000000ff");
        assert_eq!(sub(&one, ONE_NUMBER, one.len()), "12 its label");

        assert_eq!(sub(&tail, 1, TAIL_LASTS_END), lasts);
        assert_eq!(sub(&tail, TAIL_KIND, TAIL_KIND), "m");
        let claim = sub(&tail, TAIL_CLAIM, tail.len());
        assert_eq!(sub(claim, 1, CLAIM_SESSION_END), "00000000000000ff");
        assert_eq!(sub(claim, CLAIM_NUMBER, claim.len()), "12 its label");

        let waits = format!("{one}\n{place} {tail}");
        let at = waits.find('\n').unwrap() + 1; // as Lua counts
        assert_eq!(sub(&waits, at + WAITER_PLACE, at + WAITER_PLACE_END), place);
        assert_eq!(sub(&waits, at + WAITER_LASTS, at + WAITER_LASTS_END), lasts);
        assert_eq!(sub(&waits, at + WAITER_SESSION, at + WAITER_SESSION_END), "00000000000000ff");
        assert_eq!(sub(&waits, at + WAITER_NUMBER, waits.len()), "12 its label");

        let life = format!("{place} {lasts}{BORN}{born} its label");
        assert_eq!(sub(&life, 1, LIFE_FROM_END), place);
        assert_eq!(sub(&life, LIFE_LASTS, LIFE_LASTS_END), lasts);
        assert_eq!(sub(&life, LIFE_BORN, LIFE_BORN), "+");
        assert_eq!(sub(&life, LIFE_PLACE, LIFE_PLACE_END), born);
        assert_eq!(sub(&life, LIFE_PLACE_END + 1, life.len()), " its label");
    }
}
