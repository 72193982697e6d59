//! A checksummed section of a file: `u32 length | u32 crc32 of version and payload | u8 version | payload`, little endian.

use std::io;

/// Bytes before the payload.
pub(crate) const HEAD: usize = 9;

/// The header of a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) len: u32,
    pub(crate) crc: u32,
    pub(crate) version: u8,
}

impl Head {
    pub(crate) fn parse(bytes: [u8; HEAD]) -> Self {
        let [l0, l1, l2, l3, c0, c1, c2, c3, version] = bytes;
        Self { len: u32::from_le_bytes([l0, l1, l2, l3]), crc: u32::from_le_bytes([c0, c1, c2, c3]), version }
    }

    pub(crate) fn fits(self, payload: &[u8]) -> bool {
        payload.len() == self.len as usize && checksum(self.version, payload) == self.crc
    }
}

/// Appends a frame that holds `value` as JSON. Appends nothing if the frame would be longer than `limit`.
pub(crate) fn push(out: &mut Vec<u8>, version: u8, value: &impl serde::Serialize, limit: usize) -> io::Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD]);
    let made = serde_json::to_writer(&mut *out, value).map_err(io::Error::from).and_then(|()| {
        let len = out.len() - start - HEAD;
        let too_long =
            || io::Error::new(io::ErrorKind::InvalidInput, format!("{len} bytes are more than the {limit} that may be kept in one piece"));
        u32::try_from(len).ok().filter(|_| len <= limit).ok_or_else(too_long)
    });
    match made {
        Ok(len) => {
            let crc = checksum(version, &out[start + HEAD..]);
            out[start..start + 4].copy_from_slice(&len.to_le_bytes());
            out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
            out[start + 8] = version;
            Ok(())
        }
        Err(e) => {
            out.truncate(start);
            Err(e)
        }
    }
}

fn checksum(version: u8, payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[version]);
    crc.update(payload);
    crc.finalize()
}
