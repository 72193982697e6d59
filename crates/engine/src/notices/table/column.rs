//! Columns of a row, read so that damage in one row keeps no other from being read. SQLite checks neither that a text is UTF-8 nor how
//! large a number is.

use rusqlite::Row;

/// A text. Bytes that are not UTF-8 are replaced.
pub(crate) fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(String::from_utf8_lossy(bytes(row, column)?).into_owned())
}

/// The bytes of a text.
pub(crate) fn bytes<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<&'a [u8]> {
    Ok(row.get_ref(column)?.as_bytes()?)
}

/// A count. A damaged value becomes the nearest valid one.
pub(crate) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u32> {
    let count: i64 = row.get(column)?;
    Ok(u32::try_from(count.max(0)).unwrap_or(u32::MAX))
}
