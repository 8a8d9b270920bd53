//! Scatters numbers: enough of a hash, where nobody can choose numbers that collide.

use std::hash::Hasher;

/// The hasher of claims: core numbers them itself.
#[derive(Debug, Default)]
pub(super) struct Scatter(u64);

impl Hasher for Scatter {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = scatter(self.0 ^ number);
    }
}

/// Scatters consecutive numbers over the whole range (the finalizer of SplitMix64).
pub(super) fn scatter(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
