//! Everything that a run found, before it is formatted.

use crate::count::Counts;
use crate::figure::{Figure, Unit};
use crate::subject::Subject;

/// A whole run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) backend: &'static str,
    pub(crate) twin: &'static str,
    pub(crate) remarks: Vec<String>,
    pub(crate) cores: usize,
    pub(crate) slices: usize,
    pub(crate) short: bool,
    pub(crate) sections: Vec<Section>,
}

/// One scenario.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) scenario: &'static str,
    pub(crate) about: String,
    /// What stands beside ours, in a few words.
    pub(crate) twin: &'static str,
    pub(crate) rows: Vec<Row>,
    /// Further remarks, one sentence each.
    pub(crate) notes: Vec<String>,
}

/// One case: both sides, and the cost for the store.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) case: String,
    pub(crate) unit: Unit,
    pub(crate) ours: Option<Figure>,
    pub(crate) bare: Option<Figure>,
    pub(crate) counts: Option<Counts>,
}

impl Report {
    pub(crate) fn new<S: Subject>(subject: &S, slices: usize, short: bool) -> Self {
        Self {
            backend: subject.name(),
            twin: subject.twin(),
            remarks: subject.remarks(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            slices,
            short,
            sections: Vec::new(),
        }
    }
}

impl Row {
    pub(crate) fn new(case: impl Into<String>, unit: Unit) -> Self {
        Self { case: case.into(), unit, ours: None, bare: None, counts: None }
    }

    pub(crate) fn ours(mut self, slices: impl IntoIterator<Item = f64>) -> Self {
        self.ours = Figure::of(slices);
        self
    }

    pub(crate) fn bare(mut self, slices: impl IntoIterator<Item = f64>) -> Self {
        self.bare = Figure::of(slices);
        self
    }

    pub(crate) fn counts(mut self, each: Counts) -> Self {
        self.counts = Some(each);
        self
    }

    /// The ratio of ours to the twin.
    pub(crate) fn ratio(&self) -> Option<Figure> {
        self.ours.as_ref()?.over(self.bare.as_ref()?)
    }
}
