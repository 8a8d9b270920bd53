//! Replaces words of a server by others before its client receives them. Servers that serve together tell clients each
//! other's addresses; a client that must stay behind its own proxies has to receive theirs.
//!
//! A phrase is found even where the network has cut it in two: bytes that may begin a phrase wait for the rest.

/// Phrases, each with its replacement.
#[derive(Clone, Debug, Default)]
pub struct Retelling(Vec<(Vec<u8>, Vec<u8>)>);

impl Retelling {
    /// These phrases. None may be empty, or the beginning of another.
    pub fn new(phrases: impl IntoIterator<Item = (String, String)>) -> Self {
        let bytes = |(from, to): (String, String)| (from.into_bytes(), to.into_bytes());
        Self(phrases.into_iter().map(bytes).filter(|(from, _)| !from.is_empty()).collect())
    }

    /// The text to pass on for `heard`. Only bytes that may begin a phrase stay in `heard`.
    pub(crate) fn tell(&self, heard: &mut Vec<u8>) -> Vec<u8> {
        let (mut said, mut at) = (Vec::with_capacity(heard.len()), 0);
        while let Some(first) = heard.get(at) {
            let rest = &heard[at..];
            if let Some((from, to)) = self.0.iter().find(|(from, _)| rest.starts_with(from)) {
                said.extend_from_slice(to);
                at += from.len();
            } else if self.0.iter().any(|(from, _)| from.starts_with(rest)) {
                break;
            } else {
                said.push(*first);
                at += 1;
            }
        }
        heard.drain(..at);
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retelling() -> Retelling {
        let phrases = [("here:1\n", "there:77\n"), ("here:2\n", "there:78\n")];
        Retelling::new(phrases.map(|(from, to)| (from.to_owned(), to.to_owned())))
    }

    #[test]
    fn phrases_are_found_wherever_they_are_cut() {
        let text = b"go here:1\nhere:2\nor here:3\nhehere:2\n".as_slice();
        for cut in 0..=text.len() {
            let (mut heard, mut said) = (Vec::new(), Vec::new());
            for piece in [&text[..cut], &text[cut..]] {
                heard.extend_from_slice(piece);
                said.extend(retelling().tell(&mut heard));
            }
            assert_eq!(String::from_utf8(said).unwrap(), "go there:77\nthere:78\nor here:3\nhethere:78\n");
            assert!(heard.is_empty());
        }
    }

    #[test]
    fn what_begins_no_phrase_does_not_wait() {
        let mut heard = b"all is well here\n".to_vec();
        assert_eq!(retelling().tell(&mut heard), b"all is well here\n");
        assert!(heard.is_empty());
    }
}
