//! Words and rules of Outlast: no I/O, no clock, no tasks.
