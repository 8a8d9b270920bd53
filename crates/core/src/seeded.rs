//! Seeded faults, which prove that the tests can fail.
//!
//! The program of the unit tests, and that of the simulation, have the one fault that `TIDELOCK_FAULT` names. Everything
//! else has none: there the macro is `false`, and nothing of a fault is compiled.

/// Whether this fault is seeded. Each place asks the environment once.
#[cfg(any(test, tidelock_simulation))]
macro_rules! seeded {
    ($fault:literal) => {{
        static IS_SEEDED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        *IS_SEEDED.get_or_init(|| std::env::var_os("TIDELOCK_FAULT").is_some_and(|fault| fault == $fault))
    }};
}

#[cfg(not(any(test, tidelock_simulation)))]
macro_rules! seeded {
    ($fault:literal) => {
        false
    };
}
