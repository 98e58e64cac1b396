//! Metrics as Prometheus reads them: one writer for all that Quell tells, and one endpoint from which it is scraped.
//!
//! ```text
//!   MetricsPage ── family ── sample, histogram ──► text(OpenMetrics | Text004)      a file, standard output
//!        └── MetricsEndpoint::serve(stop, || page) ──► GET /metrics                  a thread that waits in the kernel
//! ```

mod endpoint;
mod histogram;
mod page;

pub use endpoint::MetricsEndpoint;
pub use histogram::{MetricHistogram, RTT_SECONDS};
pub use page::{MetricFamily, MetricKind, MetricsFormat, MetricsPage};
