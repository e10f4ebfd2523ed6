//! The physical layer: modes, durations, errors, signal.
//!
//! [`mode`] is the table of all modes of a PPDU, and [`timing`] has their durations. [`errors`] has
//! the success probability of an MPDU at a given SNR, [`signal`] the SNR between two devices,
//! [`mobility`] their distance.

pub mod errors;
pub mod mobility;
pub mod mode;
pub mod signal;
pub mod timing;
pub mod wavelan;

pub use errors::{Decoding, ErrorConfig, ErrorModel};
pub use mobility::{Motion, Track};
pub use mode::{CodeRate, Format, Mode, Modulation, Width};
pub use signal::{
    BitErrorsConfig, BurstConfig, Distance, ErrorRateConfig, Interpolation, PathLossConfig, PerfectConfig, Quality,
    RateTable, ShadowingConfig, Signal, SignalConfig, SignalRules, SnrConfig, TraceConfig,
};
pub use timing::{Band, EdcaParams, Framing, PhyConfig, Protection, Standard, Timing, edca_defaults};
pub use wavelan::{Backoff, WavelanConfig};
