//! The analysis's integration tests, in one program: it is linked once.

mod common;
mod damage;
mod formats;
mod own_tcp;
mod simulator;
mod vantage;
