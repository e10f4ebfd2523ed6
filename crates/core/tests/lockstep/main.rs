//! Lockstep with Linux.
mod compare;
mod receiving;
mod record;
mod sending;
