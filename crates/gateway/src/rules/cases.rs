//! The core cases of the requirements that are about rules. The number in a name is that of the case.

mod keys;
mod notes;
mod resets;
mod shown;
mod starts;
mod stops;
