//! `fleetctl`: commands a cluster. All of it is [`cluster::fleetctl`].

fn main() -> std::process::ExitCode {
    cluster::fleetctl::main()
}
