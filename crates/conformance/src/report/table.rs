//! The table of guarantees for README: a column for each report, and below it what each backend assumes.

use std::fmt::Write;

use serde_json::Value;

use super::POINTS;

/// The markers around the table, so that a tool can replace it.
const BEGIN: &str = "<!-- guarantees -->";
const END: &str = "<!-- /guarantees -->";

/// The table of these reports, in Markdown.
///
/// # Errors
/// Says which of them is not a report.
pub fn table(reports: &[Value]) -> Result<String, String> {
    let columns: Vec<Column> = reports.iter().map(Column::read).collect::<Result<_, _>>()?;
    let mut text = format!("{BEGIN}\n| | promise |");
    columns.iter().for_each(|column| text += &format!(" {} |", column.backend));
    text.push_str("\n|---|---|");
    columns.iter().for_each(|_| text.push_str("---|"));
    for (number, title) in (1..).zip(POINTS) {
        let _ = write!(text, "\n| {number} | {title} |");
        columns.iter().for_each(|column| text += &format!(" {} |", column.cell(number)));
    }
    text.push('\n');
    for column in &columns {
        column.write_limits(&mut text);
    }
    let _ = writeln!(text, "{END}");
    Ok(text)
}

/// The part of a report that the table needs.
struct Column<'a> {
    backend: &'a str,
    report: &'a Value,
}

impl<'a> Column<'a> {
    fn read(report: &'a Value) -> Result<Self, String> {
        if report["format"] != "tidelock report 1" {
            return Err("this is not a report of the conformance suite".to_owned());
        }
        Ok(Self { backend: report["backend"].as_str().unwrap_or("?"), report })
    }

    fn cell(&self, number: u64) -> String {
        let points = self.report["points"].as_array().into_iter().flatten();
        let point = points.into_iter().find(|point| point["point"] == number);
        let count = |key: &str| point.and_then(|point| point[key].as_u64()).unwrap_or(0);
        let (passed, failed, skipped) = (count("passed"), count("failed"), count("skipped"));
        let skips = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
        match (passed, failed) {
            (0, 0) => format!("not tried{skips}"),
            (_, 0) => format!("holds: {passed} trials{skips}"),
            _ => format!("**broken**: {failed} of {} trials{skips}", passed + failed),
        }
    }

    fn write_limits(&self, text: &mut String) {
        let _ = writeln!(text, "\n**{}** assumes:\n", self.backend);
        for assumption in self.list("assumptions") {
            let _ = writeln!(text, "- {}", assumption.as_str().unwrap_or_default());
        }
        for belief in self.list("beliefs") {
            let of = |key: &str| belief[key].as_str().unwrap_or_default();
            let _ = match of("overlap") {
                "never" => {
                    writeln!(text, "- After {}, two clients never both believe that they hold.", of("mishap"))
                }
                "fenced" => writeln!(
                    text,
                    "- After {}, two clients may both believe that they hold, and the fence refuses the older one: {}.",
                    of("mishap"),
                    of("why")
                ),
                _ => writeln!(text, "- Cannot happen: {}, because {}.", of("mishap"), of("why")),
            };
        }
        self.write_skipped(text);
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
            let _ = writeln!(text, "\nSkipped on {}:\n", self.backend);
        }
        for (why, names) in reasons {
            let _ = writeln!(text, "- {why}: {}", names.join(", "));
        }
    }

    fn list(&self, key: &str) -> impl Iterator<Item = &'a Value> {
        self.report[key].as_array().into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_has_a_column_for_each_report() {
        let report = |backend: &str| {
            json!({
                "format": "tidelock report 1",
                "backend": backend,
                "assumptions": ["One process."],
                "beliefs": [{ "mishap": "an eviction", "overlap": "fenced", "why": "it is told late" }],
                "points": [{ "point": 1, "passed": 3, "failed": 0, "skipped": 1 }],
                "trials": [
                    { "name": "a_trial", "ending": "skipped", "why": "there is no clock" },
                    { "name": "played", "ending": "passed" },
                    { "name": "another", "ending": "skipped", "why": "there is no clock" },
                ],
            })
        };
        let text = table(&[report("one"), report("two")]).unwrap();
        assert!(text.starts_with(BEGIN) && text.trim_end().ends_with(END), "{text}");
        assert!(
            text.contains("| 1 | Exclusion | holds: 3 trials, 1 skipped | holds: 3 trials, 1 skipped |"),
            "{text}"
        );
        assert!(text.contains("- there is no clock: `a_trial`, `another`\n"), "{text}");
        assert!(table(&[json!({})]).is_err());
    }
}
