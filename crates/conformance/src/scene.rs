//! Small scenes, written down: what a few clients do on one name, and what the store keeps after that.
//!
//! ```text
//! mutex: one waits
//! > c1 joins
//! > c2 joins
//! whatever the store keeps, a line for each thing
//! ```
//!
//! Scenes are divided by empty lines; one that begins with `#` is a remark. `c1` is the client whose session is 1, and
//! its claim is number 1. The playground's view of each store is compared with such a file, and so is a real server, in
//! the tests of that store's crate.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidelock_core::backend::{Claim, Leave, Patience, Session};
use tidelock_core::{ClaimId, Kind, Name, SessionId, Weight};

/// One scene.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Its first line.
    pub title: String,
    /// What is kept in the end: [shapes](shape), a line each.
    pub kept: Vec<String>,
    kind: Kind,
    capacity: Weight,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    Join(u64, Weight),
    Leave(u64),
}

impl Scene {
    /// All scenes of a text.
    ///
    /// # Errors
    /// The line that cannot be read.
    pub fn all(text: &str) -> Result<Vec<Self>, String> {
        text.split("\n\n").filter(|scene| !scene.starts_with('#')).map(Self::read).collect()
    }

    fn read(text: &str) -> Result<Self, String> {
        let (title, rest) = text.split_once('\n').ok_or(text)?;
        let (kind, capacity) = match title.split(':').next() {
            Some("mutex") => (Kind::Mutex, Weight::ONE),
            Some("read-write lock") => (Kind::RwLock, Weight::MAX),
            Some("semaphore of three") => (Kind::Semaphore, Weight::new(3).unwrap_or(Weight::ONE)),
            _ => return Err(title.to_owned()),
        };
        let mut scene = Self { title: title.to_owned(), kept: Vec::new(), kind, capacity, steps: Vec::new() };
        for line in rest.lines() {
            match line.strip_prefix("> ") {
                Some(words) => scene.steps.push(Step::read(words).ok_or(line)?),
                None => scene.kept.push(shape(line)),
            }
        }
        Ok(scene)
    }

    /// Plays it on a name. `open` opens the session with this number; all that were opened are returned.
    ///
    /// # Errors
    /// The first error of the store.
    pub async fn play(
        &self,
        name: &Name,
        mut open: impl AsyncFnMut(SessionId) -> Arc<dyn Session>,
    ) -> tidelock_core::Result<Vec<Arc<dyn Session>>> {
        let mut sessions = BTreeMap::new();
        for step in &self.steps {
            let (Step::Join(who, _) | Step::Leave(who)) = step;
            let id = SessionId::from_bits(*who);
            if !sessions.contains_key(who) {
                sessions.insert(*who, open(id).await);
            }
            let (session, id) = (&sessions[who], ClaimId { session: id, number: 1 });
            match step {
                Step::Join(_, weight) => {
                    let claim = Claim::new(id, name.clone(), self.kind, *weight, self.capacity);
                    session.join(&claim, Patience::Wait).await?;
                }
                Step::Leave(_) => session.leave(name, id, Leave::Done).await.map(drop)?,
            }
        }
        Ok(sessions.into_values().collect())
    }
}

impl Step {
    fn read(words: &str) -> Option<Self> {
        let words: Vec<&str> = words.split(' ').collect();
        let who = words.first()?.strip_prefix('c')?.parse().ok()?;
        Some(match words[1..] {
            ["joins"] | ["joins", "to", "read"] => Self::Join(who, Weight::ONE),
            ["joins", "to", "write"] => Self::Join(who, Weight::MAX),
            ["joins", "for", permits] => Self::Join(who, Weight::new(permits.parse().ok()?)?),
            ["leaves"] => Self::Leave(who),
            _ => return None,
        })
    }
}

/// The line without what only the server chooses: `#` stands for a number after `token` or `revision`, and for one of
/// ten digits at the end.
#[must_use]
pub fn shape(line: &str) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    for at in 1..words.len() {
        if matches!(words[at - 1].as_str(), "token" | "revision") {
            let digits = words[at].trim_end_matches(',').len();
            words[at].replace_range(..digits, "#");
        }
    }
    let shaped = words.join(" ");
    match shaped.rsplit_once('-') {
        Some((beginning, number)) if number.len() == 10 && number.bytes().all(|c| c.is_ascii_digit()) => {
            format!("{beginning}-#")
        }
        _ => shaped,
    }
}

/// The client with this session, as scenes call it: `c1` for `0000000000000001`.
#[must_use]
pub fn client(session: &str) -> String {
    u64::from_str_radix(session, 16).map_or_else(|_| session.to_owned(), |number| format!("c{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_server_are_left_out() {
        assert_eq!(shape("  one  token 17, c1 holds"), "  one  token #, c1 holds");
        assert_eq!(shape("k  revision 2, lease of c1"), "k  revision #, lease of c1");
        assert_eq!(shape("  m-c1-1-1-1-0000000003"), "  m-c1-1-1-1-#");
        assert_eq!(shape("  weight 12 of 3, capacity 2147483647"), "  weight 12 of 3, capacity 2147483647");
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        assert_eq!(Scene::all("# a remark\n\nmutex: x\n> c1 jumps").unwrap_err(), "> c1 jumps");
        assert_eq!(Scene::all("latch: x\nkept").unwrap_err(), "latch: x");
    }
}
