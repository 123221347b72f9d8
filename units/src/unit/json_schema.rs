//! A JSON Schema (draft 2020-12) of unit files for editors, generated from the key table. Its
//! output is `contrib/schema/unit.json`, and a test keeps them equal. It accepts more than the
//! loader: `initctl check` reports what a schema cannot express.

use crate::spec::Kind;
use crate::unit::key::{Key, Kinds, PRIVATE, Shape};
use crate::unit::key_table::KEYS;
use serde_json::{Map, Value, json};

const NAME: &str = r"^[A-Za-z0-9:_@\\][A-Za-z0-9:_.@\\\-]{0,254}$";

/// The schema.
pub fn json_schema() -> Value {
    let properties: Map<String, Value> = KEYS
        .iter()
        .map(|key| {
            let mut schema = shape(key.shape);
            schema.insert("description".to_string(), json!(describe(key)));
            (key.name.to_string(), Value::Object(schema))
        })
        .collect();
    let private = format!("^{PRIVATE}");
    let rules: Vec<Value> = Kind::ALL.iter().map(|kind| rule(*kind)).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Groundstate unit",
        "type": "object",
        "properties": properties,
        "patternProperties": { private: true },
        "additionalProperties": false,
        "anyOf": [{ "required": ["unit"] }, { "required": ["name"] }],
        "allOf": rules,
    })
}

fn describe(key: &Key) -> String {
    let types = if key.types == Kinds::ALL {
        String::new()
    } else {
        format!(" For {}.", key.types.words())
    };
    format!("{} Default: {}.{types}", key.doc, key.default)
}

/// Returns the keys that a unit of this type needs, and those it may not have.
fn rule(kind: Kind) -> Value {
    let needed: Vec<&str> = KEYS
        .iter()
        .filter(|key| key.name != "unit" && key.required.has(kind))
        .map(|key| key.name)
        .collect();
    let others: Map<String, Value> = KEYS
        .iter()
        .filter(|key| !key.types.has(kind))
        .map(|key| (key.name.to_string(), json!(false)))
        .collect();
    json!({
        "if": { "properties": { "type": { "const": kind.as_str() } }, "required": ["type"] },
        "then": { "required": needed, "properties": others },
    })
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}

fn shape(shape: Shape) -> Map<String, Value> {
    let scalar = json!({ "type": ["string", "number"] });
    let list = |items: &Value| json!({ "type": "array", "items": items });
    object(match shape {
        Shape::Name => json!({ "type": ["string", "integer"], "pattern": NAME }),
        Shape::Names | Shape::Targets => {
            json!({ "anyOf": [{ "type": ["string", "integer"] }, list(&scalar)] })
        }
        Shape::Text
        | Shape::Duration
        | Shape::Timeout
        | Shape::Signal
        | Shape::RestartLimit
        | Shape::Account => json!({ "type": ["string", "number"] }),
        Shape::Choice(words) if words.contains(&"null") => {
            let mut words: Vec<Value> = words.iter().map(|word| json!(word)).collect();
            words.push(Value::Null);
            json!({ "enum": words })
        }
        Shape::Choice(words) => json!({ "enum": words }),
        Shape::Boolean => json!({ "enum": [true, false, "yes", "no", "on", "off"] }),
        Shape::Count(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Shape::Statuses | Shape::Accounts => list(&scalar),
        Shape::ExecStart | Shape::ExecLines | Shape::EnvFiles => {
            let line = json!({ "type": "string" });
            json!({ "anyOf": [line, list(&line)] })
        }
        Shape::Paths => {
            let path = json!({ "type": "string", "pattern": "^/" });
            json!({ "anyOf": [path, list(&path)] })
        }
        Shape::Path => json!({ "type": "string", "pattern": "^/" }),
        Shape::Pattern => json!({ "type": "string" }),
        Shape::Environment => {
            let map = json!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } });
            json!({ "anyOf": [map, list(&scalar)] })
        }
        Shape::Form(_) => scalar,
        Shape::Forms(_) => json!({ "anyOf": [scalar, list(&scalar)] }),
        Shape::Umask => json!({ "type": ["string", "integer"] }),
        Shape::Limits => {
            let names: Vec<&str> = crate::unit::resource::resources().collect();
            json!({ "type": "object", "propertyNames": { "enum": names }, "additionalProperties": scalar })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_schema_has_every_key_and_a_rule_for_every_type() {
        let schema = json_schema();
        for key in KEYS {
            assert!(schema["properties"][key.name]["description"].is_string(), "{}", key.name);
        }
        assert_eq!(schema["allOf"].as_array().unwrap().len(), Kind::ALL.len());
        assert_eq!(schema["allOf"][5]["then"]["properties"]["exec-start"], json!(false));
    }

    #[test]
    fn json_schema_in_the_tree_is_up_to_date() {
        let kept: Value =
            serde_json::from_str(include_str!("../../../contrib/schema/unit.json")).unwrap();
        let how =
            "cargo run -p groundstate-units --example documents schema > contrib/schema/unit.json";
        assert!(kept == json_schema(), "it is made by: {how}");
    }
}
