//! The record: what the scripts keep about a name, and the numbers and letters in it, each under one name.
//!
//! The scripts use these names, and so does the Rust that reads the keys. A name in a script is replaced by its value
//! when the script's text is made, so it costs the server nothing. That happens inside strings, too: `'IN_LINE'` is
//! `'z'`.
//!
//! ```text
//! held   hash: the holders, and the state of the line. While at most one claim holds, it usually has one field:
//!          one               the newest token; the second until which the keys' expiry is long enough; and, if a claim
//!                            holds: a letter (NOBODY waits; some may wait IN_ONE, that is in this field; some may wait
//!                            IN_LINE; NO_MUTEX); the holder's place; for how many ms from there it lives; the first
//!                            letter of the kind; the claim; unless it is a mutex, the capacity and the claim's weight;
//!                            its label. The numbers before the kind's letter have fixed widths. Behind that, each
//!                            after a line feed: the claims that wait for a mutex before all others, in the holder's
//!                            form from the place on. And, each after a tab: sessions that have an entry in `wait`,
//!                            except those whose entry has a place from which on they live.
//!        Otherwise, or when a ttl is long, or a claim is void:
//!          line              capacity; the sum of the holders' weights; the longest ttl of any claim here, void claims
//!                            included; a moment before which no holder's lifetime ends; and the kind
//!          last              the newest token
//!          seq               exists while claims may be waiting
//!          void              until when there may be void claims (ms)
//!          h:CLAIM           weight, token, and the place where it waited, if it did
//!          s:SESSION         since when it lives and for how many ms, how many claims it has here, the sum of their
//!                            numbers, its label
//! line   sorted set: the waiting claims, by place. A place is the time of the join, or the last place plus one if that
//!        is greater. Void claims, which must not come alive any more, stand far behind: at VOID plus the time (ms)
//!        when they can be forgotten.
//! wait   hash about the claims in `line`. s:SESSION: since when it lives; for how many ms; if needed, BORN and the
//!        place from which on its claims live; and its label. w:CLAIM: its weight, except for a mutex. A claim lives as
//!        if its session had been renewed when the claim came. A claim whose lifetime is over stays dead, even if other
//!        claims of its session wait here: its client has given it up, so nobody would give it back. Entries of
//!        sessions that no longer wait are deleted with the line, or when they are met by chance.
//! ```
//!
//! A claim is SESSION-NUMBER, the session in 16 hex digits. All times are the server's. Tokens and places are times in
//! ticks of 10 µs since 1970: 15 digits, which Lua's default number format would round. A stored lifetime is two
//! numbers, a tick and the ms after it, so that it can be written without arithmetic.
//!
//! What has fixed widths, with the first and the last character of each part:
//!
//! ```text
//! one      token           fresh      waits place           lasts       kind claim
//!          170000000000000 1700003600 -     170000000000000 00000015000 m    00000000000000ff-1 its label
//!          1            15 17      26 28    30           44 46       56 58   60            75 77
//!
//! waiter   a line feed, and the holder's form from the place on
//!          1            15 17       27 m 31            46 48
//!
//! life     since when      lasts      BORN and a place, if needed; label      (s:SESSION in `wait`)
//!          1            15 17       27 28 29        43
//!
//! tail     lasts       kind claim              (what a join brings: the holder's form from the lifetime on)
//!          1        11 13   15
//! ```

/// Declares the names, and lists them with their values.
macro_rules! record {
    ($($(#[$about:meta])* $name:ident: $type:ty = $value:expr;)+) => {
        $($(#[$about])* pub(crate) const $name: $type = $value;)+

        /// Each name, and its value as it stands in a script.
        pub(crate) fn names() -> Vec<(&'static str, String)> {
            vec![$((stringify!($name), $name.to_string())),+]
        }
    };
}

record! {
    // The field `one`. Where a part ends in `_END`, that is its last character. A name on which nobody stands has only
    // the token and `fresh`.
    ONE_TOKEN_END: usize = 15;
    ONE_FRESH: usize = 17;
    ONE_FRESH_END: usize = 26;
    ONE_WAITS: usize = 28;
    ONE_PLACE: usize = 30;
    ONE_PLACE_END: usize = 44;
    ONE_LASTS: usize = 46;
    ONE_LASTS_END: usize = 56;
    ONE_CLAIM: usize = 60;
    ONE_SESSION_END: usize = 75;
    ONE_NUMBER: usize = 77;

    /// From this length on, `one` takes no more waiters: the others stand in `line`.
    ONE_IS_FULL: usize = 700;
    /// From this length on, `one` takes no more sessions of those who stand in `line`.
    ONE_IS_OVERFULL: usize = 800;

    // The letter at ONE_WAITS, and as a byte: to compare that makes no string.
    NOBODY: char = '-';
    NOBODY_BYTE: u8 = NOBODY as u8;
    IN_ONE: char = 'i';
    IN_ONE_BYTE: u8 = IN_ONE as u8;
    IN_LINE: char = 'z';
    IN_LINE_BYTE: u8 = IN_LINE as u8;
    NO_MUTEX: char = '=';
    NO_MUTEX_BYTE: u8 = NO_MUTEX as u8;

    // A waiter in `one`, counted from its line feed.
    WAITER_PLACE: usize = 1;
    WAITER_PLACE_END: usize = 15;
    WAITER_LASTS: usize = 17;
    WAITER_LASTS_END: usize = 27;
    WAITER_SESSION: usize = 31;
    WAITER_SESSION_END: usize = 46;
    WAITER_NUMBER: usize = 48;

    // A waiting session's life: `s:SESSION` in `wait`. Its label, with the space before it, begins at LIFE_BORN if it
    // has no place from which on it lives.
    LIFE_FROM_END: usize = 15;
    LIFE_LASTS: usize = 17;
    LIFE_LASTS_END: usize = 27;
    LIFE_BORN: usize = 28;
    LIFE_PLACE: usize = 29;
    LIFE_PLACE_END: usize = 43;
    /// Before the place from which on a session's claims live: those in front of it are dead.
    BORN: char = '+';
    BORN_BYTE: u8 = BORN as u8;

    // What a join brings.
    TAIL_LASTS_END: usize = 11;
    TAIL_KIND: usize = 13;
    TAIL_CLAIM: usize = 15;
    MUTEX: char = 'm';
    MUTEX_BYTE: u8 = MUTEX as u8;

    // A claim.
    CLAIM_SESSION_END: usize = 16;
    CLAIM_NUMBER: usize = 18;

    // The fields of a claim or a session: these letters, then the claim or the session.
    HOLDS: &str = "h:";
    LIVES: &str = "s:";
    WEIGHS: &str = "w:";
    MARK: usize = 2; // the length of these letters

    // Times.
    TICKS: u64 = 100; // in a ms
    TICK_FORM: &str = "%015.0f";
    LASTS_FORM: &str = "%011.0f";
    SECOND_FORM: &str = "%010d";
    /// The longest ttl (ms) that `one` can have.
    SHORT: u64 = 15 * 60 * 1_000;
    /// How long the keys of `one` live at least (ms).
    KEPT: u64 = 2 * 3_600 * 1_000;
    /// How long (s) their expiry is known to be far enough away.
    TRUSTED: u64 = 3_600;
    /// The same in ticks.
    TRUSTED_TICKS: u64 = TRUSTED * 1_000 * TICKS;
    /// Void claims stand in `line` from here on, behind all places.
    VOID: u64 = 1_000_000_000_000_000;

    // How much one script does.
    GRANTS: usize = 1_000;
    /// How many words one command has at most.
    PIECE: usize = 1_000;
    /// How many waiters one command reads at most.
    WAITERS: usize = 128;
    /// How often the usual leave fetches waiters from `line`.
    FETCHES: usize = 64;
    /// How many sessions one script checks, to forget those that are dead.
    MET: usize = 16;
    /// How far from the mean of their numbers strays are looked for.
    AROUND: usize = 500;
}
