//! A figure with its spread, and its form for people.

/// The median of some slices, with their minimum and maximum.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) slices: Vec<f64>,
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Per second: more is better.
    Rate,
    /// In seconds: less is better.
    Time,
    /// A ratio of two figures.
    Times,
    /// Of memory: less is better.
    Bytes,
}

impl Figure {
    /// `None` if there are no slices.
    pub(crate) fn of(slices: impl IntoIterator<Item = f64>) -> Option<Self> {
        let slices: Vec<f64> = slices.into_iter().collect();
        let mut sorted = slices.clone();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self { slices, least, median: f64::midpoint(low, high), most })
    }

    /// The ratio of this figure to another, slice by slice; `None` if the other one is zero in a slice.
    pub(crate) fn over(&self, other: &Self) -> Option<Self> {
        let ratios = Self::of(self.slices.iter().zip(&other.slices).map(|(this, that)| this / that))?;
        ratios.slices.iter().all(|ratio| ratio.is_finite()).then_some(ratios)
    }

    /// The median, and the range of the slices.
    pub(crate) fn text(&self, write: impl Fn(f64) -> String) -> (String, String) {
        (write(self.median), format!("{} … {}", write(self.least), write(self.most)))
    }
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rate => "a second",
            Self::Time => "seconds",
            Self::Times => "times",
            Self::Bytes => "bytes",
        }
    }

    /// Three digits and a suitable unit.
    pub(crate) fn text(self, figure: f64) -> String {
        let steps: &[(f64, &str)] = match self {
            Self::Rate => &[(1e6, " M/s"), (1e3, " k/s"), (1.0, " /s")],
            Self::Time => &[(1.0, " s"), (1e-3, " ms"), (1e-6, " µs"), (1e-9, " ns")],
            Self::Times => &[(1.0, " ×")],
            Self::Bytes => &[(1.0, " B")],
        };
        // 999.9 would be printed as 1000.
        let fits = steps.iter().find(|(step, _)| figure >= step * 0.9995);
        let (step, unit) = fits.or(steps.last()).copied().unwrap_or((1.0, ""));
        format!("{}{unit}", digits(figure / step))
    }
}

/// Up to three digits.
pub(crate) fn digits(figure: f64) -> String {
    match figure {
        99.95.. => format!("{figure:.0}"),
        9.995.. => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let figure = Figure::of([5.0, 1.0, 3.0]).unwrap();
        assert_eq!((figure.least, figure.median, figure.most), (1.0, 3.0, 5.0));
        assert_eq!(Figure::of([1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Figure::of([]), None);
    }

    #[test]
    fn a_ratio_is_taken_slice_by_slice() {
        let (ours, bare) = (Figure::of([10.0, 40.0]).unwrap(), Figure::of([20.0, 80.0]).unwrap());
        assert_eq!(ours.over(&bare).unwrap().slices, [0.5, 0.5]);
        assert_eq!(ours.over(&Figure::of([20.0, 0.0]).unwrap()), None);
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(Unit::Rate.text(1_234_567.0), "1.23 M/s");
        assert_eq!(Unit::Rate.text(999_999.0), "1.00 M/s");
        assert_eq!(Unit::Rate.text(87.65), "87.7 /s");
        assert_eq!(Unit::Time.text(0.000_000_123_4), "123 ns");
        assert_eq!(Unit::Time.text(12.34), "12.3 s");
    }
}
