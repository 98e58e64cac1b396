//! What a browser may take, say and wait for.

use quell_units::Span;

pub(crate) struct PageLimits {
    /// Most requests at once; what is answered waits here, and the largest object has some 60 kB.
    pub at_once: u32,
    /// How long it waits before it looks again whether there is something to do: nothing but the connection itself moves it.
    pub long_ns: u64,
    /// Longest path of a folder: a browser binds a socket in a folder within it, and a socket's path has 107 bytes (unix(7)).
    pub profile_path: usize,
    /// How often what a browser wrote as it was killed is cleared away.
    pub profile_tries: usize,
    /// How long a browser may take to start, and then to answer what asks nothing of the network.
    pub patience: Span,
    pub last_words: usize,
    /// Most requests of a page that are kept; of more, the number is told.
    pub requests: usize,
    pub url: usize,
    pub connections: usize,
    pub head: u64,
    /// How long putting away what is over may take. A browser that starts is faster than a machine that is far too busy.
    pub away_ns: u64,
    /// How long until a tab that is still there is told once more to close.
    pub again_ns: u64,
    /// No page is waited for as long as this: a year.
    pub longest_ms: f64,
    /// Longest message. A page's own words (addresses, errors) are in it, and Chromium cuts none of them.
    pub message: usize,
    pub events: usize,
    /// Characters of a page's address by which its loads go.
    pub name: usize,
    /// How long the kernels may take, in all.
    pub scripts_ns: u64,
    /// How long a load may go on once its own time is over: it is asked what it knows, in which it looks for its paints for three seconds, and closed.
    pub answer_ns: u64,
    /// The part of that in which only the browser is asked.
    pub lives_ns: u64,
    /// Most moves that are kept: a page can send the browser on for ever.
    pub moves: usize,
}

pub(crate) const LIMITS: PageLimits = PageLimits {
    at_once: 100,
    long_ns: 3_600_000_000_000,
    profile_path: 60,
    profile_tries: 100,
    patience: Span::from_secs(60),
    last_words: 2_000,
    requests: 10_000,
    url: 2_000,
    connections: 256,
    head: 32 * 1024,
    away_ns: 5_000_000_000,
    again_ns: 1_000_000_000,
    longest_ms: 365.0 * 86_400e3,
    message: 16 << 20,
    events: 100_000,
    name: 100,
    scripts_ns: 60_000_000_000,
    answer_ns: 5_000_000_000,
    lives_ns: 1_000_000_000,
    moves: 100,
};
