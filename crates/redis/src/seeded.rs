//! Seeded faults, which prove that the simulation finds them: its program has the one that `TIDELOCK_FAULT` names.
//! Everything else has none: there the macro is `false`.

/// Whether this fault is seeded. Each place asks the environment once.
#[cfg(tidelock_simulation)]
macro_rules! seeded {
    ($fault:literal) => {{
        static IS_SEEDED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        *IS_SEEDED.get_or_init(|| std::env::var_os("TIDELOCK_FAULT").is_some_and(|fault| fault == $fault))
    }};
}

#[cfg(not(tidelock_simulation))]
macro_rules! seeded {
    ($fault:literal) => {
        false
    };
}
