//! The JSON of `status`, by unit and target.

use serde_json::Value;

/// One answer to `status`.
#[derive(Clone, Debug)]
pub struct Status(pub Value);

impl Status {
    /// The object of a unit; null if there is no such unit.
    pub fn unit(&self, name: &str) -> &Value {
        let units = self.0["units"].as_array().expect("`units` is a list");
        units.iter().find(|unit| unit["unit"] == name).unwrap_or(&Value::Null)
    }

    /// The object of a target.
    pub fn target(&self, name: &str) -> &Value {
        let targets = self.0["targets"].as_array().expect("`targets` is a list");
        targets.iter().find(|target| target["target"] == name).unwrap_or(&Value::Null)
    }

    /// The state of a unit; empty if there is no such unit.
    pub fn state(&self, unit: &str) -> &str {
        self.unit(unit)["state"].as_str().unwrap_or_default()
    }

    /// `reason.kind` of a unit; empty without a reason.
    pub fn reason(&self, unit: &str) -> &str {
        self.unit(unit)["reason"]["kind"].as_str().unwrap_or_default()
    }

    /// The main pid in init's namespace.
    pub fn main_pid(&self, unit: &str) -> Option<i32> {
        self.unit(unit)["main-pid"].as_i64().and_then(|pid| i32::try_from(pid).ok())
    }

    /// The state of the system.
    pub fn system(&self) -> &str {
        self.0["system"].as_str().unwrap_or_default()
    }

    /// The units with the `degraded` flag.
    pub fn degraded(&self) -> Vec<&str> {
        let units = self.0["units"].as_array().expect("`units` is a list");
        let flagged = units.iter().filter(|unit| unit["degraded"] == true);
        flagged.filter_map(|unit| unit["unit"].as_str()).collect()
    }

    /// Unit and state, one line each, for the message of a failed test.
    pub fn table(&self) -> String {
        let units = self.0["units"].as_array().cloned().unwrap_or_default();
        let line = |unit: &Value| {
            let word = |key: &str| unit[key].as_str().unwrap_or("-").to_owned();
            format!(
                "  {}: {} {} {}\n",
                word("unit"),
                word("state"),
                unit["main-pid"],
                unit["reason"]
            )
        };
        format!("system {}\n{}", self.system(), units.iter().map(line).collect::<String>())
    }
}
