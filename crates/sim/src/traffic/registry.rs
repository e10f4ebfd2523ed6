//! The registry of kinds of traffic: name → what a scenario file says of it → both ends of a flow.

/// Declares all kinds. `module => Config` names a file `module.rs` with a type `Config`, the
/// parameters in scenario files. Under `tcp` it is an application and implements [`super::App`];
/// under `alone` it is a protocol of its own and implements [`super::Kind`]. The scenario name is
/// `module`.
///
/// A kind is written as a table with a `kind` key (`{ kind = "ping", interval = "10ms" }`) or,
/// where all its parameters have a default, as its name (`"ping"`).
macro_rules! kinds {
    (
        tcp { $($app:ident => $app_config:ident),+ $(,)? }
        alone { $($kind:ident => $config:ident),+ $(,)? }
    ) => {
        $(pub mod $app; pub use $app::$app_config;)+
        $(pub mod $kind; pub use $kind::$config;)+

        /// Traffic of a flow: the name of a kind with its defaults, or a table with `kind` and its
        /// parameters.
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        #[allow(missing_docs)] // each variant is the type it is named after
        pub enum TrafficConfig { $($app_config($app_config),)+ $($config($config)),+ }

        /// Applications on TCP.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs)] // each variant is the type it is named after
        pub enum TcpApp { $($app_config($app_config)),+ }

        /// Traffic of a flow, fully determined.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs)] // each variant is the type it is named after
        pub enum Traffic {
            /// An application on TCP.
            Tcp {
                /// Options of the sending end.
                sender: std::sync::Arc<TcpConfig>,
                /// Options of the receiving end.
                receiver: std::sync::Arc<TcpConfig>,
                /// The receiving application reads no faster; `None`: at once.
                read_rate: Option<DataRate>,
                /// The application, which decides when there is something to send.
                app: TcpApp,
            },
            $($config($config),)+
            /// The cooperative daemon of `from`; `to` is its access point. It caps the TCP flows
            /// that begin at `from` and come before it in [`crate::spec::RunSpec::flows`].
            Daemon(std::sync::Arc<CoopConfig>),
            /// Packets of real programs on `from` to such on `to`. They enter by
            /// [`crate::world::World::inject`] and leave by
            /// [`crate::world::World::take_egress`].
            External,
        }

        /// A running application on TCP.
        #[derive(Debug)]
        pub(crate) enum AnyApp { $($app_config(<$app_config as App>::Running)),+ }

        /// Both ends of a flow.
        #[allow(clippy::large_enum_variant)] // TCP flows are the many and the hot ones: in place
        pub(crate) enum AnyEnds {
            Tcp(Tcp),
            $($config(<$config as Kind>::Ends),)+
            /// The world drives it: it needs other flows.
            Daemon(Box<Host>),
            /// Neither end is simulated.
            External(External),
        }

        impl TrafficConfig {
            /// Every kind, in the order of registration.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($app),)+ $(stringify!($kind)),+];

            /// The kinds as an axis of the registry of policies.
            pub const AXIS: airtcp_core::policy::Axis = airtcp_core::policy::Axis {
                key: "traffic",
                what: "a kind of traffic",
                place: "`traffic` of a flow",
                definition: "Traffic",
                pages: &[
                    $(airtcp_core::page!($app, $app_config),)+
                    $(airtcp_core::page!($kind, $config)),+
                ],
            };

            /// The name by which scenario files call it.
            pub fn name(&self) -> &'static str {
                match self {
                    $(TrafficConfig::$app_config(_) => stringify!($app),)+
                    $(TrafficConfig::$config(_) => stringify!($kind)),+
                }
            }
            /// The kind of that name with its default parameters; `None` if it is unknown or needs
            /// some.
            pub fn by_name(name: &str) -> Option<TrafficConfig> {
                $(if name == stringify!($app) {
                    return <$app_config as App>::by_default().map(TrafficConfig::$app_config);
                })+
                $(if name == stringify!($kind) {
                    return <$config as Kind>::by_default().map(TrafficConfig::$config);
                })+
                None
            }
            /// Reports errors in the parameters.
            pub(crate) fn check(&self, faults: &mut Faults) {
                match self {
                    $(TrafficConfig::$app_config(c) => App::check(c, faults),)+
                    $(TrafficConfig::$config(c) => Kind::check(c, faults)),+
                }
            }
            /// The application if it is one on TCP, otherwise all that such a flow is.
            pub(crate) fn carried(&self) -> Carried {
                match self {
                    $(TrafficConfig::$app_config(c) => Carried::ByTcp(TcpApp::$app_config(c.clone())),)+
                    $(TrafficConfig::$config(c) => Carried::Alone(Traffic::$config(c.clone()))),+
                }
            }
        }

        impl TcpApp {
            /// Every application, in the order of registration.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($app)),+];

            pub(crate) fn build(&self, ctx: &Context) -> Result<AnyApp, BuildError> {
                Ok(match self { $(TcpApp::$app_config(c) => AnyApp::$app_config(c.build(ctx)?)),+ })
            }
            /// See [`App::IS_ONE_CONNECTION`].
            pub(crate) fn is_one_connection(&self) -> bool {
                match self { $(TcpApp::$app_config(_) => <$app_config as App>::IS_ONE_CONNECTION),+ }
            }
            /// It sends all it has, whenever the flow stops.
            pub(crate) fn outlasts_stop(&self) -> bool {
                match self { $(TcpApp::$app_config(_) => <$app_config as App>::OUTLASTS_STOP),+ }
            }
        }

        impl std::ops::Deref for AnyApp {
            type Target = dyn Running;
            #[inline]
            fn deref(&self) -> &Self::Target {
                match self { $(AnyApp::$app_config(app) => app),+ }
            }
        }
        impl std::ops::DerefMut for AnyApp {
            #[inline]
            fn deref_mut(&mut self) -> &mut Self::Target {
                match self { $(AnyApp::$app_config(app) => app),+ }
            }
        }

        impl Traffic {
            /// The largest packet that a flow of this kind sends, bytes at the IP layer; 0 if it
            /// does not count.
            pub(crate) fn packet_bytes(&self) -> u16 {
                match self {
                    Traffic::Tcp { sender, .. } => sender.connection.packet_bytes,
                    $(Traffic::$config(c) => c.packet_bytes(),)+
                    Traffic::Daemon(_) => 0,
                    Traffic::External => datagram_bytes(),
                }
            }
            /// The destination sends packets, too.
            pub(crate) fn is_answered(&self) -> bool {
                match self {
                    Traffic::Tcp { .. } => true,
                    $(Traffic::$config(_) => <$config as Kind>::IS_ANSWERED,)+
                    Traffic::Daemon(_) | Traffic::External => false,
                }
            }
            /// Its two ends share nothing but packets.
            pub(crate) fn may_part(&self) -> bool {
                match self {
                    Traffic::Tcp { read_rate, app, .. } => read_rate.is_none() && app.is_one_connection(),
                    $(Traffic::$config(_) => <$config as Kind>::MAY_PART,)+
                    Traffic::Daemon(_) | Traffic::External => false,
                }
            }
            /// Packets that the source sends within a span at most, and whether each is remembered;
            /// 0: as many as the network lets it.
            pub(crate) fn packets_within(&self, span: Span) -> (u64, bool) {
                match self {
                    $(Traffic::$config(c) => (c.packets_within(span), <$config as Kind>::REMEMBERS_PACKETS),)+
                    Traffic::Tcp { .. } | Traffic::Daemon(_) | Traffic::External => (0, false),
                }
            }
            /// As the table of flows calls it.
            pub(crate) fn kind(&self) -> &'static str {
                match self {
                    Traffic::Tcp { .. } => "tcp",
                    $(Traffic::$config(_) => stringify!($kind),)+
                    Traffic::Daemon(_) => "daemon",
                    Traffic::External => "external",
                }
            }
            /// Both ends of a flow of a kind of its own; `None` for TCP and daemons, which need
            /// more.
            pub(crate) fn build(&self, ctx: &Context) -> Result<Option<AnyEnds>, BuildError> {
                Ok(match self {
                    $(Traffic::$config(c) => Some(AnyEnds::$config(c.build(ctx)?)),)+
                    Traffic::External => Some(AnyEnds::External(External::default())),
                    Traffic::Tcp { .. } | Traffic::Daemon(_) => None,
                })
            }
        }

        /// Figures of flows in tables and summaries besides those common to all kinds, kind by
        /// kind.
        pub(crate) fn figures() -> impl Iterator<Item = &'static Figure> {
            [$(<$config as Kind>::FIGURES),+].into_iter().flatten()
        }

        /// Tables that only some kinds fill, in the order of registration.
        pub(crate) fn tables() -> Tables {
            let mut tables = Tables::default();
            $(<$config as Kind>::declare(&mut tables);)+
            tables
        }

        impl AnyEnds {
            /// When the source end has something to do.
            #[inline]
            pub(crate) fn deadline(&self) -> Time {
                match self {
                    AnyEnds::Tcp(e) => e.deadline(),
                    $(AnyEnds::$config(e) => e.deadline(),)+
                    AnyEnds::Daemon(e) => e.deadline(),
                    AnyEnds::External(_) => Time::NEVER,
                }
            }
            /// When the destination end has something to do.
            #[inline]
            pub(crate) fn destination_deadline(&self) -> Time {
                match self {
                    AnyEnds::Tcp(e) => e.destination_deadline(),
                    $(AnyEnds::$config(e) => e.destination_deadline(),)+
                    AnyEnds::Daemon(_) | AnyEnds::External(_) => Time::NEVER,
                }
            }
            /// Loads what a packet needs that reaches the source, or the destination, so that it
            /// will not be waited for.
            #[inline]
            pub(crate) fn prefetch(&self, is_source: bool) {
                match self {
                    AnyEnds::Tcp(e) if is_source => e.sender.prefetch(),
                    AnyEnds::Tcp(e) => e.receiver.prefetch(),
                    _ => {}
                }
            }
            pub(crate) fn on_deadline(&mut self, now: Time, out: &mut Outputs, log: &mut Log) {
                match self {
                    AnyEnds::Tcp(e) => e.on_deadline(now, out, log),
                    $(AnyEnds::$config(e) => e.on_deadline(now, out),)+
                    AnyEnds::Daemon(_) | AnyEnds::External(_) => {}
                }
            }
            pub(crate) fn on_destination_deadline(&mut self, now: Time, out: &mut Outputs) {
                match self {
                    AnyEnds::Tcp(e) => e.on_destination_deadline(now, out),
                    $(AnyEnds::$config(e) => e.on_destination_deadline(now, out),)+
                    AnyEnds::Daemon(_) | AnyEnds::External(_) => {}
                }
            }
            /// A packet has arrived at one of the ends: at the source if it is a reverse one.
            #[inline]
            pub(crate) fn on_packet(&mut self, now: Time, packet: &Packet, out: &mut Outputs, log: &mut Log) {
                match self {
                    AnyEnds::Tcp(e) => e.on_packet(now, packet, out, log),
                    $(AnyEnds::$config(e) => e.on_packet(now, packet, out),)+
                    AnyEnds::Daemon(_) | AnyEnds::External(_) => {}
                }
            }
            /// As [`Self::on_packet`], of several segments that came up as one packet.
            pub(crate) fn on_merged(&mut self, now: Time, merged: &Merged, more: bool, out: &mut Outputs, log: &mut Log) {
                match self {
                    AnyEnds::Tcp(e) => e.on_merged(now, merged, more, out, log),
                    // Only segments of TCP are merged.
                    $(AnyEnds::$config(e) => e.on_packet(now, &merged.packet, out),)+
                    AnyEnds::Daemon(_) | AnyEnds::External(_) => {}
                }
            }
            /// Takes the destination from another copy of the flow.
            pub(crate) fn join(&mut self, destination: AnyEnds) {
                match (self, destination) {
                    (AnyEnds::Tcp(e), AnyEnds::Tcp(other)) => e.join(other),
                    $((AnyEnds::$config(e), AnyEnds::$config(other)) => e.join(other),)+
                    _ => {}
                }
            }
            pub(crate) fn counters(&self, now: Time) -> Counters {
                match self {
                    AnyEnds::Tcp(e) => e.counters(now),
                    $(AnyEnds::$config(e) => e.counters(),)+
                    AnyEnds::Daemon(_) => Counters::default(),
                    AnyEnds::External(e) => e.counters(),
                }
            }
            /// Reports a flow that tables of flows list.
            pub(crate) fn report(&self, period: &Period, report: &mut Report) {
                match self {
                    AnyEnds::Tcp(e) => e.report(period, report),
                    $(AnyEnds::$config(e) => e.report(period, report),)+
                    AnyEnds::Daemon(_) => {}
                    AnyEnds::External(e) => e.report(period, report),
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for TrafficConfig {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                #[serde(tag = "kind", rename_all = "snake_case")]
                enum Tagged { $($app_config($app_config),)+ $($config($config)),+ }
                struct V;
                impl<'de> serde::de::Visitor<'de> for V {
                    type Value = TrafficConfig;
                    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                        let names = TrafficConfig::NAMES.join(", ");
                        write!(f, "a kind of traffic, one of {names}, or a table with that `kind` and its parameters")
                    }
                    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<TrafficConfig, E> {
                        TrafficConfig::by_name(name).ok_or_else(|| E::unknown_variant(name, TrafficConfig::NAMES))
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<TrafficConfig, A::Error> {
                        <Tagged as serde::Deserialize>::deserialize(serde::de::value::MapAccessDeserializer::new(map))
                            .map(|tagged| match tagged {
                                $(Tagged::$app_config(c) => TrafficConfig::$app_config(c),)+
                                $(Tagged::$config(c) => TrafficConfig::$config(c)),+
                            })
                    }
                }
                d.deserialize_any(V)
            }
        }

        impl schemars::JsonSchema for TrafficConfig {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                "Traffic".into()
            }
            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                #[derive(schemars::JsonSchema)]
                #[schemars(tag = "kind", rename_all = "snake_case")]
                #[allow(dead_code)]
                enum Tagged { $($app_config($app_config),)+ $($config($config)),+ }
                let names: Vec<&str> =
                    TrafficConfig::NAMES.iter().copied().filter(|name| TrafficConfig::by_name(name).is_some()).collect();
                let tables = <Tagged as schemars::JsonSchema>::json_schema(generator);
                schemars::json_schema!({
                    "description": "What a flow carries: the name of a kind with its defaults, or a table with `kind` and its parameters.",
                    "anyOf": [{ "type": "string", "enum": names }, tables],
                })
            }
        }
    };
}
