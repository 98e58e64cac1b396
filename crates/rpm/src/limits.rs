//! What a test of responsiveness takes and waits for.

pub(crate) struct ClientLimits {
    /// What a server may send before it hears that it arrived: the longest way at the highest rate.
    pub window: u32,
    /// Most probes within one connection at once.
    pub within: usize,
    /// Bytes of what a probe asks for.
    pub small: u32,
    pub idle: usize,
    /// What a second leaves of what was learnt before: segments may become smaller.
    pub kept: f64,
    /// Longest that a connection and its answer may take.
    pub patience_ns: u64,
    /// Shortest time of a connection that was closed without an answer, in milliseconds, that shows a request on its way: servers give one 5 s and more, and
    /// one that will have none of it says so at once.
    pub waited_ms: f64,
    pub words: usize,
    pub under_way: usize,
    /// Bytes of an interval below which nothing is carried.
    pub least_bytes: f64,
    pub look_ns: u64,
    /// As if an endless file were posted.
    pub endless: u64,
    /// Stack of a thread that does little.
    pub stack: usize,
}

pub(crate) const LIMITS: ClientLimits = ClientLimits {
    window: 16 << 20,
    within: 32,
    small: 1,
    idle: 10,
    kept: 0.5,
    patience_ns: 20_000_000_000,
    waited_ms: 3000.0,
    words: 200,
    under_way: 64,
    least_bytes: 1000.0,
    look_ns: 10_000_000,
    endless: 1 << 40,
    stack: 512 << 10,
};
