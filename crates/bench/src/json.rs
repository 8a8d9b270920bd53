//! The report for machines: every figure of every slice.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::Result;
use crate::count::Counts;
use crate::figure::Figure;
use crate::report::{Report, Row, Section};

pub(crate) fn write(report: &Report, file: &Path) -> Result<()> {
    let text = format!("{:#}\n", whole(report));
    std::fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()).into())
}

fn whole(report: &Report) -> Value {
    json!({
        "format": "tidelock bench 1",
        "backend": report.backend,
        "twin": report.twin,
        "remarks": report.remarks,
        "cores": report.cores,
        "slices": report.slices,
        "short": report.short,
        "scenarios": report.sections.iter().map(section).collect::<Vec<_>>(),
    })
}

fn section(section: &Section) -> Value {
    json!({
        "scenario": section.scenario,
        "about": section.about,
        "twin": section.twin,
        "cases": section.rows.iter().map(row).collect::<Vec<_>>(),
        "notes": section.notes,
    })
}

fn row(row: &Row) -> Value {
    json!({
        "case": row.case,
        "unit": row.unit.name(),
        "ours": row.ours.as_ref().map(figure),
        "bare": row.bare.as_ref().map(figure),
        "ratio": row.ratio().as_ref().map(figure),
        "counts": row.counts.map(counts),
    })
}

fn figure(figure: &Figure) -> Value {
    json!({ "median": figure.median, "least": figure.least, "most": figure.most, "slices": figure.slices })
}

/// A count that the store cannot report is null.
fn counts(counts: Counts) -> Value {
    let named = counts.named().into_iter().map(|(name, figure)| (name.replace(' ', "_"), json!(figure)));
    Value::Object(named.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Unit;

    #[test]
    fn an_unknown_count_is_null_and_not_zero() {
        let known = Counts { commands: Some(2.0), ..Counts::default() };
        let value = row(&Row::new("1 task", Unit::Rate).ours([3.0, 1.0, 2.0]).counts(known));
        assert_eq!(
            value["counts"],
            json!({ "commands": 2.0, "events": null, "disk_writes": null, "bytes": null })
        );
        assert_eq!((&value["ours"]["median"], &value["ratio"]), (&json!(2.0), &Value::Null));
    }
}
