//! The texts of the scripts, assembled from their files.

macro_rules! text {
    ($($file:literal),+) => { concat!($(include_str!($file)),+) };
}

pub(crate) const JOIN: &str = text!("join-usual.lua", "line.lua", "join.lua");
pub(crate) const LEAVE: &str = text!("leave-usual.lua", "line.lua", "leave.lua");
pub(crate) const LIGHTEN: &str = text!("caller.lua", "line.lua", "lighten.lua");
pub(crate) const RESIZE: &str = text!("caller.lua", "line.lua", "resize.lua");
pub(crate) const LOOK: &str = text!("caller.lua", "line.lua", "look.lua");
pub(crate) const RENEW: &str = text!("renew.lua");
pub(crate) const INSPECT: &str = text!("inspect.lua");
pub(crate) const CHECK: &str = text!("check.lua");
pub(crate) const CONFIRM: &str = text!("confirm.lua");
