# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_fleetctl_global_optspecs
    string join \n endpoint= driver= etcd-key-prefix= key-file= cert-file= ca-file= tunnel= known-hosts-file= strict-host-key-checking= sign-key= cluster-name= ssh-timeout= ssh-username= request-timeout= debug json etcd-keyfile= etcd-certfile= etcd-cafile= experimental-api= v/version h/help
end

function __fish_fleetctl_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_fleetctl_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_fleetctl_using_subcommand
    set -l cmd (__fish_fleetctl_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c fleetctl -n "__fish_fleetctl_needs_command" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -s v -l version -d 'Print the version'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "backup" -d 'Write all units and their desired states to a file'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "cat" -d 'Print a unit file'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "destroy" -d 'Remove units from the cluster'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "drain" -d 'Move all but global units off machines; place no new ones'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "events" -d 'Show changes as they happen'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "fd-forward" -d 'Copy between stdin/stdout and a unix socket'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "journal" -d 'Show the output of a unit, by ssh and journalctl'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "list-machines" -d 'List the machines'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "list-unit-files" -d 'List the unit files and their desired states'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "list-units" -d 'List the states of units'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "load" -d 'Place units on machines without starting them'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "logs" -d 'Show the output of a unit, through the API'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "restart" -d 'Stop units and start them again'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "restore" -d 'Restore a backup into a cluster without units'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "rollout" -d 'Replace the file of units, a few at a time'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "ssh" -d 'Open a shell on a machine, or on the machine of a unit'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "start" -d 'Place units on machines and start them'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "status" -d 'Show the status of units from their init, by ssh'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "stop" -d 'Stop units; they keep their machines'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "submit" -d 'Store unit files in the cluster'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "undrain" -d 'Let machines take units again'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "unload" -d 'Remove units from their machines'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "why" -d 'Explain where a unit is, or why it is on no machine'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "version" -d 'Print the version'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "verify"
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "completions" -d 'Print completions for a shell'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "man" -d 'Print the man page'
complete -c fleetctl -n "__fish_fleetctl_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand backup" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand cat" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l block-attempts -d 'Number of attempts of 2 s each; 0: no limit' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l no-block -d 'Do not wait for the units to reach the state'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand destroy" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l timeout -d 'Timeout of --wait in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l wait -d 'Wait until only global units are left'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -s y -l yes -d 'Do not ask before stopping units that no other machine can have'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand drain" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand events" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand fd-forward" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l lines -d 'Number of lines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l output -d 'Output format, as journalctl\'s --output' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l ssh-port -d 'The ssh port of the other machine' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -s f -l follow -l f -d 'Follow the log'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l sudo -d 'Run journalctl as root'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand journal" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l fields -d 'The columns, comma-separated' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -s l -l full -l l -d 'Do not shorten values'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l no-legend -d 'Do not print the column headings'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-machines" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l fields -d 'The columns, comma-separated' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -s l -l full -l l -d 'Do not shorten values'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l no-legend -d 'Do not print the column headings'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-unit-files" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l fields -d 'The columns, comma-separated' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -s l -l full -l l -d 'Do not shorten values'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l no-legend -d 'Do not print the column headings'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -s w -l watch -d 'Print the list again after each change'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand list-units" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l block-attempts -d 'Number of attempts of 2 s each; 0: no limit' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l no-block -d 'Do not wait for the units to reach the state'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l replace -d 'Replace an existing file'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l sign
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand load" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -s n -l lines -d 'Number of lines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l machine -d 'The machine, for a global unit' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l ssh-port -d 'The ssh port of the other machine' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -s f -l follow -d 'Follow the log'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand logs" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l block-attempts -d 'Number of attempts of 2 s each; 0: no limit' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l no-block -d 'Do not wait for the units to reach the state'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restart" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l force -d 'If the cluster has units: replace those with the same names, and keep the others'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand restore" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l batch -d 'Number of units or machines replaced at a time' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l timeout -d 'Seconds until a unit must be active' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l healthy-for -d 'Seconds that units must stay active, in the same run, before the next ones are replaced' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l no-rollback -d 'Keep the new file if a unit does not come up'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand rollout" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l machine -d 'The machine' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l unit -d 'The unit' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l ssh-port -d 'The ssh port of the other machine' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -s A -l forward-agent -l A -d 'Forward our ssh agent'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand ssh" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l block-attempts -d 'Number of attempts of 2 s each; 0: no limit' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l no-block -d 'Do not wait for the units to reach the state'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l replace -d 'Replace an existing file'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l sign
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand start" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l ssh-port -d 'The ssh port of the other machine' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand status" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l block-attempts -d 'Number of attempts of 2 s each; 0: no limit' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l no-block -d 'Do not wait for the units to reach the state'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand stop" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l block-attempts -d 'Number of attempts of 2 s each; 0: no limit' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l no-block -d 'Do not wait for the units to reach the state'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l replace -d 'Replace an existing file'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l sign
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand submit" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand undrain" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l block-attempts -d 'Number of attempts of 2 s each; 0: no limit' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l no-block -d 'Do not wait for the units to reach the state'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand unload" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand why" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand version" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand verify" -s h -l help -d 'Print help'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l endpoint -d 'The server\'s address: unix:///PATH, http://HOST:PORT or https://HOST:PORT' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l driver -d 'API; the driver etcd is no longer supported' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l etcd-key-prefix -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l key-file -d 'The key of the client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l cert-file -d 'The client certificate' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l ca-file -d 'The CA of the server\'s certificate [default: the system\'s CAs]' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l tunnel -d 'Connect through this host by ssh: HOST[:PORT]' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l known-hosts-file -d 'File with the host keys known to ssh' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l strict-host-key-checking -d 'Refuse hosts whose key differs from the known one; false: neither check nor store keys' -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l sign-key -d 'Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)' -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l cluster-name -d 'The cluster to sign for, as cluster_name in fleet.conf' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l ssh-timeout -d 'Timeout of ssh connections in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l ssh-username -d 'The user name on other machines' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l request-timeout -d 'Timeout of requests in seconds' -r
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l etcd-keyfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l etcd-certfile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l etcd-cafile -r -F
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l experimental-api -r -f -a "true\t''
false\t''"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l debug -d 'Print each request to stderr'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -l json -d 'Print JSON instead of text'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand man" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "backup" -d 'Write all units and their desired states to a file'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "cat" -d 'Print a unit file'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "destroy" -d 'Remove units from the cluster'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "drain" -d 'Move all but global units off machines; place no new ones'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "events" -d 'Show changes as they happen'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "fd-forward" -d 'Copy between stdin/stdout and a unix socket'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "journal" -d 'Show the output of a unit, by ssh and journalctl'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "list-machines" -d 'List the machines'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "list-unit-files" -d 'List the unit files and their desired states'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "list-units" -d 'List the states of units'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "load" -d 'Place units on machines without starting them'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "logs" -d 'Show the output of a unit, through the API'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "restart" -d 'Stop units and start them again'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "restore" -d 'Restore a backup into a cluster without units'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "rollout" -d 'Replace the file of units, a few at a time'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "ssh" -d 'Open a shell on a machine, or on the machine of a unit'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "start" -d 'Place units on machines and start them'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "status" -d 'Show the status of units from their init, by ssh'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "stop" -d 'Stop units; they keep their machines'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "submit" -d 'Store unit files in the cluster'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "undrain" -d 'Let machines take units again'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "unload" -d 'Remove units from their machines'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "why" -d 'Explain where a unit is, or why it is on no machine'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "version" -d 'Print the version'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "verify"
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "completions" -d 'Print completions for a shell'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "man" -d 'Print the man page'
complete -c fleetctl -n "__fish_fleetctl_using_subcommand help; and not __fish_seen_subcommand_from backup cat destroy drain events fd-forward journal list-machines list-unit-files list-units load logs restart restore rollout ssh start status stop submit undrain unload why version verify completions man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
