//! Rate control.
