//! `/discovery`: the API description for client generators, a fixed document. Clients fill in its
//! `rootUrl`.

use super::answer::Answer;
use super::request::Request;

/// The document.
pub const DOCUMENT: &str = include_str!("discovery.json");

/// `/discovery`
pub fn answer(request: &Request) -> Answer {
    match request.method.as_str() {
        "GET" => Answer::with("application/json", DOCUMENT.as_bytes().to_vec()),
        _ => Answer::refusal(400, "only HTTP GET supported against this resource"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_describes_every_method() {
        let document: serde_json::Value = serde_json::from_str(DOCUMENT).unwrap();
        let method = |resource: &str, name: &str| {
            document["resources"][resource]["methods"][name]["httpMethod"].clone()
        };
        assert_eq!(document["baseUrl"], "$ENDPOINT/fleet/v1/");
        assert_eq!(method("Units", "Set"), "PUT");
        assert_eq!(method("Units", "Delete"), "DELETE");
        assert_eq!(method("UnitState", "List"), "GET");
        assert_eq!(method("Machines", "List"), "GET");
    }
}
