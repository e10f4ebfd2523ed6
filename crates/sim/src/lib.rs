//! Worlds in virtual time.
