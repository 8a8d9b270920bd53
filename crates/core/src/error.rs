//! The one error type: which kind of trouble, in which operation, on which name, and whether a retry can help.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use tidelock_model::{Refusal, Weight};

use crate::name::Name;

/// The result of every fallible call of Tidelock.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error, with a message that helps. Contention is never an error.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
/// use tidelock::ErrorKind;
/// let locks = tidelock::connect("memory://").await?;
/// let error = locks.mutex("").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidName);
/// assert!(!error.can_retry());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Error(Box<Trouble>);

#[derive(Clone, Debug)]
struct Trouble {
    kind: ErrorKind,
    retry: bool,
    perhaps_done: bool,
    operation: Option<&'static str>,
    name: Option<Name>,
    /// The size of the semaphore, if the request was for more.
    size: Option<Weight>,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of error that a caller may want to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store cannot be reached, or refuses to serve at the moment.
    Unavailable,
    /// The store did not answer in time. The request may or may not have been carried out; core cleans up after it.
    Timeout,
    /// The claim, or the session it belonged to, is over.
    Lost,
    /// This `Locks` was closed, or is being drained.
    Closed,
    /// The name is empty, too long, or contains a control character.
    InvalidName,
    /// The request is for no permits, or for more than the line can ever give.
    InvalidPermits,
    /// An option is out of range.
    InvalidOption,
    /// The name is in use as another kind of lock.
    KindMismatch,
    /// Somebody else changed it in the meantime.
    Conflict,
    /// This store, or this version of it, cannot do that.
    Unsupported,
    /// The store refused because a permission or a password is missing.
    Denied,
    /// The other side does not speak the expected protocol: another kind of server, another version, or a foreign key
    /// under our name.
    Protocol,
}

impl ErrorKind {
    /// The error kind of a refusal by the rule. `None` for refusals that are answers: busy, void, and no line.
    #[must_use]
    pub const fn of_refusal(why: Refusal) -> Option<Self> {
        match why {
            Refusal::SessionOver => Some(Self::Lost),
            Refusal::Kind(_) => Some(Self::KindMismatch),
            Refusal::Capacity(_) => Some(Self::Conflict),
            Refusal::TooHeavy(_) | Refusal::Strands(_) | Refusal::Heavier(_) => Some(Self::InvalidPermits),
            _ => None,
        }
    }
}

impl Error {
    /// An error of `kind`. The message completes the sentence "cannot lock "stock:42": …" and says what to do.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let retry = matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Conflict);
        Self(Box::new(Trouble {
            kind,
            retry,
            perhaps_done: false,
            operation: None,
            name: None,
            size: None,
            message: message.into(),
            source: None,
        }))
    }

    /// Adds the operation, as a verb: "lock", "resize". The first call wins.
    #[must_use]
    pub fn during(mut self, operation: &'static str) -> Self {
        self.0.operation.get_or_insert(operation);
        self
    }

    /// Adds the name of the lock. The first call wins.
    #[must_use]
    pub fn on(mut self, name: &Name) -> Self {
        self.0.name.get_or_insert_with(|| name.clone());
        self
    }

    /// Adds the error of the store's client library. It must not contain a password.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// For backends: the store may have carried out the request although it reported an error. Core then takes it
    /// back.
    #[must_use]
    pub fn perhaps_done(mut self) -> Self {
        self.0.perhaps_done = true;
        self
    }

    /// Marks this error as worth a retry although others of its kind are not.
    pub(crate) fn can_succeed_later(mut self) -> Self {
        self.0.retry = true;
        self
    }

    /// Notes the size of the semaphore that the request was too large for.
    pub(crate) fn for_size(mut self, size: Weight) -> Self {
        self.0.size = Some(size);
        self
    }

    /// The size of the semaphore, if the request was for more permits than that.
    pub(crate) fn size(&self) -> Option<Weight> {
        self.0.size
    }

    pub(crate) fn is_perhaps_done(&self) -> bool {
        self.0.perhaps_done
    }

    /// The kind of error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same call can succeed later without any change by the caller.
    #[must_use]
    pub fn can_retry(&self) -> bool {
        self.0.retry
    }

    /// The operation that failed.
    #[must_use]
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// The name of the lock that it failed on.
    #[must_use]
    pub fn name(&self) -> Option<&Name> {
        self.0.name.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trouble = &*self.0;
        match (trouble.operation, &trouble.name) {
            (Some(operation), Some(name)) => write!(f, "cannot {operation} {name:?}: ")?,
            (Some(operation), None) => write!(f, "cannot {operation}: ")?,
            (None, Some(name)) => write!(f, "{name:?}: ")?,
            (None, None) => {}
        }
        f.write_str(&trouble.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({self})", self.0.kind)?;
        match &self.0.source {
            Some(source) => write!(f, ", because: {source}"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
