//! The page at `/ui` in a real browser: when a machine disappears, the unit's row changes without a
//! reload and shows the reason. The console has no errors. Needs `chromium`.

use crate::browser::Browser;
use crate::stand::{Plan, Stand, folder};
use cluster::api::listener::Security;

#[test]
fn ui_page_shows_a_lost_machine_without_a_reload() {
    let security = Security { insecure_loopback_only: true, ..Security::default() };
    let stand = Stand::new(Plan {
        machines: vec![("m1", vec![]), ("m2", vec![("disk", "ssd")])],
        security: Some(security),
        ..Plan::default()
    });
    let options = r#"[{"name":"MachineMetadata","section":"X-Fleet","value":"disk=ssd"}]"#;
    let unit = format!("{{\"desiredState\":\"launched\",\"options\":{options}}}");
    assert_eq!(stand.put("shop.service", &unit).status, 201);
    let mut browser = Browser::open(&format!("http://{}/ui", stand.tcp.unwrap()), folder());
    browser.shows(&["live", "m1", "m2", "shop.service", "loaded / active / running"]);
    browser.evaluate("window.sameDocument = true");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let machine = runtime.block_on(stand.store.read("/test/v3/machine/m2")).unwrap();
    runtime.block_on(stand.store.revoke(machine.entries[0].lease)).unwrap();
    browser.shows(&["no machine of 1 can have it", "m1: its metadata has no disk=ssd"]);
    let rows = browser.evaluate("document.querySelectorAll('#machines tbody tr').length");
    assert_eq!(rows, 1);
    assert_eq!(browser.evaluate("window.sameDocument"), true, "no reload");
    assert_eq!(browser.errors, Vec::<String>::new());
}

#[test]
fn ui_page_shows_its_age_while_the_registry_is_unavailable() {
    let security = Security { insecure_loopback_only: true, ..Security::default() };
    let stand = Stand::new(Plan { security: Some(security), ..Plan::of(&["m1"]) });
    let mut browser = Browser::open(&format!("http://{}/ui", stand.tcp.unwrap()), folder());
    browser.shows(&["live", "m1"]);
    let shown = "getComputedStyle(document.getElementById('stale')).display";
    assert_eq!(browser.evaluate(shown), "none");
    stand.store.set_reachable(false);
    browser.shows(&["Stale since ", "fleetd does not reach etcd", "m1"]);
    assert_eq!(browser.evaluate("document.getElementById('live').textContent"), "stale");
    assert_eq!(browser.evaluate(shown), "block");
    stand.store.set_reachable(true);
    browser.shows(&["live"]);
    assert_eq!(browser.evaluate(shown), "none");
    browser.evaluate("window.sameDocument = true");
    drop(stand);
    browser.shows(&["Stale since ", "the server does not answer"]);
    assert_eq!(browser.evaluate("window.sameDocument"), true, "no reload");
}
