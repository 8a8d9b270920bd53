//! `hot`: n tasks, one name. At any time all tasks but one wait, and every hold is passed on in strict order.

use super::pairs::Case;
use super::plan::Plan;
use crate::Result;
use crate::ours::{Ours, STRICT};
use crate::report::Section;
use crate::subject::{Subject, Twin};

/// Numbers of tasks and of clients.
const CASES: [(usize, usize); 6] = [(16, 1), (16, 2), (16, 8), (64, 1), (64, 2), (64, 8)];

pub(super) async fn run<S: Subject>(subject: &S, plan: &Plan) -> Result<Section> {
    let mut rows = Vec::new();
    for (tasks, clients) in CASES {
        let case = Case {
            called: format!("{tasks} tasks of {clients} client{}", if clients == 1 { "" } else { "s" }),
            clients,
            linger: STRICT,
            locks: |clients: &[_]| Ours::shared(clients, "bench:hot", tasks),
        };
        let twin = Twin { called: subject.twin(), tasks: subject.bare_hot(tasks).await? };
        rows.extend(case.rows(subject, plan, &[twin]).await?);
    }
    let about = "n tasks of one, two or eight clients, one name; holds, first come, first served".into();
    Ok(Section { scenario: "hot", about, twin: subject.twin(), rows, notes: Vec::new() })
}
