//! Derives the schema from the types of a scenario file.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::scenario::file::ScenarioFile;

/// The schema in full, with its descriptions.
pub(super) fn schema() -> Json {
    let generator = schemars::generate::SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<ScenarioFile>().to_value();
    schema["title"] = json!("airtcp scenario");
    tidy(&mut schema);
    let of_types = schema["$defs"].as_object().into_iter().flatten();
    let texts =
        of_types.filter_map(|(name, of)| Some((name.clone(), of["description"].as_str()?.to_owned()))).collect();
    describe(&mut schema, &texts);
    schema
}

/// TOML has no null, so an optional key is one that may be left out; and a doc comment's line
/// breaks are its source's.
fn tidy(schema: &mut Json) {
    match schema {
        Json::Array(items) => items.iter_mut().for_each(tidy),
        Json::Object(map) => {
            if let Some(kind) = map.get_mut("type") {
                if let Json::Array(types) = kind {
                    types.retain(|t| t != "null");
                    if let [only] = types.as_mut_slice() {
                        *kind = only.take();
                    }
                }
            }
            if let Some(Json::Array(choices)) = map.get_mut("anyOf") {
                choices.retain(|c| c["type"] != "null");
                if let [Json::Object(only)] = choices.as_mut_slice() {
                    let only = std::mem::take(only);
                    map.remove("anyOf");
                    for (key, value) in only {
                        map.entry(key).or_insert(value);
                    }
                }
            }
            if let Some(default) = map.get_mut("default") {
                drop_nulls(default);
                if default.is_null() {
                    map.remove("default");
                }
            }
            if let Some(Json::String(description)) = map.get_mut("description") {
                let paragraphs: Vec<String> = description.split("\n\n").map(|p| p.replace('\n', " ")).collect();
                *description = paragraphs.join("\n\n");
            }
            if map.get("type").is_some_and(|t| t == "object") && !map.contains_key("additionalProperties") {
                map.insert("additionalProperties".to_owned(), json!(false));
            }
            if let Some(Json::Object(properties)) = map.get_mut("properties") {
                for property in properties.values_mut().filter(|p| p.get("const").is_some()) {
                    let name = property["const"].as_str().unwrap_or_default().to_owned();
                    property["description"] = json!(format!("Says that this is `{name}`."));
                }
            }
            for (key, value) in map.iter_mut() {
                match key.as_str() {
                    "properties" | "$defs" => {
                        value.as_object_mut().into_iter().for_each(|m| m.values_mut().for_each(tidy))
                    }
                    "anyOf" | "oneOf" | "items" | "additionalProperties" => tidy(value),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// A key without a description of its own has that of its type.
fn describe(schema: &mut Json, texts: &BTreeMap<String, String>) {
    match schema {
        Json::Array(items) => items.iter_mut().for_each(|s| describe(s, texts)),
        Json::Object(map) => {
            if let Some(Json::Object(properties)) = map.get_mut("properties") {
                for property in properties.values_mut().filter(|p| p.get("description").is_none()) {
                    let name = property["$ref"].as_str().and_then(|r| r.strip_prefix("#/$defs/"));
                    if let Some(text) = name.and_then(|name| texts.get(name)) {
                        property["description"] = json!(text);
                    }
                }
            }
            map.values_mut().for_each(|s| describe(s, texts));
        }
        _ => {}
    }
}

fn drop_nulls(value: &mut Json) {
    if let Json::Object(map) = value {
        map.retain(|_, v| !v.is_null());
        map.values_mut().for_each(drop_nulls);
    }
}
