//! The page at `/ui` of a real cluster in a real browser, while a node is stopped.

use super::{Case, SLEEPS, sample, sleeps_with};
use crate::browser::Browser;
use crate::stand::Cluster;
use crate::stand::program::until;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

pub(super) const CASES: [Case; 1] =
    [sample("ui_page_shows_a_lost_node_and_the_reason_without_a_reload", stopped)];

/// Forwards a local port to a node's socket, for the browser. Ends with the process.
fn forward_to(socket: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = UnixStream::connect(&socket) else { continue };
            let (Ok(near_too), Ok(far_too)) = (near.try_clone(), far.try_clone()) else { continue };
            std::thread::spawn(move || pass(near, far));
            std::thread::spawn(move || back(far_too, near_too));
        }
    });
    port
}

fn pass(mut near: TcpStream, mut far: UnixStream) {
    let _ = std::io::copy(&mut near, &mut far);
    let _ = far.shutdown(std::net::Shutdown::Both);
}

fn back(mut far: UnixStream, mut near: TcpStream) {
    let _ = std::io::copy(&mut far, &mut near);
    let _ = near.shutdown(std::net::Shutdown::Both);
}

fn stopped(cluster: &mut Cluster) {
    cluster.file("shop.service", &sleeps_with("MachineMetadata=number=3"));
    cluster.file("hello.service", SLEEPS);
    cluster.file("everywhere.service", &sleeps_with("Global=true"));
    cluster.node(1).fleetctl(&["start", "shop.service", "hello.service", "everywhere.service"]);
    cluster.when_active(1, 5);
    let port = forward_to(cluster.node(1).at("run/fleet.sock"));
    let folder = cluster.folder.join("browser");
    std::fs::create_dir_all(&folder).unwrap();
    let mut browser = Browser::open(&format!("http://127.0.0.1:{port}/ui"), folder);
    let machine = crate::stand::node::id(3);
    browser.shows(&[
        "live",
        &machine,
        "shop.service",
        "loaded / active / running",
        "3 of 3 active",
    ]);
    browser.evaluate("window.sameDocument = true");
    cluster.node_mut(3).shut_down();
    browser.shows(&["no machine of 2 can have it", "its metadata has number=1, not 3"]);
    browser.shows(&["2 of 2 active"]);
    // The tables of units and machines change one after the other.
    until("the machine has left the table", || {
        let rows = browser.evaluate("document.querySelectorAll('#machines tbody tr').length");
        (rows == 2).then_some(())
    });
    let shown = browser.evaluate("document.querySelector('#machines').innerText");
    assert!(!shown.as_str().unwrap().contains(&machine), "{shown}");
    assert_eq!(browser.evaluate("window.sameDocument"), true, "no reload");
    // Saves a screenshot for the README.
    if let Some(file) = std::env::var_os("PICTURE_OF_THE_PAGE") {
        browser.shows(&["live"]);
        browser.evaluate("document.querySelectorAll('.new').forEach(row => row.className = '')");
        std::fs::write(file, browser.picture(1000, 430)).unwrap();
    }
    assert_eq!(browser.errors, Vec::<String>::new());
}
