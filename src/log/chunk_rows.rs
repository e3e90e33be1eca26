//! Packed chunk rows (FORMAT 11).
