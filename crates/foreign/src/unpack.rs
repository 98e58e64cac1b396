//! Bytes to text, unpacked where they are gzip: never more than is believed, whatever the file claims.

use crate::bounds::{MOST_BYTES, MOST_UNPACKED};
use crate::error::ForeignError;
use flate2::read::MultiGzDecoder;
use std::borrow::Cow;
use std::io::Read;

/// How gzip begins (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

pub(crate) fn text(bytes: &[u8]) -> Result<Cow<'_, str>, ForeignError> {
    if bytes.len() > MOST_BYTES {
        return Err(ForeignError::TooLong { most: MOST_BYTES });
    }
    let no_text = |at| ForeignError::NoText { at };
    if !bytes.starts_with(&GZIP) {
        let text = str::from_utf8(bytes).map_err(|e| no_text(e.valid_up_to()))?;
        return Ok(Cow::Borrowed(text));
    }
    let mut unpacked = Vec::new();
    // One more than is believed, so that a longer one is refused and not cut.
    MultiGzDecoder::new(bytes).take(MOST_UNPACKED as u64 + 1).read_to_end(&mut unpacked).map_err(
        |e| ForeignError::Gzip { why: e.to_string().escape_debug().take(200).collect() },
    )?;
    if unpacked.len() > MOST_UNPACKED {
        return Err(ForeignError::UnpacksTooLong);
    }
    let text = String::from_utf8(unpacked).map_err(|e| no_text(e.utf8_error().valid_up_to()))?;
    Ok(Cow::Owned(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn packed(bytes: usize) -> Vec<u8> {
        let mut out = GzEncoder::new(Vec::new(), Compression::best());
        let zeros = vec![b' '; 1 << 20];
        for _ in 0..bytes >> 20 {
            out.write_all(&zeros).unwrap();
        }
        out.finish().unwrap()
    }

    #[test]
    fn gzip_is_unpacked_and_a_bomb_is_refused_by_its_size() {
        assert_eq!(text(&packed(2 << 20)).unwrap().len(), 2 << 20);
        let bomb = packed(MOST_UNPACKED + (1 << 20));
        assert!(bomb.len() < 1 << 20, "{} bytes stand for all that", bomb.len());
        assert_eq!(text(&bomb), Err(ForeignError::UnpacksTooLong));
    }

    #[test]
    fn a_cut_file_says_so() {
        let whole = packed(1 << 20);
        let error = text(&whole[..whole.len() - 9]).unwrap_err().to_string();
        assert!(error.contains("copied whole"), "{error}");
        assert_eq!(text(b"ab\xff"), Err(ForeignError::NoText { at: 2 }));
    }
}
