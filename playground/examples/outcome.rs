//! Prints what comes of a run: `cargo run -p tidelock-playground --example outcome -- 'v1;policy=line'`.

use tidelock_playground::{Run, Settings};

fn main() -> Result<(), String> {
    for link in std::env::args().skip(1) {
        let settings = Settings::read(&link)?;
        let began = std::time::Instant::now();
        let run = Run::new(&settings);
        let took = began.elapsed();
        println!("{link}\n  {:?}\n  {} events, until {} ms; took {took:?}", run.outcome(), run.count(), run.end());
    }
    Ok(())
}
