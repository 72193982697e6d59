//! The library that others embed.
