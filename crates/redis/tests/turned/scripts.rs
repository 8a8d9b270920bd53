//! The scripts as they run here: the texts that users run, after the simulated clock.

use redis::Connection;

use crate::faults::Fault;
use crate::lua;

/// Deletes some keys of a name, as an eviction would.
const LOSE: &str = "
  local part = tonumber(ARGV[1])
  if part == 0 then redis.call('DEL', unpack(KEYS)) else redis.call('DEL', KEYS[part % 3 + 1]) end
  return 'lost'";

/// The hashes of the scripts.
pub(crate) struct Scripts {
    pub(crate) join: String,
    pub(crate) leave: String,
    pub(crate) lighten: String,
    pub(crate) resize: String,
    pub(crate) look: String,
    pub(crate) renew: String,
    pub(crate) lose: String,
}

impl Scripts {
    /// Loads the scripts with these faults; if `is_crowd`, those for many names.
    pub(crate) fn load(server: &mut Connection, faults: &[&Fault], is_crowd: bool) -> Self {
        let changes: Vec<_> = faults.iter().flat_map(|fault| fault.changes).collect();
        let mut load = |text: &str| {
            let seeded =
                changes.iter().fold(text.to_owned(), |text, (right, wrong)| text.replace(right, wrong));
            let seeded = lua::with_values(&seeded);
            let text = [include_str!("turned.lua"), &seeded, include_str!("shown.lua")].concat();
            redis::cmd("SCRIPT").arg("LOAD").arg(text).query(server).unwrap()
        };
        let [join, leave] = match is_crowd {
            false => [lua::JOIN, lua::LEAVE].map(str::to_owned),
            true => [lua::JOIN_MANY, lua::LEAVE_MANY].map(in_a_crowd),
        };
        let texts = [lua::JOIN, lua::LEAVE, lua::LIGHTEN, lua::RESIZE, lua::LOOK, lua::RENEW];
        for (right, _) in &changes {
            assert!(texts.iter().any(|text| text.contains(right)), "no script has {right}");
        }
        Self {
            join: load(&join),
            leave: load(&leave),
            lighten: load(lua::LIGHTEN),
            resize: load(lua::RESIZE),
            look: load(lua::LOOK),
            renew: load(lua::RENEW),
            lose: load(LOSE),
        }
    }
}

/// The script for many names, on one of them.
fn in_a_crowd(many: &str) -> String {
    format!(
        "local function many(KEYS, ARGV)
        {many}
        end
        return many(KEYS, ARGV)[1]"
    )
}
