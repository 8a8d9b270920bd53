//! Prints what each lesson comes to, or each link that is given. The browser's tests compare the page with it.
//!
//! One line each, with tabs between: id, events, fingerprint, events and fingerprint beside it, what is told.

use tidelock_playground::{Run, Settings, filled, lessons};

fn main() -> Result<(), String> {
    let links: Vec<String> = std::env::args().skip(1).collect();
    for link in &links {
        let run = Run::new(&Settings::read(link)?);
        println!("{link}\t{}\t{}\t{:?}", run.count(), run.fingerprint(), run.outcome());
    }
    for lesson in lessons().iter().filter(|_| links.is_empty()) {
        let (run, beside) = lesson.runs()?;
        let other = beside.as_ref().map(Run::outcome).unwrap_or_default();
        let (count, print) = beside.as_ref().map_or((0, 0), |run| (run.count(), run.fingerprint()));
        let told = filled(lesson.told, &run.outcome(), &other);
        println!("{}\t{}\t{}\t{count}\t{print}\t{told}", lesson.id, run.count(), run.fingerprint());
    }
    Ok(())
}
