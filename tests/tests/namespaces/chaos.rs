//! Random failures of services and of init: see [`groundstate_tests::chaos`].

use groundstate_tests::chaos::{Size, disorder};
use groundstate_tests::extent::turns;

fn size(has_cgroups: bool) -> Size {
    Size { services: 24, rounds: turns(1, 25), seed: 1, has_cgroups }
}

#[test]
fn random_failures_leave_one_instance_of_each_service_and_all_of_its_lines() {
    println!("{}", disorder(size(true)));
}

#[test]
fn random_failures_without_cgroups_leave_one_instance_of_each_service() {
    println!("{}", disorder(size(false)));
}
