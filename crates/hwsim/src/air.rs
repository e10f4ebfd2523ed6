//! The medium with the radios of kernels on it.

use std::sync::Arc;

use airtcp_core::rng::{Purpose, Stream};
use airtcp_core::units::Time;
use airtcp_core::wifi::medium::{Medium, MediumSetup, PathSetup, RadioSetup};
use airtcp_core::wifi::phy::{ErrorModel, Signal, edca_defaults};
use airtcp_core::wifi::{ChannelConfig, Occupancy, RadioConfig, RadioId};

use crate::mac::HwsimMac;
use crate::message::{Malformed, Sent};

/// Configuration of a medium of kernels: radios, pairs and signals, as the simulator has them.
pub type Setup = ChannelConfig;

/// See the module.
#[derive(Debug)]
pub struct Air {
    medium: Medium,
    /// The part of the radios above the medium.
    pub mac: HwsimMac,
}

impl Air {
    /// A medium on which nobody has sent anything. The radio at place `n` has the address
    /// [`crate::frame::address`]`(n)`.
    ///
    /// Signals and their random numbers are those of a simulation with this set-up.
    pub fn new(setup: &Setup) -> Air {
        Air::of(setup, |radio| setup.pairs.iter().any(|pair| pair.access_point == radio))
    }

    /// A medium of radios of which it is not known who is an access point: all contend as stations.
    pub fn of_equals(setup: &Setup) -> Air {
        Air::of(setup, |_| false)
    }

    fn of(setup: &Setup, is_ap: impl Fn(RadioId) -> bool) -> Air {
        let component = |i: usize| u64::from(setup.index) << 32 | i as u64;
        let mut radios: Vec<RadioSetup> = Vec::new();
        let mut of_mac = Vec::new();
        let radio = |config: &RadioConfig, is_ap| {
            let timing = Arc::new(config.phy.timing());
            RadioSetup {
                edca: edca_defaults(&timing, is_ap),
                timing,
                // A kernel's frames have categories, whatever the scenario's radio does.
                has_qos: true,
                eifs: config.eifs,
                retry_limit: config.retries.frame_tries,
                wavelan: None,
                hears_one_by_one: false,
            }
        };
        for (place, config) in setup.radios.iter().enumerate() {
            let own = radio(config, is_ap(RadioId::at(place)));
            of_mac.push((Arc::clone(config), Arc::clone(&own.timing), own.edca.map(|edca| edca.txop)));
            radios.push(own);
        }
        // For frames to addresses that nobody has: it has no signal.
        radios.extend(setup.radios.first().map(|config| radio(config, false)));
        let errors = ErrorModel::default();
        let path = |(i, pair): (usize, &airtcp_core::wifi::PairConfig)| {
            let name = Stream::new(setup.seed, component(i), Purpose::Signal);
            let phy = &setup.radios[pair.station.index()].phy;
            let mut signal = Signal::new(&pair.signal, phy, &errors, name);
            if let Some(motion) = &pair.motion {
                signal.follow(motion.clone());
            }
            PathSetup { ends: (pair.station, pair.access_point), signal }
        };
        let medium = Medium::new(MediumSetup {
            radios,
            paths: setup.pairs.iter().enumerate().map(path).collect(),
            groups: setup.groups.clone(),
            hidden: setup.hidden.clone(),
            sensing: setup.sensing,
            capture_effect: setup.capture_effect.get(),
            seed: setup.seed,
            index: setup.index,
            reports_control: false,
        });
        Air { medium, mac: HwsimMac::new(of_mac) }
    }

    /// When something happens next.
    pub fn deadline(&mut self) -> Time {
        self.medium.deadline()
    }

    /// Everything that happens up to this time.
    pub fn run_until(&mut self, time: Time) {
        loop {
            let now = self.medium.deadline();
            if now > time || now == Time::NEVER {
                self.mac.form_due(time);
                return;
            }
            self.mac.form_due(now);
            while self.medium.advance(now, &mut self.mac) || self.medium.begin_next(now, &mut self.mac) {}
        }
    }

    /// A kernel's message, now.
    ///
    /// # Errors
    /// It is none. Nothing has changed then.
    pub fn take_in(&mut self, now: Time, radio: RadioId, message: &[u8]) -> Result<(), Malformed> {
        let Some(sent) = Sent::read(message)? else { return Ok(()) };
        self.frame(now, radio, sent);
        Ok(())
    }

    /// A kernel's frame, now.
    pub(crate) fn frame(&mut self, now: Time, radio: RadioId, sent: Sent) {
        if let Some(ac) = self.mac.take_in(now, radio, sent) {
            self.medium.on_frame(now, radio, ac);
        }
    }

    /// How its time was spent up to now.
    pub fn occupancy(&self, now: Time) -> Occupancy {
        self.medium.occupancy(now)
    }
}
