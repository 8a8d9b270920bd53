//! The stores of this process that have a name, as URLs have it.
//!
//! A store that nobody has any more is forgotten when the next one is opened.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tidelock_core::backend::boot_clock;
use tidelock_core::{Error, ErrorKind, Result};

use crate::state::StoreState;

const SCHEME: &str = "memory://";

static STORES: Mutex<Option<HashMap<String, Weak<StoreState>>>> = Mutex::new(None);

/// The store at that URL.
pub(crate) fn open(url: &str) -> Result<Arc<StoreState>> {
    let name = url.strip_prefix(SCHEME).filter(|name| is_plain(name)).ok_or_else(|| {
        let wrong = "a URL of the memory backend is memory:// or memory://NAME; NAME has letters, digits, - and _ only";
        Error::new(ErrorKind::InvalidOption, wrong)
    })?;
    let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    let stores = stores.get_or_insert_default();
    stores.retain(|_, store| store.strong_count() > 0);
    if let Some(store) = stores.get(name).and_then(Weak::upgrade) {
        return Ok(store);
    }
    let store = StoreState::on(boot_clock());
    stores.insert(name.to_owned(), Arc::downgrade(&store));
    Ok(store)
}

fn is_plain(name: &str) -> bool {
    name.chars().all(|letter| letter.is_alphanumeric() || letter == '-' || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_is_one_store_while_anybody_has_it() {
        let name = |store: &Arc<StoreState>| store.name.clone();
        let first = open("memory://named-once").expect("a URL");
        assert_eq!(name(&first), name(&open("memory://named-once").expect("a URL")));
        assert_ne!(name(&first), name(&open("memory://named-twice").expect("a URL")));
        let before = name(&first);
        drop(first);
        assert_ne!(before, name(&open("memory://named-once").expect("a URL")), "the old one is gone");
    }

    #[test]
    fn another_url_is_refused() {
        for url in ["", "memory", "memory:/x", "memory://a/b", "memory://a?b", "redis://localhost"] {
            assert_eq!(open(url).unwrap_err().kind(), ErrorKind::InvalidOption, "{url}");
        }
    }
}
