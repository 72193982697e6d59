//! Where a rule looks for its secret.

/// Where a keyword was found.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) text: &'a str,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Nothing before this may be replaced any more.
    pub(crate) floor: usize,
}
