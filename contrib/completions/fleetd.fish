complete -c fleetd -l config -d 'The configuration; without it /etc/fleet/fleet.conf, where that is' -r -F
complete -c fleetd -s h -l help -d 'Print help'
complete -c fleetd -s V -l version -d 'Print version'
