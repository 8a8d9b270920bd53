//! Point 11. Bad input gets a clear, typed error at once, and changes nothing.

use std::time::Duration;

use tidelock_core::{Error, ErrorKind, Name, Options, Weight};

use crate::failure::{Outcome, ensure};
use crate::trial::trials;
use crate::{Act, Client, Stage, Want, Wrong};

trials! {
    bad_names_are_refused_and_change_nothing: points [11], lessons [27], needs [];
    strange_names_are_names_and_no_two_are_one: points [11, 1], lessons [27, 19], needs [];
    names_that_differ_by_a_slash_are_two: points [11, 1], lessons [27], needs [];
    namespaces_do_not_meet: points [11, 1], lessons [22], needs [];
    bad_permits_are_refused_and_change_nothing: points [11], lessons [], needs [];
    a_name_is_one_kind_while_it_is_in_use: points [11], lessons [], needs [];
    silly_ttls_are_refused_by_name: points [11], lessons [], needs [];
    a_server_that_refuses_is_told_within_the_deadline: points [11], lessons [], needs [Refuse];
    a_server_that_is_silent_is_told_within_the_deadline: points [11], lessons [], needs [HoldBack];
    a_wrong_password_is_told_and_never_shown: points [11], lessons [25], needs [WrongPassword];
    a_missing_permission_is_told_at_once: points [11], lessons [], needs [NoPermission];
    a_wrong_address_is_told_within_the_deadline: points [11], lessons [], needs [WrongAddress];
    something_else_at_the_address_is_told: points [11], lessons [], needs [WrongAddress];
    somebody_who_never_answers_is_told_within_the_deadline: points [11], lessons [], needs [WrongAddress];
}

/// Checks that no name is in use.
async fn nothing_changed(stage: &Stage) -> Outcome {
    let names = stage.watcher().locks().names("", None).await?;
    ensure!(names.is_empty(), "a refused call has left {names:?}");
    Ok(())
}

async fn bad_names_are_refused_and_change_nothing(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    let huge = "x".repeat(Name::MAX_BYTES + 1);
    for name in ["", "\0", "a\0b", "two\nlines", "\r", "\u{7f}", "\u{85}", "\t", &huge, &"é".repeat(300)] {
        let kinds = [
            a.locks().mutex(name).map(drop),
            a.locks().rwlock(name).map(drop),
            a.locks().semaphore(name, 1).map(drop),
            a.locks().inspect(name).await.map(drop),
            a.locks().lock_all(&["good", name]).await.map(drop),
        ];
        for asked in kinds {
            let kind = asked.map_err(|error| error.kind());
            ensure!(kind == Err(ErrorKind::InvalidName), "the name {name:?} was reported as {kind:?}");
        }
    }
    stage.until_empty("good").await?;
    nothing_changed(stage).await
}

/// Names with a meaning for a store, a shell or a query, all different.
fn strange_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "a",
        "A",
        "a ",
        " a",
        "a/",
        "/a",
        "a//b",
        "a/b",
        "a.b",
        ".",
        "..",
        "../a",
        "a:b",
        "{a}",
        "}{",
        "a{b}c",
        "*",
        "a*",
        "?",
        "[a]",
        "%",
        "a%",
        "_",
        "a_",
        "'",
        "''",
        "\"",
        "`",
        "\\",
        "\\0",
        "\\n",
        "$1",
        ":name",
        "' OR 1=1 --",
        "'; DROP TABLE locks; --",
        "]] redis.call('FLUSHALL') --",
        "#",
        "&",
        "|",
        ";",
        "<a>",
        "é",
        "e\u{301}",
        "É",
        "🚂",
        "ß",
        "ss",
        "ﬁ",
        "fi",
        "ｆｉ",
        "İ",
        "i",
        "ı",
        "\u{200b}",
        "\u{202e}a",
        "null",
        "0",
        "00",
        "-1",
        "a\u{a0}",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("x".repeat(Name::MAX_BYTES));
    names.push("x".repeat(Name::MAX_BYTES - 1));
    names
}

async fn strange_names_are_names_and_no_two_are_one(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let names = strange_names();
    let mut holds = Vec::new();
    for name in &names {
        let hold = a.try_take(name, Want::Lock).await?;
        ensure!(hold.is_some(), "{name:?} is free, but was refused: was it confused with another name?");
        holds.extend(hold);
    }
    for name in &names {
        ensure!(b.try_take(name, Want::Lock).await?.is_none(), "{name:?} was granted twice");
        ensure!(b.line(name).await?.holders().count() == 1, "the line of {name:?} does not show its holder");
    }
    for prefix in ["", "a", "a/", "*", "there is none"] {
        let listed = listed(&b, prefix).await?;
        let meant: Vec<_> = names.iter().filter(|name| name.starts_with(prefix)).collect();
        for name in &meant {
            let is_listed = listed.iter().any(|listed| listed.as_str() == name.as_str());
            ensure!(is_listed, "{name:?} is in use, but is not listed under {prefix:?}");
        }
        let (meant, listed) = (meant.len(), listed.len());
        ensure!(listed == meant, "{meant} names in use begin with {prefix:?}, but {listed} are listed");
    }
    Ok(())
}

/// All pages of the names in use that begin with `prefix`.
async fn listed(client: &Client, prefix: &str) -> tidelock_core::Result<Vec<Name>> {
    let mut listed: Vec<Name> = Vec::new();
    loop {
        let page = client.locks().names(prefix, listed.last()).await?;
        if page.is_empty() {
            return Ok(listed);
        }
        listed.extend(page);
    }
}

async fn names_that_differ_by_a_slash_are_two(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    for [one, other] in [["a", "a/"], ["a/b", "ab"], ["b/c", "b//c"], ["/d", "d"], ["e/f", "e:f"]] {
        let first = a.take(one, Want::Lock).await?;
        let second = b.try_take(other, Want::Lock).await?;
        ensure!(second.is_some(), "{other:?} was refused while only {one:?} is held");
        ensure!(b.try_take(one, Want::Lock).await?.is_none(), "{one:?} was granted twice");
        first.release().await?;
        ensure!(a.try_take(other, Want::Lock).await?.is_none(), "the release of {one:?} has freed {other:?}");
    }
    Ok(())
}

async fn namespaces_do_not_meet(stage: &Stage) -> Outcome {
    let one = stage.client_with(0, stage.options().namespace("one")).await?;
    let other = stage.client_with(1, stage.options().namespace("other")).await?;
    // These locks are not recorded under their names, because one name is one lock in a history.
    let held = one.locks().mutex("shared")?.lock().await?;
    let free = other.locks().mutex("shared")?.try_lock().await?;
    ensure!(free.is_some(), "a name that is held in one namespace was refused in another");
    ensure!(other.line("shared").await?.claims.len() == 1, "a line shows claims of another namespace");
    held.release().await?;
    ensure!(
        other.locks().mutex("shared")?.try_lock().await?.is_none(),
        "a release has freed another namespace's name"
    );
    ensure!(one.locks().names("", None).await?.is_empty(), "names of another namespace are listed");
    Ok(())
}

/// The same mistake has the same message on every backend: the message is core's.
fn reads_as(told: tidelock_core::Result<()>, sentence: &Error) -> Outcome {
    let told = told.map_or_else(|error| error.to_string(), |()| "nothing".to_owned());
    ensure!(told.ends_with(&sentence.to_string()), "the error is {told}, not {sentence}");
    Ok(())
}

async fn bad_permits_are_refused_and_change_nothing(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    for size in [0, 1 << 31, u32::MAX] {
        let kind = a.locks().semaphore("pool", size).map(drop).map_err(|error| error.kind());
        ensure!(kind == Err(ErrorKind::InvalidPermits), "a size of {size} was reported as {kind:?}");
    }
    let pool = a.locks().semaphore("pool", 3)?;
    for permits in [0, 4, u32::MAX] {
        let kind = pool.acquire(permits).await.map(drop).map_err(|error| error.kind());
        ensure!(kind == Err(ErrorKind::InvalidPermits), "{permits} of 3 permits were reported as {kind:?}");
        let kind = pool.try_acquire(permits).await.map(drop).map_err(|error| error.kind());
        ensure!(kind == Err(ErrorKind::InvalidPermits), "{permits} of 3 permits were reported as {kind:?}");
    }
    let all = Weight::new(3).unwrap_or(Weight::ONE);
    reads_as(pool.acquire(4).await.map(drop), &Error::too_heavy(all))?;
    reads_as(pool.try_acquire(4).await.map(drop), &Error::too_heavy(all))?;
    let kind = pool.resize(0).await.map_err(|error| error.kind());
    ensure!(kind == Err(ErrorKind::InvalidPermits), "a resize to zero was reported as {kind:?}");
    nothing_changed(stage).await
}

async fn a_name_is_one_kind_while_it_is_in_use(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let wants = [Want::Lock, Want::Read, Want::Permits(1, 3)];
    for used in wants {
        let hold = a.take("name", used).await?;
        for other in wants.into_iter().filter(|other| other.kind() != used.kind()) {
            for client in [&a, &b] {
                let kind = client.try_take("name", other).await.map(|hold| hold.is_some());
                let kind = kind.map_err(|error| error.kind());
                ensure!(
                    kind == Err(ErrorKind::KindMismatch),
                    "{other} of a name in use as {used} was reported as {kind:?}"
                );
                let told = client.take("name", other).await.map(drop);
                let kind = told.as_ref().map_err(Error::kind);
                ensure!(
                    kind == Err(ErrorKind::KindMismatch),
                    "{other} of a name in use as {used} was reported as {kind:?}"
                );
                reads_as(told, &Error::other_kind(used.kind()))?;
            }
        }
        ensure!(stage.watcher().line("name").await?.claims.len() == 1, "a refused claim stands in line");
        hold.release().await?;
    }
    Ok(())
}

async fn silly_ttls_are_refused_by_name(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    for ttl in [Duration::ZERO, Duration::from_millis(999), Duration::from_secs(86_401), Duration::MAX] {
        let refused = a.locks().with_ttl(ttl).map(drop);
        let named =
            refused.is_err_and(|e| e.kind() == ErrorKind::InvalidOption && e.to_string().contains("ttl"));
        ensure!(named, "a ttl of {ttl:?} was not refused with an error that names it");
        let refused = stage.server().connect(Options::new().ttl(ttl)).await.map(drop);
        ensure!(
            refused.is_err_and(|e| e.kind() == ErrorKind::InvalidOption),
            "a client connected with a ttl of {ttl:?}"
        );
    }
    nothing_changed(stage).await
}

/// Asks in vain, and checks how long that took and which error came of it.
async fn ask_in_vain(stage: &Stage, act: Act) -> Outcome {
    let deadline = stage.ttl() / 5;
    let options = stage.options().command_deadline(deadline).connect_deadline(stage.ttl());
    let a = stage.client_with(0, options).await?;
    a.take("warm", Want::Lock).await?.release().await?;
    stage.act(act).await?;
    for want in Want::ALONE {
        let asked = stage.now();
        let kind = stage.drive(a.take("unreachable", want)).await.map(drop);
        let took = stage.now().since(asked);
        let bound = deadline * 2 + stage.ttl() / 10;
        let can_retry = kind.as_ref().is_err_and(tidelock_core::Error::can_retry);
        ensure!(can_retry, "a server that does not serve was reported as {kind:?}");
        ensure!(
            took <= bound || stage.is_in_time(asked, bound),
            "the error took {took:?}, with a deadline of {deadline:?}"
        );
    }
    stage.act(Act::Heal).await?;
    stage.until_empty("unreachable").await?;
    nothing_changed(stage).await
}

async fn a_server_that_refuses_is_told_within_the_deadline(stage: &Stage) -> Outcome {
    ask_in_vain(stage, Act::Refuse(crate::stage::client(0))).await
}

async fn a_server_that_is_silent_is_told_within_the_deadline(stage: &Stage) -> Outcome {
    ask_in_vain(stage, Act::HoldReplies(crate::stage::client(0))).await
}

async fn a_wrong_password_is_told_and_never_shown(stage: &Stage) -> Outcome {
    let refused = stage.server().connect_wrongly(Wrong::Password, stage.options()).await;
    let Err(error) = refused else {
        return Err(crate::Failure::new("a client connected with a wrong password"));
    };
    ensure!(error.kind() == ErrorKind::Denied, "a wrong password was reported as {:?}", error.kind());
    let shown = format!("{error} {error:?}");
    ensure!(!shown.contains("wrong-password"), "an error shows the password: {shown}");
    nothing_changed(stage).await
}

async fn a_missing_permission_is_told_at_once(stage: &Stage) -> Outcome {
    let kind = connect_in_vain(stage, Wrong::Permission).await?;
    ensure!(kind == ErrorKind::Denied, "a missing permission was reported as {kind:?}");
    nothing_changed(stage).await
}

/// The error of a connection with this mistake, which must come within the deadline.
async fn connect_in_vain(stage: &Stage, wrong: Wrong) -> Outcome<ErrorKind> {
    let deadline = stage.ttl() / 2;
    let options = stage.options().connect_deadline(deadline).command_deadline(deadline);
    let asked = stage.now();
    let refused = stage.server().connect_wrongly(wrong, options).await;
    let took = stage.now().since(asked);
    let Err(error) = refused else {
        return Err(crate::Failure::new(format!("a client connected with a wrong {wrong:?}")));
    };
    ensure!(
        stage.is_in_time(asked, deadline * 2),
        "the error took {took:?}, with a deadline of {deadline:?}: {error}"
    );
    Ok(error.kind())
}

async fn a_wrong_address_is_told_within_the_deadline(stage: &Stage) -> Outcome {
    let kind = connect_in_vain(stage, Wrong::Address).await?;
    let fits = matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout);
    ensure!(fits, "a wrong address was reported as {kind:?}");
    Ok(())
}

async fn something_else_at_the_address_is_told(stage: &Stage) -> Outcome {
    let kind = connect_in_vain(stage, Wrong::Stranger).await?;
    ensure!(kind == ErrorKind::Protocol, "another kind of server was reported as {kind:?}");
    Ok(())
}

async fn somebody_who_never_answers_is_told_within_the_deadline(stage: &Stage) -> Outcome {
    let kind = connect_in_vain(stage, Wrong::Mute).await?;
    let fits = matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout);
    ensure!(fits, "a server that says nothing was reported as {kind:?}");
    Ok(())
}
