//! strange
