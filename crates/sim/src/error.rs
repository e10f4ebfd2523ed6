//! Why a world cannot be built.

/// A [`crate::spec::RunSpec`] that describes no world.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the message of each says it
pub enum BuildError {
    #[error("flow `{flow}`: no route from `{from}` to `{to}`: add links that connect them (hosts do not forward)")]
    NoRoute { flow: String, from: String, to: String },
    #[error("flow `{flow}` starts and ends at `{node}`: its ends must be two nodes")]
    SameNode { flow: String, node: String },
    #[error(
        "roaming of `{node}`: no route from `{from}` to `{node}` by way of `{to}`: forwarding needs lines between access points"
    )]
    NoForwarding { node: String, from: String, to: String },
    #[error("{what} refers to {kind} {index}, but there are only {count}")]
    BadIndex { what: String, kind: &'static str, index: u32, count: usize },
    #[error("link `{link}` has a rate of zero: it must be positive")]
    ZeroRate { link: String },
    #[error("the paths of all flows have {hops} hops together: more than this program can number")]
    TooManyHops { hops: usize },
    #[error("flow `{flow}`: {parameter} = {value}: must be {accepted}")]
    BadParameter { flow: String, parameter: &'static str, value: String, accepted: &'static str },
}
