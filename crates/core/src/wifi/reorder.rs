//! The recipient of Block Ack: MPDUs back into order.
