//! What is wrong at the moment.

use std::collections::BTreeMap;

use tidelock_core::backend::Moment;

use crate::plan::Fault;

/// What is wrong at the moment.
#[derive(Default)]
pub(crate) struct Sky {
    pub(crate) faults: BTreeMap<usize, Fault>,
    /// Until when what is stopped now will be.
    pub(crate) ends: BTreeMap<usize, Moment>,
}

impl Sky {
    pub(crate) fn until_end_of(&self, is_meant: impl Fn(&Fault) -> bool) -> Option<Moment> {
        let meant = self.faults.iter().filter(|(_, fault)| is_meant(fault));
        meant.filter_map(|(number, _)| self.ends.get(number).copied()).max()
    }
}
