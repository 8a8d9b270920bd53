//! `own`: n tasks, each with its own name. No task waits for another; the way to the store and back is measured.

use super::pairs::Case;
use super::plan::Plan;
use crate::Result;
use crate::ours::{Ours, STRICT};
use crate::report::Section;
use crate::subject::Subject;

const TASKS: [usize; 3] = [1, 16, 64];

pub(super) async fn run<S: Subject>(subject: &S, plan: &Plan) -> Result<Section> {
    let mut rows = Vec::new();
    for tasks in TASKS {
        let called = if tasks == 1 { "1 task".into() } else { format!("{tasks} tasks") };
        let name = |task| format!("bench:own:{task}");
        let case = Case {
            called,
            clients: 1,
            linger: STRICT,
            locks: |clients: &[_]| (0..tasks).map(|task| Ours::new(&clients[0], &name(task))).collect(),
        };
        rows.extend(case.rows(subject, plan, &subject.bare_own(tasks).await?).await?);
    }
    let about = "n tasks of one client, each its own name; pairs of take and give back".into();
    Ok(Section { scenario: "own", about, twin: subject.twin(), rows, notes: Vec::new() })
}
