//! The registry of policies: name → policy, its parameters, its schema.
//!
//! A policy axis (congestion control, loss policy, queue discipline) is one trait and one call of [`policies!`] in the
//! axis's `mod.rs`. A new policy is one file beside that `mod.rs` and one line in the call; its name in scenario files,
//! its schema and its place in the completeness tests follow from that line.

/// Declares an axis. `module => Policy / PolicyConfig` names a file `module.rs` with a type `Policy` that implements the
/// axis's trait and a type `PolicyConfig` with `fn build(&self, ctx: &Ctx) -> Policy`. The scenario name is `module`.
///
/// A configuration is written as a name (`"cubic"`: all defaults) or a table with a `name` key
/// (`{ name = "cubic", fast_convergence = false }`).
macro_rules! policies {
    (
        $(#[$any_doc:meta])* $any:ident: $trait:ident,
        $(#[$config_doc:meta])* $config:ident($what:literal), built with $ctx:ty {
            $($module:ident => $policy:ident / $policy_config:ident),+ $(,)?
        }
    ) => {
        $(pub mod $module; pub use $module::{$policy, $policy_config};)+

        $(#[$any_doc])*
        #[derive(Debug, Clone)]
        #[allow(clippy::large_enum_variant)] // one per flow or link, held in place on purpose
        pub enum $any { $($policy($policy)),+ }

        impl std::ops::Deref for $any {
            type Target = dyn $trait + Send;
            #[inline]
            fn deref(&self) -> &Self::Target {
                match self { $($any::$policy(p) => p),+ }
            }
        }
        impl std::ops::DerefMut for $any {
            #[inline]
            fn deref_mut(&mut self) -> &mut Self::Target {
                match self { $($any::$policy(p) => p),+ }
            }
        }

        $(#[$config_doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[serde(tag = "name", rename_all = "snake_case")]
        pub enum $config { $($policy($policy_config)),+ }

        impl $config {
            /// Every registered name, in the order of registration.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($module)),+];

            pub fn name(&self) -> &'static str {
                match self { $($config::$policy(_) => stringify!($module)),+ }
            }
            /// The policy of that name with its default parameters.
            pub fn by_name(name: &str) -> Option<$config> {
                $(if name == stringify!($module) { return Some($config::$policy(<$policy_config>::default())); })+
                None
            }
            pub fn build(&self, ctx: &$ctx) -> $any {
                match self { $($config::$policy(c) => $any::$policy(c.build(ctx))),+ }
            }
        }

        impl<'de> serde::Deserialize<'de> for $config {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                #[serde(tag = "name", rename_all = "snake_case")]
                enum Tagged { $($policy($policy_config)),+ }
                struct V;
                impl<'de> serde::de::Visitor<'de> for V {
                    type Value = $config;
                    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                        write!(f, concat!("the name of ", $what, ", one of {}, or a table with that `name` and its parameters"), $config::NAMES.join(", "))
                    }
                    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<$config, E> {
                        $config::by_name(name).ok_or_else(|| E::unknown_variant(name, $config::NAMES))
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<$config, A::Error> {
                        <Tagged as serde::Deserialize>::deserialize(serde::de::value::MapAccessDeserializer::new(map))
                            .map(|t| match t { $(Tagged::$policy(c) => $config::$policy(c)),+ })
                    }
                }
                d.deserialize_any(V)
            }
        }

        impl schemars::JsonSchema for $config {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($config).into()
            }
            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                #[derive(schemars::JsonSchema)]
                #[schemars(tag = "name", rename_all = "snake_case")]
                #[allow(dead_code)]
                enum Tagged { $($policy($policy_config)),+ }
                let tables = <Tagged as schemars::JsonSchema>::json_schema(generator);
                schemars::json_schema!({ "anyOf": [{ "type": "string", "enum": $config::NAMES }, tables] })
            }
        }
    };
}

/// Serialisation of a configuration whose values are checked, alone and against each other, by `fn check(&self) ->
/// Result<(), String>` before it exists. The type derives serde's traits with `remote = "Self"`.
macro_rules! checked {
    ($config:ty) => {
        impl serde::Serialize for $config {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                <$config>::serialize(self, s)
            }
        }
        impl<'de> serde::Deserialize<'de> for $config {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let config = <$config>::deserialize(d)?;
                config.check().map_err(serde::de::Error::custom)?;
                Ok(config)
            }
        }
    };
}
pub(crate) use {checked, policies};
