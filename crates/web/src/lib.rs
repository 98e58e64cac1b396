//! What is said over HTTP to measure from a browser, and by the clients of draft-ietf-ippm-responsiveness. Pure: bytes in, bytes out.
//!
//! ```text
//!   head     a request's head, an answer's head      httparse, bounded
//!   url      http://host:port/path
//!   origin   who may ask: this page alone, and nobody by a name that is not ours
//!   keys     what a browser shows that it may: bound to address and time
//!   nq       /.well-known/nq, written and read
//!   rpm      round trips per minute, as the draft has them
//!   sent     a result that `quell flow --web` sends
//!   page     the page's own files
//! ```

pub mod head;
pub mod keys;
pub mod origin;
pub mod page;
pub mod rpm;
pub mod sent;
pub mod url;
pub mod well_known;
