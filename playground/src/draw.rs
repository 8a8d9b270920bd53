//! Random choices without a state of their own: the n-th draw of a client is a function of the seed, so two policies
//! run "in the same seed" give each client the same delays in the same order.

/// The source of one client's choices.
#[derive(Clone, Copy, Debug)]
pub struct Draws {
    seed: u64,
    count: u64,
}

impl Draws {
    /// The choices of player number `who`.
    #[must_use]
    pub const fn new(seed: u32, who: u64) -> Self {
        Self { seed: scatter(((seed as u64) << 20) ^ who), count: 0 }
    }

    /// A number from `from` to `to`, both included.
    pub const fn between(&mut self, from: u32, to: u32) -> u32 {
        self.count += 1;
        let drawn = scatter(self.seed ^ self.count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if to <= from { from } else { from + (drawn % ((to - from) as u64 + 1)) as u32 }
    }

    /// A delay around `mean`: from a half of it to one and a half.
    pub const fn around(&mut self, mean: u32) -> u32 {
        self.between(mean.div_ceil(2), mean + mean / 2)
    }

    /// True in this many of a hundred cases.
    pub const fn percent(&mut self, percent: u32) -> bool {
        percent > 0 && self.between(0, 99) < percent
    }
}

const fn scatter(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
