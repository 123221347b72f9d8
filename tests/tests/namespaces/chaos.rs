//! All that may happen to services and to init, at random: see [`groundstate_tests::chaos`].

use groundstate_tests::chaos::{Size, disorder};
use groundstate_tests::extent::turns;

fn size(has_cgroups: bool) -> Size {
    Size { services: 24, rounds: turns(1, 25), seed: 1, has_cgroups }
}

#[test]
fn whatever_happens_each_service_is_there_once_and_each_of_its_lines() {
    println!("{}", disorder(size(true)));
}

#[test]
fn whatever_happens_without_cgroups_each_service_is_there_once() {
    println!("{}", disorder(size(false)));
}
