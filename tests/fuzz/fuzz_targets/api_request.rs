//! Any bytes on a connection to the cluster's API. The checks are in `../src/api_request.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(api_request, |answers: &groundstate_fuzz::api_request::Answers| {
    answers.statuses.contains(&201) && answers.statuses.contains(&204)
});
