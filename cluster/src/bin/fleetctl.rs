//! `fleetctl`: controls a cluster; see [`cluster::fleetctl`].

fn main() -> std::process::ExitCode {
    cluster::fleetctl::main()
}
