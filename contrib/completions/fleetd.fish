complete -c fleetd -l config -d 'The configuration [default: /etc/fleet/fleet.conf, if it exists]' -r -F
complete -c fleetd -l insecure-loopback-only -d 'Allow TCP without TLS on loopback addresses only, as the key insecure_loopback'
complete -c fleetd -s h -l help -d 'Print help'
complete -c fleetd -s V -l version -d 'Print version'
