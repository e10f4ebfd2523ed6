//! A policy as it was written, so that it can be laid over what somebody else wrote of the same
//! policy.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::{Table, Value};

/// The key of a table that says which policy it is.
const NAME: &str = "name";

/// A policy of the axis `T` with those of its parameters that were written. On its own it has its
/// defaults elsewhere; over a choice of the same policy it has that one's parameters there.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice<T> {
    written: Table,
    meaning: PhantomData<T>,
}

impl<T: DeserializeOwned> Choice<T> {
    fn of(written: Value) -> Result<Choice<T>, toml::de::Error> {
        // A mistake shows where it was made, not where the policy is used.
        T::deserialize(written.clone())?;
        let written = match written {
            Value::Table(table) => table,
            name => Table::from_iter([(NAME.to_owned(), name)]),
        };
        Ok(Choice { written, meaning: PhantomData })
    }

    /// The policy that it stands for, or which of its parameters do not go together.
    pub fn config(self) -> Result<T, toml::de::Error> {
        T::deserialize(Value::Table(self.written))
    }
}

impl<T> Choice<T> {
    /// `self` with the parameters of `base` where it says nothing, if both are the same policy.
    /// Else `self`.
    pub fn over(self, base: Choice<T>) -> Choice<T> {
        let mut written = Value::Table(base.written);
        lay(&mut written, Value::Table(self.written));
        match written {
            Value::Table(written) => Choice { written, meaning: PhantomData },
            _ => unreachable!("a table over a table"),
        }
    }
}

/// Lays `over` on `base`: parameters of the same policy key by key, anything else replaces what is
/// there.
fn lay(base: &mut Value, over: Value) {
    match over {
        Value::Table(over) if base.as_table().is_some_and(|base| base.get(NAME) == over.get(NAME)) => {
            let Value::Table(base) = base else { unreachable!("checked in the guard") };
            for (key, value) in over {
                match base.get_mut(&key) {
                    Some(there) => lay(there, value),
                    None => drop(base.insert(key, value)),
                }
            }
        }
        // A policy within a policy, as `base` of `tcp_av`.
        Value::String(name) if is_name_of(&name, base) => {}
        over => *base = over,
    }
}

fn is_name_of(name: &str, policy: &Value) -> bool {
    policy.as_table().and_then(|table| table.get(NAME)).and_then(Value::as_str) == Some(name)
}

impl<T: Serialize> From<T> for Choice<T> {
    /// Every parameter counts as written.
    fn from(config: T) -> Choice<T> {
        let written = Table::try_from(config).expect("a policy's parameters are a table with its name");
        Choice { written, meaning: PhantomData }
    }
}

impl<T> Serialize for Choice<T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.written.get(NAME) {
            Some(name) if self.written.len() == 1 => name.serialize(s),
            _ => self.written.serialize(s),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Choice<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Choice::of(Value::deserialize(d)?).map_err(|e| D::Error::custom(e.message()))
    }
}

impl<T: JsonSchema> JsonSchema for Choice<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        T::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::CcConfig;

    fn choice(text: &str) -> Choice<CcConfig> {
        serde_json::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn a_choice_keeps_what_was_written_of_the_same_policy_and_of_no_other() {
        let av = r#"{"name": "tcp_av", "target": "2Mbit/s", "base": {"name": "cubic", "beta": 0.5}}"#;
        for (base, over, laid) in [
            (r#""reno""#, r#""cubic""#, r#""cubic""#),
            (r#"{"name": "cubic", "beta": 0.5}"#, r#""cubic""#, r#"{"name": "cubic", "beta": 0.5}"#),
            (r#"{"name": "cubic", "beta": 0.5}"#, r#"{"name": "cubic"}"#, r#"{"name": "cubic", "beta": 0.5}"#),
            (
                r#"{"name": "cubic", "beta": 0.5}"#,
                r#"{"name": "cubic", "beta": 0.7}"#,
                r#"{"name": "cubic", "beta": 0.7}"#,
            ),
            (
                r#"{"name": "cubic", "c": 1, "beta": 0.5}"#,
                r#"{"name": "cubic", "c": 2}"#,
                r#"{"name": "cubic", "c": 2, "beta": 0.5}"#,
            ),
            (r#"{"name": "cubic", "beta": 0.5}"#, r#""reno""#, r#""reno""#),
            (r#""cubic""#, r#"{"name": "cubic", "beta": 0.5}"#, r#"{"name": "cubic", "beta": 0.5}"#),
            (av, r#"{"name": "tcp_av", "target": "2Mbit/s", "base": "cubic"}"#, av),
            (
                av,
                r#"{"name": "tcp_av", "target": "3Mbit/s", "base": "reno"}"#,
                r#"{"name": "tcp_av", "target": "3Mbit/s", "base": "reno"}"#,
            ),
            (r#"{"name": "tcp_av", "target": "2Mbit/s", "base": "cubic"}"#, av, av),
        ] {
            assert_eq!(choice(over).over(choice(base)), choice(laid), "{over} over {base}");
            assert_eq!(choice(laid).config().unwrap(), serde_json::from_str(laid).unwrap());
        }
    }

    #[test]
    fn a_choice_is_written_as_it_was_read() {
        for text in [r#""cubic""#, r#"{"beta":0.5,"name":"cubic"}"#] {
            assert_eq!(serde_json::to_string(&choice(text)).unwrap(), text);
        }
        let all = CcConfig::by_name("cubic").unwrap();
        assert_eq!(Choice::from(all.clone()).config().unwrap(), all);
    }

    #[test]
    fn a_choice_that_stands_for_nothing_is_refused() {
        for (text, expected) in [
            (r#""kubic""#, "unknown variant `kubic`"),
            (r#"{"name": "cubic", "beta": 7}"#, "`7` is not a probability"),
            (r#"{"name": "cubic", "betta": 0.5}"#, "unknown field `betta`"),
            ("3", "the name of a congestion control"),
        ] {
            let error = serde_json::from_str::<Choice<CcConfig>>(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
