//! Bodies that a proxy compressed without being asked.

use std::io::Write as _;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http::{HeaderMap, header::CONTENT_ENCODING};

use super::Failure;

/// The beginning of a body in gzip. Neither JSON nor an event begins so.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// How many compressed bytes are unpacked at once: a few bytes may stand for a thousand times as many.
const PIECE: usize = 4 * 1024;

/// Gives the bytes of a body as they were before compression.
#[derive(Debug, Default)]
pub(super) enum PlainBody {
    /// Nothing has come yet.
    #[default]
    Unknown,
    Plain,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
}

impl PlainBody {
    /// Refuses a compression that cannot be undone here.
    ///
    /// # Errors
    /// The name of the compression.
    pub(super) fn check(headers: &HeaderMap) -> Result<(), Failure> {
        let encoding = headers
            .get(CONTENT_ENCODING)
            .and_then(|value| value.to_str().ok());
        let encoding = encoding.unwrap_or_default().trim().to_ascii_lowercase();
        // Some servers name an encoding of their own and compress nothing.
        if matches!(encoding.as_str(), "br" | "deflate" | "zstd" | "compress") {
            return Err(Failure::Malformed(format!(
                "it is compressed ({encoding}), which was not asked for"
            )));
        }
        Ok(())
    }

    /// The next bytes; at most `most` of them may come.
    ///
    /// # Errors
    /// Bytes that do not unpack, or more than `most`.
    pub(super) fn next(&mut self, bytes: Bytes, most: u64) -> Result<Bytes, Failure> {
        if matches!(self, Self::Unknown) && !bytes.is_empty() {
            *self = match bytes.starts_with(&GZIP) {
                true => Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
                false => Self::Plain,
            };
        }
        let Self::Gzip(decoder) = self else {
            return Ok(bytes);
        };
        for piece in bytes.chunks(PIECE) {
            let unpacked = decoder.write_all(piece).and_then(|()| decoder.flush());
            unpacked.map_err(|_| Failure::Malformed("its compression is broken".to_owned()))?;
            if decoder.get_ref().len() as u64 > most {
                return Err(Failure::TooLarge(most));
            }
        }
        Ok(std::mem::take(decoder.get_mut()).into())
    }
}
