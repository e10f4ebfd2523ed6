//! The registry of policies: name → policy, its parameters, its schema, its page.
//!
//! A policy axis (congestion control, loss policy, queue discipline) is one trait and one call of
//! [`policies!`] in the axis's `mod.rs`. A new policy is one file beside that `mod.rs` and one line
//! in the call; its name in scenario files, its schema, its page (`airtcp explain`) and its place
//! in the completeness tests follow from that line. A new axis is also one line in [`AXES`].

mod choice;

pub use choice::Choice;

/// One axis of the registry, for whatever goes over all policies: lists of names and pages.
#[derive(Debug, Clone, Copy)]
pub struct Axis {
    /// Name of the axis: `airtcp list` and `airtcp explain` go by it.
    pub key: &'static str,
    /// Noun for one of its policies, with the article: "a congestion control".
    pub what: &'static str,
    /// Where a scenario names one.
    pub place: &'static str,
    /// Its definition in the JSON Schema.
    pub definition: &'static str,
    /// Its policies, in the order of registration.
    pub pages: &'static [Page],
}

impl Axis {
    /// The parts that its pages lack, one line each; a test of every axis finds none.
    pub fn lacking(&self) -> Vec<String> {
        let mut lacking = Vec::new();
        for page in self.pages {
            if !page.decides().ends_with('.') {
                lacking.push(format!("{}/{}: a first paragraph about its decision", self.key, page.name));
            }
            for label in Page::LABELS {
                if !page.part(label).is_some_and(|text| text.ends_with('.')) {
                    lacking.push(format!("{}/{}: a paragraph `{label}: ...`", self.key, page.name));
                }
            }
        }
        lacking
    }
}

/// Every axis of this crate. The simulator adds kinds of traffic.
pub const AXES: &[Axis] = &[
    crate::tcp::cc::CcConfig::axis("cc", "`cc` in the `tcp` table of a flow"),
    crate::tcp::loss::LossConfig::axis("loss", "`loss` in the `tcp` table of a flow"),
    crate::queue::QueueConfig::axis("queue", "`queue` of a link"),
    crate::wifi::transmit::TransmitConfig::axis("transmit", "`transmit` of a WLAN's radios"),
    crate::receive::ReceiveOffloadConfig::axis("receive_offload", "`receive_offload` of a host"),
    crate::wifi::rate::RateConfig::axis("rate_control", "`rate_control` of a WLAN or one of its stations"),
    crate::wifi::retry_out::RetryOutConfig::axis("retry_out", "`retry_out` of a WLAN's access point"),
    crate::wifi::phy::SignalConfig::axis("signal", "`signal` of a WLAN or one of its stations"),
];

/// A policy's page: the comment that opens its file.
///
/// Its first paragraph says what the policy decides. One paragraph each begins with the labels of
/// [`Page::LABELS`]; the other paragraphs say how the policy works.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// The policy's name in scenario files.
    pub name: &'static str,
    /// The policy's type in Rust, as other pages may link to it.
    pub rust_type: &'static str,
    comment: &'static str,
}

impl Page {
    /// Labels of the paragraphs that every page has: where the policy comes from, how it differs
    /// from its siblings, where it is valid, and where it deviates from its source.
    pub const LABELS: [&'static str; 4] = ["Source", "Siblings", "Valid", "Deviations"];

    #[doc(hidden)]
    pub const fn new(name: &'static str, rust_type: &'static str, comment: &'static str) -> Page {
        Page { name, rust_type, comment }
    }

    /// The page as Markdown.
    pub fn text(&self) -> String {
        let lines = self.comment.lines().map(|line| {
            let text = line.strip_prefix("//!").unwrap_or(line);
            text.strip_prefix(' ').unwrap_or(text)
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The decision that the policy makes: the first paragraph.
    pub fn decides(&self) -> String {
        self.text().split("\n\n").next().unwrap_or_default().to_owned()
    }

    /// The paragraph that begins with this label, without the label.
    pub fn part(&self, label: &str) -> Option<String> {
        let text = self.text();
        text.split("\n\n").skip(1).find_map(|p| Some(p.strip_prefix(label)?.strip_prefix(": ")?.to_owned()))
    }

    /// The rest of the page, paragraph by paragraph.
    pub fn details(&self) -> Vec<String> {
        let labelled =
            |p: &str| Page::LABELS.iter().any(|l| p.strip_prefix(l).is_some_and(|rest| rest.starts_with(": ")));
        self.text().split("\n\n").skip(1).filter(|p| !labelled(p)).map(str::to_owned).collect()
    }
}

/// Length of the `//!` comment at the start of a source file.
#[doc(hidden)]
pub const fn opening_length(source: &str) -> usize {
    let source = source.as_bytes();
    let mut end = 0;
    loop {
        if end + 2 >= source.len() || source[end] != b'/' || source[end + 1] != b'/' || source[end + 2] != b'!' {
            return end;
        }
        while end < source.len() && source[end] != b'\n' {
            end += 1;
        }
        if end < source.len() {
            end += 1;
        }
    }
}

/// The first `N` bytes of a source file, on their own: the rest of the file stays out of the
/// binary.
#[doc(hidden)]
pub const fn opening<const N: usize>(source: &str) -> [u8; N] {
    let mut copy = [0; N];
    let mut at = 0;
    while at < N {
        copy[at] = source.as_bytes()[at];
        at += 1;
    }
    copy
}

/// The [`Page`] of the file `module.rs` beside the file that calls this, for the type of that name.
#[macro_export]
macro_rules! page {
    ($module:ident, $rust_type:ident) => {{
        const SOURCE: &str = include_str!(concat!(stringify!($module), ".rs"));
        const COMMENT: &[u8] = &$crate::policy::opening::<{ $crate::policy::opening_length(SOURCE) }>(SOURCE);
        match std::str::from_utf8(COMMENT) {
            Ok(comment) => $crate::policy::Page::new(stringify!($module), stringify!($rust_type), comment),
            Err(_) => panic!("a comment is whole lines"),
        }
    }};
}

/// Declares an axis. `module => Policy / PolicyConfig` names a file `module.rs` with a type
/// `Policy` that implements the axis's trait and a type `PolicyConfig` with `fn build(&self, ctx:
/// &Ctx) -> Policy`. The scenario name is `module`. The comment that opens `module.rs` is the
/// policy's [`Page`](crate::policy::Page); parts of a large policy are files in a folder `module/`
/// beside it.
///
/// A configuration is written as a name (`"cubic"`: all defaults) or a table with a `name` key
/// (`{ name = "cubic", fast_convergence = false }`). An axis may have another key than `name`:
/// `Config("a signal", by "kind")`. A policy with a parameter that must be given has no defaults,
/// and is written as a table only.
///
/// `Policy in Box` keeps a policy that is much larger than most by itself: each flow has room for
/// the largest of the others.
///
/// `Config("a signal"): Rules` says that every configuration of the axis implements the trait
/// `Rules`. The enum of configurations then has its methods as well. So questions to a policy that
/// is not built yet are answered in the policy's own file.
macro_rules! policies {
    (
        $(#[$any_doc:meta])* $any:ident: $trait:ident,
        $(#[$config_doc:meta])* $config:ident($what:literal) $(: $rules:ident)?, built with $ctx:ty {
            $($lines:tt)+
        }
    ) => {
        $crate::policy::policies! {
            $(#[$any_doc])* $any: $trait,
            $(#[$config_doc])* $config($what, by "name") $(: $rules)?, built with $ctx { $($lines)+ }
        }
    };
    (@held $policy:ident) => { $policy };
    (@held $policy:ident $held:ident) => { $held<$policy> };
    (@rules $config:ident: [$($policy:ident)+]) => {};
    (@rules $config:ident: [$($policy:ident)+] $rules:ident) => {
        impl std::ops::Deref for $config {
            type Target = dyn $rules;
            fn deref(&self) -> &Self::Target {
                match self { $($config::$policy(c) => c),+ }
            }
        }
    };
    (
        $(#[$any_doc:meta])* $any:ident: $trait:ident,
        $(#[$config_doc:meta])* $config:ident($what:literal, by $tag:literal) $(: $rules:ident)?, built with $ctx:ty {
            $($module:ident => $policy:ident $(in $held:ident)? / $policy_config:ident),+ $(,)?
        }
    ) => {
        $(pub mod $module; pub use $module::{$policy, $policy_config};)+

        $(#[$any_doc])*
        #[derive(Debug)]
        #[allow(clippy::large_enum_variant)] // one per flow or link, held in place on purpose
        #[allow(missing_docs)] // the page of each policy says what it is
        pub enum $any { $($policy($crate::policy::policies!(@held $policy $($held)?))),+ }

        impl std::ops::Deref for $any {
            type Target = dyn $trait + Send;
            #[inline]
            fn deref(&self) -> &Self::Target {
                match self {
                    $($any::$policy(p) => {
                        let p: &$policy = p;
                        p
                    })+
                }
            }
        }
        impl std::ops::DerefMut for $any {
            #[inline]
            fn deref_mut(&mut self) -> &mut Self::Target {
                match self {
                    $($any::$policy(p) => {
                        let p: &mut $policy = p;
                        p
                    })+
                }
            }
        }

        $(#[$config_doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[serde(tag = $tag, rename_all = "snake_case")]
        #[allow(missing_docs)] // the page of each policy says what it is
        pub enum $config { $($policy($policy_config)),+ }

        $crate::policy::policies! { @rules $config: [$($policy)+] $($rules)? }

        impl $config {
            /// Every registered name, in the order of registration.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($module)),+];

            pub(crate) const fn axis(key: &'static str, place: &'static str) -> $crate::policy::Axis {
                const PAGES: &[$crate::policy::Page] = &[$($crate::page!($module, $policy)),+];
                $crate::policy::Axis { key, what: $what, place, definition: stringify!($config), pages: PAGES }
            }

            /// Its name in a scenario.
            pub fn name(&self) -> &'static str {
                match self { $($config::$policy(_) => stringify!($module)),+ }
            }
            /// The policy of that name with its default parameters; `None` if there is none, or if
            /// it needs parameters.
            pub fn by_name(name: &str) -> Option<$config> {
                $(if name == stringify!($module) {
                    return $crate::policy::defaults::<$policy_config>().map($config::$policy);
                })+
                None
            }
            /// The policy with these parameters.
            pub fn build(&self, ctx: &$ctx) -> $any {
                match self { $($config::$policy(c) => $any::$policy(c.build(ctx).into())),+ }
            }
        }

        impl<'de> serde::Deserialize<'de> for $config {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                #[serde(tag = $tag, rename_all = "snake_case")]
                enum Tagged { $($policy($policy_config)),+ }
                struct V;
                impl<'de> serde::de::Visitor<'de> for V {
                    type Value = $config;
                    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                        write!(f, concat!("the name of ", $what, ", one of {}, or a table with that `", $tag, "` and its parameters"), $config::NAMES.join(", "))
                    }
                    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<$config, E> {
                        $config::by_name(name).ok_or_else(|| match $config::NAMES.contains(&name) {
                            true => E::custom(format!(
                                concat!("`{}` needs parameters: write a table with `", $tag, "` = \"{}\" and them"),
                                name, name
                            )),
                            false => E::unknown_variant(name, $config::NAMES),
                        })
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
                #[schemars(tag = $tag, rename_all = "snake_case")]
                #[allow(dead_code)]
                enum Tagged { $($policy($policy_config)),+ }
                let tables = <Tagged as schemars::JsonSchema>::json_schema(generator);
                let with_defaults = |name: &&&str| $config::by_name(name).is_some();
                let alone: Vec<&str> = $config::NAMES.iter().filter(with_defaults).copied().collect();
                let alone = schemars::json_schema!({ "type": "string", "enum": alone });
                // The macro would copy the tables, key by key.
                let mut either = schemars::Schema::default();
                either.insert("anyOf".to_owned(), vec![alone.to_value(), tables.to_value()].into());
                either
            }
        }
    };
}

/// A configuration of which nothing is written; `None` if it needs parameters.
pub(crate) fn defaults<T: serde::de::DeserializeOwned>() -> Option<T> {
    let nothing = std::iter::empty::<((), ())>();
    T::deserialize(serde::de::value::MapDeserializer::<_, serde::de::value::Error>::new(nothing)).ok()
}

/// Serialisation of a configuration whose values are checked, alone and against each other, by `fn
/// check(&self) -> Result<(), String>` before it exists. The type derives serde's traits with
/// `remote = "Self"`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_the_comment_that_opens_the_policys_file() {
        let axis = AXES.iter().find(|axis| axis.key == "cc").unwrap();
        let reno = axis.pages.iter().find(|page| page.name == "reno").unwrap();
        let file = include_str!("tcp/cc/reno.rs");
        assert!(file.starts_with(reno.comment));
        assert!(!file[reno.comment.len()..].starts_with("//!"));
        assert_eq!(reno.rust_type, "Reno");
        assert!(reno.decides().starts_with("Reno: "), "{}", reno.decides());
        assert_eq!(opening_length("fn no_comment() {}"), 0);
        assert_eq!(opening_length("//! To the end"), 14);
        assert_eq!(opening_length("//! One\n//! two\n\nfn f() {}\n//! not this\n"), 16);
    }

    #[test]
    fn every_policy_has_a_page_with_all_its_parts() {
        let missing: Vec<String> = AXES.iter().flat_map(Axis::lacking).collect();
        assert!(missing.is_empty(), "the comment that opens a policy's file lacks\n{}", missing.join("\n"));
        static BARE: [Page; 1] = [Page::new("x", "X", "//! X")];
        let bare = Axis { pages: &BARE, ..AXES[0] };
        assert_eq!(bare.lacking().len(), 1 + Page::LABELS.len());
    }

    #[test]
    fn a_page_falls_into_its_labelled_parts_and_the_rest() {
        let page = Page::new(
            "x",
            "X",
            "//! X: decides.\n//! Really.\n//!\n//! Source: RFC 1.\n//!\n//! How it works.\n//!\n//! Valid: always,\n//! even here.\n",
        );
        assert_eq!(page.decides(), "X: decides.\nReally.");
        assert_eq!(page.part("Source").as_deref(), Some("RFC 1."));
        assert_eq!(page.part("Valid").as_deref(), Some("always,\neven here."));
        assert_eq!(page.part("Deviations"), None);
        assert_eq!(page.details(), ["How it works."]);
    }

    #[test]
    fn names_are_unique_within_an_axis_and_axes_by_key() {
        for (i, axis) in AXES.iter().enumerate() {
            assert!(AXES[..i].iter().all(|other| other.key != axis.key), "{} twice", axis.key);
            for (j, page) in axis.pages.iter().enumerate() {
                assert!(
                    axis.pages[..j].iter().all(|other| other.name != page.name),
                    "{}/{} twice",
                    axis.key,
                    page.name
                );
            }
        }
    }
}
