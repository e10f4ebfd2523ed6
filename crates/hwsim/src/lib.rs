//! airtcp's 802.11 medium for the simulated radios of Linux (`mac80211_hwsim`): the kernel's Wi-Fi
//! stack decides what is sent and at which rate, and the medium when it is sent and what of it
//! arrives.
//!
//! [`message`] is the protocol between a kernel and its medium, [`frame`] what must be known of a
//! frame, [`rate`] the kernel's names of modes. [`HwsimMac`] is a table of frames that kernels have
//! handed over, and [`Air`] the medium with it. Nothing here does I/O or reads a clock: a driver
//! carries messages between [`Air`] and kernels.
//!
//! Two ways lead to a kernel, with the same messages. A virtio device has one radio, and its driver
//! calls [`Air`] itself. Over generic netlink [`Conversation`] stands between: a process registers
//! as the medium of all radios of one kernel. [`wmediumd`] reads the configuration of the medium
//! that was used so before.
//!
//! With the patches of `kernel/mac80211-hwsim` kernels mark frames that may be aggregated, take
//! frames that arrive damaged, and stop their queues while the air is busy. Over virtio they are
//! needed; over netlink [`sessions`] stands in for the marks.

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
pub mod libconfig;
pub mod mac;
pub mod message;
pub mod netlink;
pub mod rate;
pub mod sessions;
pub mod wmediumd;

pub use air::{Air, Setup};
pub use mac::{HwsimMac, Traffic};
pub use message::Malformed;
pub use netlink::{Conversation, Module};

#[cfg(test)]
mod tests;
