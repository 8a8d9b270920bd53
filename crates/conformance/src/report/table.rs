//! The tables of guarantees: README's, with a column for each backend, and the details behind it, with a section for each
//! report: a backend has one for each deployment.

use std::fmt::Write;

use serde_json::Value;

use super::POINTS;

/// The markers around README's table, so that a tool can replace it.
const PROMISES: [&str; 2] = ["<!-- promises -->", "<!-- /promises -->"];
/// The markers around the table of details.
const GUARANTEES: [&str; 2] = ["<!-- guarantees -->", "<!-- /guarantees -->"];

/// Each point of the contract in a few words.
const IN_WORDS: [&str; 13] = [
    "guards that conflict are never both Held",
    "a later conflicting grant has the greater one",
    "first come, first served",
    "before the store can give the lock away",
    "and a tenth, no more",
    "drop any future at any await",
    "it never frees another's claim",
    "waiters get on without them",
    "a stalled name or server delays no other",
    "unused names leave nothing, or what expires",
    "a typed error at once; nothing changes",
    "one round trip where the store can do it",
    "what it keeps is declared and tried",
];

/// The tables of these reports in Markdown, README's first, each between its markers.
///
/// README's has no counts: a new trial does not change it.
///
/// # Errors
/// Says which of them is not a report.
pub fn table(reports: &[Value]) -> Result<String, String> {
    let columns: Vec<Column> = reports.iter().map(Column::read).collect::<Result<_, _>>()?;
    let [begin, end] = PROMISES;
    let mut text = format!("{begin}\n");
    write_promises(&columns, &mut text);
    let _ = writeln!(text, "{end}\n");
    let [begin, end] = GUARANTEES;
    let _ = writeln!(text, "{begin}");
    for column in &columns {
        column.write_section(&mut text);
    }
    let _ = writeln!(text, "{end}");
    Ok(text)
}

/// A row for each promise, a column for each backend: a promise holds there if it holds on all its deployments.
fn write_promises(columns: &[Column], text: &mut String) {
    let mut backends: Vec<&str> = columns.iter().map(Column::backend).collect();
    backends.dedup();
    text.push_str("| | promise |");
    backends.iter().for_each(|backend| *text += &format!(" {backend} |"));
    text.push_str("\n|---|---|");
    backends.iter().for_each(|_| text.push_str("---|"));
    for ((number, title), in_words) in (1..).zip(POINTS).zip(IN_WORDS) {
        let _ = write!(text, "\n| {number} | {title}: {in_words} |");
        for backend in &backends {
            let of_backend = columns.iter().filter(|column| column.backend() == *backend);
            let all = of_backend.map(|column| column.count(number)).reduce(Count::and);
            *text += &format!(" {} |", all.map_or("not tried", |all| all.sign()));
        }
    }
    text.push('\n');
}

/// The part of a report that the tables need.
struct Column<'a> {
    /// The backend, and the deployment if it has several: `redis`, `redis sentinel`.
    name: &'a str,
    report: &'a Value,
}

/// The trials of one point of the contract.
struct Count {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl<'a> Column<'a> {
    fn read(report: &'a Value) -> Result<Self, String> {
        if report["format"] != "tidelock report 1" {
            return Err("this is not a report of the conformance suite".to_owned());
        }
        Ok(Self { name: report["backend"].as_str().unwrap_or("?"), report })
    }

    fn backend(&self) -> &'a str {
        self.name.split(' ').next().unwrap_or(self.name)
    }

    fn count(&self, number: u64) -> Count {
        let point = self.list("points").find(|point| point["point"] == number);
        let of = |key: &str| point.and_then(|point| point[key].as_u64()).unwrap_or(0);
        Count { passed: of("passed"), failed: of("failed"), skipped: of("skipped") }
    }

    /// The details of this backend, under a heading that other pages link to.
    fn write_section(&self, text: &mut String) {
        let _ = writeln!(text, "## {}\n", self.name);
        text.push_str("| | promise | | passed | skipped |\n|---|---|---|---|---|\n");
        for (number, title) in (1..).zip(POINTS) {
            let count = self.count(number);
            let (verdict, passed, skipped) = (count.verdict(), count.passed, count.skipped);
            let _ = writeln!(text, "| {number} | {title} | {verdict} | {passed} | {skipped} |");
        }
        text.push_str("\nIt assumes:\n\n");
        for assumption in self.list("assumptions") {
            let _ = writeln!(text, "- {}", assumption.as_str().unwrap_or_default());
        }
        self.write_beliefs(text);
        self.write_skipped(text);
        text.push('\n');
    }

    fn write_beliefs(&self, text: &mut String) {
        text.push_str("\n| after | may two clients both believe that they hold? | why |\n|---|---|---|\n");
        for belief in self.list("beliefs") {
            let of = |key: &str| belief[key].as_str().unwrap_or_default();
            let answer = match of("overlap") {
                "never" => "never",
                "fenced" => "yes; the fence refuses the older one",
                _ => "cannot happen",
            };
            let _ = writeln!(text, "| {} | {answer} | {} |", of("mishap"), of("why"));
        }
    }

    /// The skipped trials, grouped by reason: one reason often skips several.
    fn write_skipped(&self, text: &mut String) {
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for trial in self.list("trials").filter(|trial| trial["ending"] == "skipped") {
            let of = |key: &str| trial[key].as_str().unwrap_or_default();
            let (name, why) = (format!("`{}`", of("name")), of("why"));
            match reasons.iter_mut().find(|(reason, _)| *reason == why) {
                Some((_, names)) => names.push(name),
                None => reasons.push((why, vec![name])),
            }
        }
        if !reasons.is_empty() {
            text.push_str("\nSkipped, and why:\n\n");
        }
        for (why, names) in reasons {
            let _ = writeln!(text, "- {why}: {}", names.join(", "));
        }
    }

    fn list(&self, key: &str) -> impl Iterator<Item = &'a Value> {
        self.report[key].as_array().into_iter().flatten()
    }
}

impl Count {
    fn and(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }

    fn sign(&self) -> &'static str {
        match (self.passed, self.failed) {
            (0, 0) => "not tried",
            (_, 0) => "✓",
            _ => "**broken**",
        }
    }

    fn verdict(&self) -> String {
        match (self.passed, self.failed) {
            (0, 0) => "not tried".to_owned(),
            (_, 0) => "holds".to_owned(),
            (_, failed) => format!("**broken**: {failed} failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(backend: &str, passed: u64, failed: u64) -> Value {
        json!({
            "format": "tidelock report 1",
            "backend": backend,
            "assumptions": ["One process."],
            "beliefs": [{ "mishap": "an eviction", "overlap": "fenced", "why": "it is told late" }],
            "points": [{ "point": 1, "passed": passed, "failed": failed, "skipped": 1 }],
            "trials": [
                { "name": "a_trial", "ending": "skipped", "why": "there is no clock" },
                { "name": "played", "ending": "passed" },
                { "name": "another", "ending": "skipped", "why": "there is no clock" },
            ],
        })
    }

    /// The two parts of the text, without their markers.
    fn parts(text: &str) -> [&str; 2] {
        [PROMISES, GUARANTEES].map(|[begin, end]| {
            let from = text.find(begin).unwrap() + begin.len();
            &text[from..from + text[from..].find(end).unwrap()]
        })
    }

    #[test]
    fn a_promise_that_one_deployment_breaks_is_broken() {
        let text = table(&[report("one", 3, 0), report("one apart", 2, 1), report("two", 2, 0)]).unwrap();
        let [promises, _] = parts(&text);
        assert!(promises.contains("| | promise | one | two |\n|---|---|---|---|\n"), "{text}");
        assert!(promises.contains("Held | **broken** | ✓ |\n"), "{text}");
    }

    #[test]
    fn a_table_has_a_column_for_each_backend() {
        let text = table(&[report("one", 3, 0), report("two", 2, 1)]).unwrap();
        let [promises, _] = parts(&text);
        assert!(promises.contains("| | promise | one | two |\n|---|---|---|---|\n"), "{text}");
        assert!(promises.contains("Held | ✓ | **broken** |\n"), "{text}");
        assert!(promises.contains("greater one | not tried | not tried |\n"), "{text}");
        assert!(table(&[json!({})]).is_err());
    }

    #[test]
    fn a_new_trial_changes_the_details_alone() {
        let [before, after] = [3, 4].map(|passed| table(&[report("one", passed, 0)]).unwrap());
        assert_eq!(parts(&before)[0], parts(&after)[0]);
        assert_ne!(parts(&before)[1], parts(&after)[1]);
    }

    #[test]
    fn every_report_has_a_section_with_counts_and_reasons() {
        let text = table(&[report("one", 3, 0), report("two", 2, 1)]).unwrap();
        let [_, details] = parts(&text);
        for expected in [
            "\n## one\n\n",
            "\n## two\n\n",
            "| 1 | Exclusion | holds | 3 | 1 |\n",
            "| 1 | Exclusion | **broken**: 1 failed | 2 | 1 |\n",
            "- One process.\n",
            "| an eviction | yes; the fence refuses the older one | it is told late |\n",
            "- there is no clock: `a_trial`, `another`\n",
        ] {
            assert!(details.contains(expected), "no {expected:?} in {text}");
        }
    }
}
