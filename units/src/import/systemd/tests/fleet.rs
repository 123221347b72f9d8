//! Imports the section of the cluster, and checks its effect on init.

use super::{service, values};

#[test]
fn exclusive_unit_of_a_cluster_stops_promptly() {
    let of = |text: &str| values(&service(text), "stop-promptly");
    assert_eq!(of("[X-Fleet]\nExclusive=true"), ["yes"]);
    assert_eq!(of("[X-Fleet]\nExclusive=true\nExclusive=no\nGlobal=yes"), [""; 0]);
    assert_eq!(of(""), [""; 0]);
}
