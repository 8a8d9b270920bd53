//! Sums of the weights before a position, in O(log n): a Fenwick tree.

/// Weights at positions.
#[derive(Debug)]
pub(crate) struct Sums(Vec<i64>);

impl Sums {
    pub(crate) fn new(positions: usize) -> Self {
        Self(vec![0; positions + 1])
    }

    /// Changes the weight at a position.
    pub(crate) fn add(&mut self, position: usize, weight: i64) {
        let mut at = position + 1;
        while at < self.0.len() {
            self.0[at] += weight;
            at += at & at.wrapping_neg();
        }
    }

    /// The sum of the weights before this position.
    pub(crate) fn before(&self, position: usize) -> i64 {
        let (mut at, mut sum) = (position, 0);
        while at > 0 {
            sum += self.0[at];
            at &= at - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_of_what_lies_before() {
        let mut sums = Sums::new(9);
        sums.add(0, 5);
        sums.add(4, 7);
        sums.add(8, 1);
        sums.add(4, -3);
        let all: Vec<i64> = (0..=9).map(|position| sums.before(position)).collect();
        assert_eq!(all, [0, 5, 5, 5, 5, 9, 9, 9, 9, 10]);
    }
}
