//! airtcp's 802.11 medium for the simulated radios of Linux (`mac80211_hwsim`): the kernel's Wi-Fi stack decides what is sent and at
//! which rate, and the medium when it is sent and what of it arrives.
//!
//! [`message`] is the protocol between a kernel and its medium, [`frame`] what must be known of a frame, [`rate`] the kernel's names of
//! modes. [`HwsimMac`] is a table of frames that kernels have handed over, and [`Air`] the medium with it. Nothing here does I/O or
//! reads a clock: a driver carries messages between [`Air`] and kernels.
//!
//! Kernels need the patches of `kernel/mac80211-hwsim`: they mark frames that may be aggregated, take frames that arrive damaged, and
//! stop their queues while the air is busy.

// Tests may cast numbers that they know.
#![cfg_attr(
    test,
    allow(
        clippy::cast_lossless,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        missing_docs,
        unreachable_pub
    )
)]

pub mod air;
pub mod frame;
pub mod mac;
pub mod message;
pub mod rate;

pub use air::{Air, Setup};
pub use mac::{HwsimMac, Traffic};
pub use message::Malformed;

#[cfg(test)]
mod tests;
