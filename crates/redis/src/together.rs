//! One script for what a crowd asks of many names.
//!
//! Each script has a cost of its own, which is about half of what a join or a leave takes. So where several of them wait
//! to be sent, each about another name, one script does all of them. What befalls one name does not concern the others:
//! a name whose part has failed is asked again, alone, and so is each name of a script that was refused for the sake of
//! some of its names.

use std::collections::{BTreeMap, HashMap};

use redis::{Cmd, RedisError, RedisResult, Value};
use tokio::sync::oneshot;

use crate::keys::PARTS;
use crate::link::WhenDropped;
use crate::script::{self, Script};

/// A script for fewer names costs as much as one script for each.
const FEW: usize = 6;
/// The most names of one script. Until it ends, the server serves nobody else.
const MOST: usize = 32;

/// Where the first key of a script's call stands, and the first word behind the keys.
const FIRST_KEY: usize = 3;
const WORDS: usize = FIRST_KEY + PARTS.len();

/// A command that waits to be sent.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) command: Cmd,
    pub(crate) when_dropped: WhenDropped,
    pub(crate) reply: oneshot::Sender<RedisResult<Value>>,
}

/// What is sent as one command.
#[derive(Debug)]
pub(crate) enum Call {
    Alone(Request),
    Together(Together),
}

/// Requests about different names that one script does.
#[derive(Debug)]
pub(crate) struct Together {
    script: &'static Script,
    /// How many words each of them has behind its keys.
    words: usize,
    requests: Vec<Request>,
    /// Whether the server has forgotten the script.
    is_forgotten: bool,
}

impl Request {
    /// Whether it still has to be sent.
    fn is_wanted(&self) -> bool {
        self.when_dropped == WhenDropped::Send || !self.reply.is_closed()
    }
}

/// Those of these that are still wanted, as few commands. Two requests about one name keep their order.
pub(crate) fn calls(mut requests: Vec<Request>) -> Vec<Call> {
    requests.retain(Request::is_wanted);
    if requests.len() < FEW {
        return alone(requests);
    }
    let mut names: HashMap<&[u8], usize> = HashMap::new();
    for request in &requests {
        *names.entry(first_key(&request.command)).or_default() += 1;
    }
    let script_of = |request: &Request| {
        let is_only = names[first_key(&request.command)] == 1;
        script_of_many(&request.command).filter(|_| is_only)
    };
    let scripts: Vec<_> = requests.iter().map(script_of).collect();
    let (mut rest, mut groups) = (Vec::new(), BTreeMap::new());
    for (request, script) in requests.into_iter().zip(scripts) {
        match script {
            Some((script, words)) => {
                let group = groups.entry((script.hash(), words)).or_insert_with(|| (script, Vec::new()));
                group.1.push(request);
            }
            None => rest.push(request),
        }
    }
    let mut calls = alone(rest);
    for ((_, words), (script, requests)) in groups {
        calls.extend(in_scripts(script, words, requests));
    }
    calls
}

/// Each of these that is still wanted, as a command of its own.
pub(crate) fn alone(requests: Vec<Request>) -> Vec<Call> {
    requests.into_iter().filter(Request::is_wanted).map(Call::Alone).collect()
}

/// As few scripts as may be, of about the same size.
fn in_scripts(script: &'static Script, words: usize, mut requests: Vec<Request>) -> Vec<Call> {
    if requests.len() < FEW {
        return alone(requests);
    }
    let count = requests.len().div_ceil(MOST);
    let size = requests.len().div_ceil(count);
    let mut calls = Vec::with_capacity(count);
    while !requests.is_empty() {
        let later = requests.split_off(size.min(requests.len()));
        calls.push(Call::Together(Together { script, words, requests, is_forgotten: false }));
        requests = later;
    }
    calls
}

impl Call {
    /// What is sent for it.
    pub(crate) fn command(&mut self) -> Cmd {
        match self {
            Self::Alone(request) => std::mem::take(&mut request.command),
            Self::Together(together) => together.command(),
        }
    }

    /// Gives everyone the reply. Returns what has to be sent now instead.
    pub(crate) fn answer(self, reply: Value) -> Vec<Self> {
        match self {
            Self::Alone(request) => {
                let _ = request.reply.send(Ok(reply)); // unless nobody waits any more
                Vec::new()
            }
            Self::Together(together) => together.answer(reply),
        }
    }

    pub(crate) fn fail(self, error: &RedisError) {
        let requests = match self {
            Self::Alone(request) => vec![request],
            Self::Together(together) => together.requests,
        };
        for request in requests {
            let _ = request.reply.send(Err(error.clone())); // unless nobody waits any more
        }
    }
}

impl Together {
    fn command(&self) -> Cmd {
        let mut command = self.script.on_many(self.requests.len(), self.is_forgotten);
        for words in [FIRST_KEY..FIRST_KEY + PARTS.len(), WORDS..WORDS + self.words] {
            for request in &self.requests {
                for word in script::words(&request.command).skip(words.start).take(words.len()) {
                    command.arg(word);
                }
            }
        }
        command
    }

    fn answer(mut self, reply: Value) -> Vec<Call> {
        match reply {
            Value::Array(replies) if replies.len() == self.requests.len() => self.share(replies),
            reply if script::is_unknown(&reply) && !self.is_forgotten => {
                self.is_forgotten = true;
                vec![Call::Together(self)]
            }
            reply if is_for_some_names(&reply) => alone(self.requests),
            reply => {
                for request in self.requests {
                    let _ = request.reply.send(Ok(reply.clone())); // unless nobody waits any more
                }
                Vec::new()
            }
        }
    }

    /// Gives each its own reply. Returns those without one.
    fn share(self, replies: Vec<Value>) -> Vec<Call> {
        let mut again = Vec::new();
        for (request, reply) in self.requests.into_iter().zip(replies) {
            match reply {
                Value::Nil => again.push(request),
                reply => drop(request.reply.send(Ok(reply))), // unless nobody waits any more
            }
        }
        alone(again)
    }
}

/// Whether a script was refused for the sake of some of its names: a user may not touch them, or they are elsewhere.
fn is_for_some_names(reply: &Value) -> bool {
    let codes = ["NOPERM", "CROSSSLOT", "MOVED", "ASK", "TRYAGAIN"];
    matches!(reply, Value::ServerError(error) if codes.contains(&error.code()))
}

/// The script that does on many names what this one does, and how many words it takes for each.
fn script_of_many(command: &Cmd) -> Option<(&'static Script, usize)> {
    let script = script::of_many(script::words(command).nth(1)?)?;
    let words = script::words(command).skip(WORDS).count();
    (words > 0).then_some((script, words))
}

/// The first key, or nothing if no name is meant.
fn first_key(command: &Cmd) -> &[u8] {
    script::words(command).nth(FIRST_KEY).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Keys;
    use crate::script::{JOIN, LEAVE, LOOK};

    type Reply = oneshot::Receiver<RedisResult<Value>>;

    fn request(script: &Script, name: &str, words: &[&str]) -> (Request, Reply) {
        let mut command = script.on(&tidelock_core::Name::new(name).unwrap(), &Keys::of("t"));
        for word in words {
            command.arg(*word);
        }
        let (sender, reply) = oneshot::channel();
        (Request { command, when_dropped: WhenDropped::Forget, reply: sender }, reply)
    }

    fn joins(names: impl IntoIterator<Item = String>) -> (Vec<Request>, Vec<Reply>) {
        names.into_iter().map(|name| request(&JOIN, &name, &[&format!("tail of {name}")])).unzip()
    }

    /// The words of each command, behind the first.
    fn sent(calls: &mut [Call]) -> Vec<Vec<String>> {
        let words = |call: &mut Call| {
            let command = call.command();
            let words = script::words(&command).skip(1);
            words.map(|word| String::from_utf8(word.to_vec()).unwrap()).collect()
        };
        calls.iter_mut().map(words).collect()
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn a_script_has_every_name_with_its_own_words() {
        let (requests, _replies) = joins((0..6).map(|name| name.to_string()));
        let sent = sent(&mut calls(requests));
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0][1], "18");
        assert_eq!(sent[0][2..5], ["t:{0}:held", "t:{0}:line", "t:{0}:wait"]);
        assert_eq!(sent[0][20..], ["0", "1", "2", "3", "4", "5"].map(|name| format!("tail of {name}")));
    }

    #[test]
    fn requests_about_one_name_and_few_of_a_kind_go_alone_and_in_order() {
        let (mut requests, mut replies) = joins((0..8).map(|name| name.to_string()));
        let others = [
            request(&LEAVE, "3", &["3-1 "]),
            request(&JOIN, "read", &["tail", "wait"]),
            request(&LEAVE, "void", &["3-1 ", "void", "3", "15000"]),
            request(&LOOK, "look", &["3", "15000", "0"]),
        ];
        for (request, reply) in others {
            requests.push(request);
            replies.push(reply);
        }
        let sent = sent(&mut calls(requests));
        let mut names: Vec<_> = sent.iter().map(|words| words[2].as_str()).collect();
        names[3..].sort_unstable();
        let all = ["3", "3", "look", "0", "read", "void"].map(|name| format!("t:{{{name}}}:held"));
        assert_eq!(names, all.each_ref().map(String::as_str));
        assert_eq!([&sent[0], &sent[1]].map(|words| words[5].as_str()), ["tail of 3", "3-1 "]);
        assert_eq!(sent.iter().filter(|words| words[1] == "21").count(), 1, "the other seven joins");
    }

    #[test]
    fn a_crowd_is_as_few_scripts_of_one_size() {
        let (requests, _replies) = joins((0..70).map(|name| name.to_string()));
        let sizes: Vec<_> = sent(&mut calls(requests)).iter().map(|words| words[1].clone()).collect();
        assert_eq!(sizes, ["72", "72", "66"]);
        let (few, _replies) = joins((0..5).map(|name| name.to_string()));
        assert_eq!(calls(few).len(), 5);
    }

    #[test]
    fn each_hears_its_own_reply_and_who_has_none_is_asked_alone() {
        let (requests, mut replies) = joins((0..6).map(|name| name.to_string()));
        let call = calls(requests).pop().unwrap();
        let mut values: Vec<_> = (0..6).map(|name| text(&name.to_string())).collect();
        values[4] = Value::Nil;
        let mut again = call.answer(Value::Array(values));
        assert_eq!(sent(&mut again)[0].last().unwrap(), "tail of 4");
        assert!(again.pop().unwrap().answer(text("4")).is_empty() && again.is_empty());
        for (name, reply) in replies.iter_mut().enumerate() {
            assert_eq!(reply.try_recv().unwrap().unwrap(), text(&name.to_string()));
        }
    }

    #[test]
    fn a_refusal_of_the_whole_script_is_for_all_unless_it_was_forgotten_or_some_names_are_to_blame() {
        let error = |code: &str| {
            let reply = redis::parse_redis_value(format!("-{code} why\r\n").as_bytes());
            reply.unwrap_or_else(|error| panic!("{error}"))
        };
        let (requests, _replies) = joins((0..6).map(|name| name.to_string()));
        let mut by_text = calls(requests).pop().unwrap().answer(error("NOSCRIPT"));
        assert_eq!(
            (by_text.len(), sent(&mut by_text)[0][0].starts_with("local function own_script")),
            (1, true)
        );
        assert_eq!(by_text.pop().unwrap().answer(error("NOPERM")).len(), 6);
        let (requests, mut replies) = joins((0..6).map(|name| name.to_string()));
        assert!(calls(requests).pop().unwrap().answer(error("LOADING")).is_empty());
        assert!(replies.iter_mut().all(|reply| reply.try_recv().unwrap() == Ok(error("LOADING"))));
    }
}
