//! Works around a bug in fleetctl 1.0.
//! Its `restart` sets a unit to loaded and then waits until the unit is *launched*. With fleet that
//! worked because machines were seconds behind: the first poll after 250 ms still saw the old
//! state. A Groundstate machine has stopped the unit by then, and fleetctl would wait forever. So
//! for a short time that client alone is shown the old state.

use super::answer::Answer;
use super::request::Request;
use crate::desired::Desired;
use crate::wire::Unit;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long the old state is shown: several polls over a slow connection.
const MOMENT: Duration = Duration::from_secs(1);
/// Maximum number of units remembered.
const MOST: usize = 1024;
/// User agent of fleetctl 1.0: the name of its HTTP library. Other clients use newer versions of
/// that library.
const LIBRARY: &str = "google-api-go-client/0.5";

/// Returns true for fleetctl 1.0.
pub fn is_original(user_agent: &str) -> bool {
    user_agent.trim() == LIBRARY
}

/// Units that fleetctl 1.0 has just set to loaded, with the time.
#[derive(Debug, Default)]
pub struct FirstLook {
    since: Mutex<BTreeMap<String, Duration>>,
}

impl FirstLook {
    /// Returns the answer to send. `before` is the desired state when the request arrived.
    pub fn answer_for(
        &self,
        request: &Request,
        unit: &str,
        before: Desired,
        now: Duration,
        answer: Answer,
    ) -> Answer {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.retain(|_, then| now.saturating_sub(*then) < MOMENT);
        if request.method == "GET" {
            let is_shown = request.is_original && since.contains_key(unit);
            return if is_shown { as_launched(answer) } else { answer };
        }
        since.remove(unit);
        let stops = before == Desired::Launched
            && answer.status == 204
            && super::units::desired_in(&request.body) == Some(Desired::Loaded);
        if request.is_original && stops && since.len() < MOST {
            since.insert(unit.to_string(), now);
        }
        answer
    }
}

fn as_launched(answer: Answer) -> Answer {
    match serde_json::from_slice::<Unit>(&answer.body) {
        Ok(unit) if answer.status == 200 && unit.current_state == Desired::Loaded.as_str() => {
            Answer::json(&Unit { current_state: Desired::Launched.to_string(), ..unit })
        }
        _ => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, desired: &str, is_original: bool) -> Request {
        let body = format!("{{\"desiredState\":\"{desired}\"}}").into_bytes();
        Request { method: method.to_string(), body, is_original, ..Request::default() }
    }

    /// Returns the state that a poll sees, `millis` after the unit was set to loaded.
    fn sees(looks: &FirstLook, is_original: bool, millis: u64) -> String {
        let loaded = Unit { current_state: "loaded".to_string(), ..Unit::default() };
        let (request, now) = (request("GET", "", is_original), Duration::from_millis(millis));
        let answer = Answer::json(&loaded);
        let shown = looks.answer_for(&request, "a.service", Desired::Loaded, now, answer);
        serde_json::from_slice::<Unit>(&shown.body).unwrap().current_state
    }

    fn put(looks: &FirstLook, request: &Request, before: Desired) {
        looks.answer_for(request, "a.service", before, Duration::ZERO, Answer::empty(204));
    }

    #[test]
    fn fleetctl_1_0_sees_the_old_state_for_a_moment_after_it_sets_loaded() {
        let looks = FirstLook::default();
        put(&looks, &request("PUT", "loaded", true), Desired::Launched);
        assert_eq!(sees(&looks, true, 250), "launched");
        assert_eq!(sees(&looks, false, 250), "loaded", "other clients see the current state");
        assert_eq!(sees(&looks, true, 1_000), "loaded", "fleetctl 1.0 sees it one second later");
    }

    #[test]
    fn old_state_is_shown_only_for_a_launched_unit_until_the_next_put() {
        let cases = [
            (request("PUT", "loaded", true), Desired::Inactive),
            (request("PUT", "launched", true), Desired::Launched),
            (request("PUT", "loaded", false), Desired::Launched),
        ];
        for (wish, before) in cases {
            let looks = FirstLook::default();
            put(&looks, &wish, before);
            assert_eq!(sees(&looks, true, 1), "loaded", "{wish:?}");
        }
        let looks = FirstLook::default();
        put(&looks, &request("PUT", "loaded", true), Desired::Launched);
        put(&looks, &request("PUT", "launched", true), Desired::Loaded);
        assert_eq!(sees(&looks, true, 1), "loaded");
    }
}
