//! The rule behind Tidelock's locks: one ordered line of weighted claims.
#![no_std]

extern crate alloc;

mod id;
mod token;
mod weight;

pub use id::{ClaimId, SessionId};
pub use token::Token;
pub use weight::{Kind, Leave, Left, Patience, Weight};
