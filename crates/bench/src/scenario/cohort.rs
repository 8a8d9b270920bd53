//! `cohort`: tasks that pass the hold on within their client, beside the same tasks that all stand in the store's line.
//!
//! First pairs on a hot name, and of one task alone, which must cost the same either way. Then a rush, and the memory of
//! a task that waits in it.

use std::time::Duration;

use super::pairs::{Case, Clients};
use super::plan::Plan;
use super::rush;
use crate::Result;
use crate::ours::{self, Ours, STRICT};
use crate::report::{Row, Section};
use crate::subject::{Subject, Twin};

pub(super) const TWIN: &str = "linger zero";
/// Numbers of tasks and of clients.
const CASES: [(usize, usize); 3] = [(64, 1), (64, 2), ALONE];
const ALONE: (usize, usize) = (1, 1);

pub(super) async fn run<S: Subject>(subject: &S, plan: &Plan) -> Result<Section> {
    let mut rows = Vec::new();
    for (tasks, clients) in CASES {
        rows.extend(beside_strict(subject, plan, tasks, clients).await?);
    }
    let (tasks, clients) = ALONE;
    let alone = case(tasks, clients, STRICT).count(subject).await?;
    let mut notes = vec![format!("At linger zero 1 task of 1 client asks the store: {alone}.")];
    let (rush_rows, rush_notes) = rush::measure(subject, plan).await?;
    rows.extend(rush_rows);
    notes.extend(rush_notes);
    let linger = plan.linger;
    let about = format!("n tasks, one name; Tidelock with a linger of {linger:?}, beside Tidelock at {TWIN}");
    Ok(Section { scenario: "cohort", about, twin: TWIN, rows, notes })
}

/// These tasks with linger, beside the same ones at linger zero.
async fn beside_strict<S: Subject>(
    subject: &S,
    plan: &Plan,
    tasks: usize,
    clients: usize,
) -> Result<Vec<Row>> {
    let strict = ours::clients(subject, clients, STRICT).await?;
    let twin = Twin { called: TWIN, tasks: Ours::shared(&strict, "bench:cohort:strict", tasks)? };
    let rows = case(tasks, clients, plan.linger).rows(subject, plan, &[twin]).await?;
    ours::close(strict).await?;
    Ok(rows)
}

fn case(tasks: usize, clients: usize, linger: Duration) -> Case<impl Fn(&Clients) -> Result<Vec<Ours>>> {
    let plural = |count| if count == 1 { "" } else { "s" };
    Case {
        called: format!("{tasks} task{} of {clients} client{}", plural(tasks), plural(clients)),
        clients,
        linger,
        locks: move |clients: &Clients| Ours::shared(clients, "bench:cohort", tasks),
    }
}
