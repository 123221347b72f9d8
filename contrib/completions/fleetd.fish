complete -c fleetd -l config -d 'The configuration; without it /etc/fleet/fleet.conf, where that is' -r -F
complete -c fleetd -l insecure-loopback-only -d 'TCP without TLS on addresses of this machine alone, as the key insecure_loopback'
complete -c fleetd -s h -l help -d 'Print help'
complete -c fleetd -s V -l version -d 'Print version'
