use super::{Mode, PhyConfig};
use crate::rng::Rng;
use crate::units::Time;
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct SignalConfig {}
#[derive(Debug, Clone, Copy)]
pub enum Quality { Perfect, Rate(f64), SnrDb(f32) }
impl Quality { pub fn is_perfect(self) -> bool { matches!(self, Quality::Perfect) } }
#[derive(Debug)]
pub struct Signal {}
impl Signal {
    pub fn new(_: &SignalConfig, _: &PhyConfig, _: Rng) -> Signal { Signal {} }
    pub fn link(&mut self, _: Time) -> Quality { Quality::Perfect }
    pub fn mpdu_success(&self, _: Quality, _: Mode, _: u32) -> f64 { 1.0 }
    pub fn header_success(&self, _: Quality, _: Mode, _: u32) -> f64 { 1.0 }
    pub fn preamble_success(&self, _: Quality, _: Mode) -> f64 { 1.0 }
}
