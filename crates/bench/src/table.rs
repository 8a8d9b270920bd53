//! The report for people: a table for each scenario, with columns as wide as needed.

use std::fmt::Write;

use crate::figure::digits;
use crate::report::{Report, Row, Section};

const GAP: &str = "   ";

/// The text above all tables.
pub(crate) fn head(report: &Report) -> String {
    let Report { backend, twin, slices, cores, .. } = report;
    let mut text = format!(
        "Tidelock on {backend}, beside {twin}, in turns: medians of {slices} slices on {cores} cores,\n"
    );
    text.push_str("with the least and the most of them. The ratio is ours / the twin's, slice by slice.\n");
    for remark in &report.remarks {
        let _ = writeln!(text, "- {remark}");
    }
    if report.short {
        text.push_str("- Short slices: this shows that the program works, and measures little.\n");
    }
    text
}

/// One scenario's table, and its notes.
pub(crate) fn section(section: &Section) -> String {
    let mut text = format!("{}: {}\n", section.scenario, section.about);
    if !section.rows.is_empty() {
        let head =
            ["case", "tidelock", "", section.twin, "", "ratio", "", "each asks the store"].map(str::to_owned);
        let lines: Vec<_> = std::iter::once(head).chain(section.rows.iter().map(cells)).collect();
        text.push_str(&aligned(&lines));
    }
    for note in &section.notes {
        let _ = writeln!(text, "  - {note}");
    }
    text
}

fn cells(row: &Row) -> [String; 8] {
    let write = |figure| row.unit.text(figure);
    let pair = |figure: Option<(String, String)>| figure.unwrap_or_else(|| ("–".into(), String::new()));
    let (ours, from) = pair(row.ours.as_ref().map(|figure| figure.text(write)));
    let (bare, bare_from) = pair(row.bare.as_ref().map(|figure| figure.text(write)));
    let (ratio, ratio_from) = pair(row.ratio().map(|ratio| ratio.text(digits)));
    let counts = row.counts.map(|counts| counts.to_string()).unwrap_or_default();
    [row.case.clone(), ours, from, bare, bare_from, ratio, ratio_from, counts]
}

/// Aligns the first and the last column left, all others right.
fn aligned(lines: &[[String; 8]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 8] = std::array::from_fn(width);
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
            0 | 7 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let joined = cells.collect::<Vec<_>>().join(GAP);
        let _ = writeln!(text, "  {}", joined.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Unit;

    #[test]
    fn columns_stand_under_each_other() {
        let rows = [
            Row::new("1 task", Unit::Rate).ours([500_000.0]).bare([1_000_000.0]),
            Row::new("16 tasks", Unit::Rate).ours([1_250_000.0]),
        ];
        let text = aligned(&rows.each_ref().map(cells));
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].contains("500 k/s") && lines[0].contains("1.00 M/s") && lines[0].contains("0.50"),
            "{text}"
        );
        assert_eq!(
            lines[0].find("500 k/s").map(|at| at + 7),
            lines[1].find("1.25 M/s").map(|at| at + 8),
            "{text}"
        );
    }
}
