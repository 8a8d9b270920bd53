//! Where a subject is to be opened, as the command line says it.

use crate::Result;

/// A store's server, if it has one, and what keeps this run's data there apart from everything else.
#[derive(Clone, Debug)]
pub struct Place {
    pub(crate) url: Option<String>,
    pub(crate) namespace: String,
}

impl Place {
    /// The server's URL.
    ///
    /// # Errors
    /// A sentence that says to give one, like this.
    pub fn url(&self, like: &str) -> Result<&str> {
        self.url.as_deref().ok_or_else(|| format!("name a server, for instance `--url {like}`").into())
    }

    /// Makes sure that no server was named, where there is none.
    ///
    /// # Errors
    /// A sentence that says so.
    pub fn refuse_url(&self) -> Result<()> {
        match self.url {
            None => Ok(()),
            Some(_) => Err("this backend is the process's own memory: it has no URL".into()),
        }
    }

    /// What the names of this run begin with.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The flags by which another process of this program reaches the same place.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        let url = self.url.iter().flat_map(|url| ["--url".to_owned(), url.clone()]);
        url.chain(["--namespace".to_owned(), self.namespace.clone()]).collect()
    }
}
