//! Gives a lower token after a restart: its counter begins anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidelock_core::backend::Claim;
use tidelock_core::{ClaimId, Name, Token};

use super::retold::{Retold, Teller};
use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug, Default)]
struct TokensGoDown {
    newest: AtomicU64,
    forgotten: AtomicU64,
}

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::shared(Retold(Arc::new(TokensGoDown::default())))
}

impl Teller for TokensGoDown {
    fn joining(&self, _: &Claim) {}

    fn token(&self, _: ClaimId, token: Token) -> Token {
        self.newest.fetch_max(token.store_order(), Ordering::Relaxed);
        let order = token.store_order().saturating_sub(self.forgotten.load(Ordering::Relaxed));
        Token::from_order(order.max(1)).unwrap_or(token)
    }

    fn left(&self, _: &Name, _: ClaimId) {}

    fn over(&self) {
        self.forgotten.store(self.newest.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
