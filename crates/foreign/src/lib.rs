//! What other programs measured, read from the files that they wrote. Pure: bytes in, packets and flows out.
//!
//! ```text
//!   bytes ──unpack──► text ─┬─► flent   raw values of each series         ┐
//!          (gzip,           ├─► irtt    round trips                       ├─► Imported: streams of packets and flows,
//!           bounded)        └─► iperf3  intervals, whole or line by line  │   what is known beside them, what is left out
//!         ──serde-pickle──────► pingexp replies of each stream            ┘
//! ```
//!
//! Times are nanoseconds from the first moment that the file tells of, sending times where they are known. What a file does not say is none,
//! never zero. Whatever the bytes are, reading ends in bounded memory: files, what they unpack to and their samples are counted ([`MOST_BYTES`],
//! [`MOST_UNPACKED`], [`MOST_SAMPLES`]), and what is refused is named with its line or its place in the JSON.

mod bounds;
mod detect;
mod error;
mod flent;
mod imported;
mod iperf3;
mod irtt;
mod json;
mod order;
mod pingexp;
mod unpack;

pub use bounds::{MOST_BYTES, MOST_SAMPLES, MOST_UNPACKED};
pub use error::ForeignError;
pub use imported::{FlowDirection, Imported, Stream, StreamCounts, Tool};

/// Reads a file of this program; of the one whose it is, where none is named.
///
/// # Errors
/// [`ForeignError`] says where what stands is not as that program writes it, or what is more than is believed.
pub fn read(bytes: &[u8], tool: Option<Tool>) -> Result<Imported, ForeignError> {
    let is_pickle = pingexp::is_pickle(bytes) && tool.is_none();
    if is_pickle || tool == Some(Tool::PingExp) {
        return something(pingexp::read(bytes)?);
    }
    let text = unpack::text(bytes)?;
    let found = detect::tool(&text);
    let tool = match (tool, found) {
        (Some(wanted), Some(found)) if wanted != found => {
            return Err(ForeignError::OtherTool { wanted, found });
        }
        (Some(wanted), _) => wanted,
        (None, Some(found)) => found,
        (None, None) => return Err(ForeignError::Unknown),
    };
    something(match tool {
        Tool::Flent => flent::read(&text)?,
        Tool::Irtt => irtt::read(&text)?,
        Tool::Iperf3 => iperf3::read(&text)?,
        Tool::PingExp => pingexp::read(bytes)?,
    })
}

fn something(imported: Imported) -> Result<Imported, ForeignError> {
    match imported.streams.iter().all(Stream::is_empty) {
        true => Err(ForeignError::Nothing {
            tool: imported.tool,
            why: imported.failed.unwrap_or_default(),
        }),
        false => Ok(imported),
    }
}
