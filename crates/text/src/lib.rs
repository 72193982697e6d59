//! What readers and models see: decoding, stripping, redaction, cutting.
