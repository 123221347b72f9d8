# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_initctl_global_optspecs
    string join \n socket= json color= h/help V/version
end

function __fish_initctl_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_initctl_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_initctl_using_subcommand
    set -l cmd (__fish_initctl_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c initctl -n "__fish_initctl_needs_command" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_needs_command" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_needs_command" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_needs_command" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_needs_command" -s V -l version -d 'Print version'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "status" -d 'Show the units that need attention, or one in full (default)'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "set-target" -d 'Change the goal: the targets that should run'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "plan" -d 'Show the effect of a set-target or a reload'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "why" -d 'Explain the state of a target'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "want" -d 'Add a target to the goal until the next boot'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "unwant" -d 'Remove a wanted target from the goal'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "mask" -d 'Mask targets: never start them, treat them as not provided'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "unmask" -d 'Unmask targets'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "enable" -d 'Apply the wanted-by and required-by entries of these units'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "disable" -d 'Ignore the wanted-by and required-by entries of these units'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "prefer" -d 'Choose which of several units provides a target'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "reload" -d 'Reload the unit files; a refused reload changes nothing'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "restart" -d 'Restart units'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "reload-unit" -d 'Ask services to reload their configuration'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "kill" -d 'Send a signal to the processes of units'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "retry" -d 'Forget the failures of units and retry now'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "logs" -d 'Show the output of units'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "events" -d 'Show the event log'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "tree" -d 'Show dependencies as a tree, from the goal down'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "graph" -d 'Print the dependency graph for other programs'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "timers" -d 'Show when each timer fires next'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "sockets" -d 'Show where each socket unit listens'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "blame" -d 'Show how long each start took'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "critical-chain" -d 'Show the chain of starts that the goal waited for'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "plot" -d 'Draw the starts as an SVG picture'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "cat" -d 'Print the file of a unit'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "whose" -d 'Show which unit a process belongs to'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "doctor" -d 'Show what this machine or an image lacks for a boot'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "check" -d 'Find the errors in unit files'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "convert" -d 'Translate unit files of systemd, or scripts of SysV or OpenRC'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "explain" -d 'Explain a key of a unit file'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "source" -d 'Manage sets of unit files owned by a controller'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "upgrade" -d 'Replace the running init with another binary'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "switch-root" -d 'Continue as the init of another root (from an initramfs)'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "ping" -d 'Check whether init is running'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "stats" -d 'Show statistics of init'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "poweroff" -d 'Power off'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "reboot" -d 'Reboot'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "halt" -d 'Halt'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "exit" -d 'Stop all units and exit init'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "completions" -d 'Write shell completions to stdout'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "man" -d 'Write the man page of initctl to stdout'
complete -c initctl -n "__fish_initctl_needs_command" -f -a "__targets" -d 'Names for the completions'
complete -c initctl -n "__fish_initctl_using_subcommand status" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand status" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand status" -s a -l all -d 'Also show healthy and idle units (three of many idle instances), with memory, tasks and CPU time'
complete -c initctl -n "__fish_initctl_using_subcommand status" -l check -d 'Print only states; exit 1 unless all are active'
complete -c initctl -n "__fish_initctl_using_subcommand status" -l no-headings -d 'Omit the summary above the table'
complete -c initctl -n "__fish_initctl_using_subcommand status" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand status" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand set-target" -l want -d 'As +NAME' -r
complete -c initctl -n "__fish_initctl_using_subcommand set-target" -l drop -d 'As -NAME' -r
complete -c initctl -n "__fish_initctl_using_subcommand set-target" -l timeout -d 'With --wait: exit 2 after this time' -r
complete -c initctl -n "__fish_initctl_using_subcommand set-target" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand set-target" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand set-target" -l wait -d 'Wait until no unit is starting, stopping or waiting'
complete -c initctl -n "__fish_initctl_using_subcommand set-target" -l no-wait -d 'Return at once. On a terminal, the default is to wait for the units that change'
complete -c initctl -n "__fish_initctl_using_subcommand set-target" -l or-rollback -d 'With --wait: restore the previous goal on failure or timeout'
complete -c initctl -n "__fish_initctl_using_subcommand set-target" -l persist -d 'Also make it the default target of the next boot'
complete -c initctl -n "__fish_initctl_using_subcommand set-target" -l dry-run -d 'Only print the plan'
complete -c initctl -n "__fish_initctl_using_subcommand set-target" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand set-target" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand plan" -l want -d 'As +NAME' -r
complete -c initctl -n "__fish_initctl_using_subcommand plan" -l drop -d 'As -NAME' -r
complete -c initctl -n "__fish_initctl_using_subcommand plan" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand plan" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand plan" -l reload -d 'Plan a reload of the unit files'
complete -c initctl -n "__fish_initctl_using_subcommand plan" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand plan" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand why" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand why" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand why" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand why" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand want" -l for -d 'Remove the target from the goal after this time' -r
complete -c initctl -n "__fish_initctl_using_subcommand want" -l timeout -d 'With --wait: exit 2 after this time' -r
complete -c initctl -n "__fish_initctl_using_subcommand want" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand want" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand want" -l wait -d 'Wait until no unit is starting, stopping or waiting'
complete -c initctl -n "__fish_initctl_using_subcommand want" -l no-wait -d 'Return at once. On a terminal, the default is to wait for the units that change'
complete -c initctl -n "__fish_initctl_using_subcommand want" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand want" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand unwant" -l timeout -d 'With --wait: exit 2 after this time' -r
complete -c initctl -n "__fish_initctl_using_subcommand unwant" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand unwant" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand unwant" -l wait -d 'Wait until no unit is starting, stopping or waiting'
complete -c initctl -n "__fish_initctl_using_subcommand unwant" -l no-wait -d 'Return at once. On a terminal, the default is to wait for the units that change'
complete -c initctl -n "__fish_initctl_using_subcommand unwant" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand unwant" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand mask" -l root -d 'Change the policy of the system in this directory; no init is asked' -r -f -a "(__fish_complete_directories)"
complete -c initctl -n "__fish_initctl_using_subcommand mask" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand mask" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand mask" -l runtime -d 'Until the next boot only'
complete -c initctl -n "__fish_initctl_using_subcommand mask" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand mask" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand unmask" -l root -d 'Change the policy of the system in this directory; no init is asked' -r -f -a "(__fish_complete_directories)"
complete -c initctl -n "__fish_initctl_using_subcommand unmask" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand unmask" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand unmask" -l runtime -d 'Until the next boot only'
complete -c initctl -n "__fish_initctl_using_subcommand unmask" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand unmask" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand enable" -l root -d 'Change the policy of the system in this directory; no init is asked' -r -f -a "(__fish_complete_directories)"
complete -c initctl -n "__fish_initctl_using_subcommand enable" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand enable" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand enable" -l runtime -d 'Until the next boot only'
complete -c initctl -n "__fish_initctl_using_subcommand enable" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand enable" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand disable" -l root -d 'Change the policy of the system in this directory; no init is asked' -r -f -a "(__fish_complete_directories)"
complete -c initctl -n "__fish_initctl_using_subcommand disable" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand disable" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand disable" -l runtime -d 'Until the next boot only'
complete -c initctl -n "__fish_initctl_using_subcommand disable" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand disable" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand prefer" -l root -d 'Change the policy of the system in this directory; no init is asked' -r -f -a "(__fish_complete_directories)"
complete -c initctl -n "__fish_initctl_using_subcommand prefer" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand prefer" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand prefer" -l runtime -d 'Until the next boot only'
complete -c initctl -n "__fish_initctl_using_subcommand prefer" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand prefer" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand reload" -l timeout -d 'With --wait: exit 2 after this time' -r
complete -c initctl -n "__fish_initctl_using_subcommand reload" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand reload" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand reload" -l plan -d 'Only print the plan'
complete -c initctl -n "__fish_initctl_using_subcommand reload" -l no-restart -d 'Keep changed units running; they are shown as stale'
complete -c initctl -n "__fish_initctl_using_subcommand reload" -l wait -d 'Wait until no unit is starting, stopping or waiting'
complete -c initctl -n "__fish_initctl_using_subcommand reload" -l no-wait -d 'Return at once. On a terminal, the default is to wait for the units that change'
complete -c initctl -n "__fish_initctl_using_subcommand reload" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand reload" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand restart" -l timeout -d 'With --wait: exit 2 after this time' -r
complete -c initctl -n "__fish_initctl_using_subcommand restart" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand restart" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand restart" -l wait -d 'Wait until no unit is starting, stopping or waiting'
complete -c initctl -n "__fish_initctl_using_subcommand restart" -l no-wait -d 'Return at once. On a terminal, the default is to wait for the units that change'
complete -c initctl -n "__fish_initctl_using_subcommand restart" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand restart" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand reload-unit" -l timeout -d 'With --wait: exit 2 after this time' -r
complete -c initctl -n "__fish_initctl_using_subcommand reload-unit" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand reload-unit" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand reload-unit" -l wait -d 'Wait until no unit is starting, stopping or waiting'
complete -c initctl -n "__fish_initctl_using_subcommand reload-unit" -l no-wait -d 'Return at once. On a terminal, the default is to wait for the units that change'
complete -c initctl -n "__fish_initctl_using_subcommand reload-unit" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand reload-unit" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand kill" -s s -l signal -d 'The signal, by name or number' -r
complete -c initctl -n "__fish_initctl_using_subcommand kill" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand kill" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand kill" -s a -l all -d 'Signal every process of the unit, not only the main one'
complete -c initctl -n "__fish_initctl_using_subcommand kill" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand kill" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand retry" -l timeout -d 'With --wait: exit 2 after this time' -r
complete -c initctl -n "__fish_initctl_using_subcommand retry" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand retry" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand retry" -l wait -d 'Wait until no unit is starting, stopping or waiting'
complete -c initctl -n "__fish_initctl_using_subcommand retry" -l no-wait -d 'Return at once. On a terminal, the default is to wait for the units that change'
complete -c initctl -n "__fish_initctl_using_subcommand retry" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand retry" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand logs" -s n -l lines -d 'The last N lines of each unit' -r
complete -c initctl -n "__fish_initctl_using_subcommand logs" -l since -d 'Start at this time: a span before now (`10min`) or a time (`2026-11-21T05:12:26Z`; without a zone: local time)' -r
complete -c initctl -n "__fish_initctl_using_subcommand logs" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand logs" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand logs" -s f -l follow -d 'Follow the log'
complete -c initctl -n "__fish_initctl_using_subcommand logs" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand logs" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand events" -l after -d 'Only events after this sequence number' -r
complete -c initctl -n "__fish_initctl_using_subcommand events" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand events" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand events" -s f -l follow -d 'Follow the event log'
complete -c initctl -n "__fish_initctl_using_subcommand events" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand events" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand tree" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand tree" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand tree" -l reverse -d 'Show dependents instead of dependencies'
complete -c initctl -n "__fish_initctl_using_subcommand tree" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand tree" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand graph" -l units -d 'Read the unit files of this directory instead of asking init' -r -f -a "(__fish_complete_directories)"
complete -c initctl -n "__fish_initctl_using_subcommand graph" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand graph" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand graph" -l dot -d 'Graphviz output (the default)'
complete -c initctl -n "__fish_initctl_using_subcommand graph" -l mermaid -d 'Mermaid output'
complete -c initctl -n "__fish_initctl_using_subcommand graph" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand graph" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand timers" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand timers" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand timers" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand timers" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand sockets" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand sockets" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand sockets" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand sockets" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand blame" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand blame" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand blame" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand blame" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand critical-chain" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand critical-chain" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand critical-chain" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand critical-chain" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand plot" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand plot" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand plot" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand plot" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand cat" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand cat" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand cat" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand cat" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand whose" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand whose" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand whose" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand whose" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand doctor" -l root -d 'Examine the system in this directory instead of the running one' -r -f -a "(__fish_complete_directories)"
complete -c initctl -n "__fish_initctl_using_subcommand doctor" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand doctor" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand doctor" -s a -l all -d 'Also show what is fine'
complete -c initctl -n "__fish_initctl_using_subcommand doctor" -l strict -d 'Exit 1 on warnings too'
complete -c initctl -n "__fish_initctl_using_subcommand doctor" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c initctl -n "__fish_initctl_using_subcommand check" -l root -d 'Check the configured directories of the system in this directory' -r -f -a "(__fish_complete_directories)"
complete -c initctl -n "__fish_initctl_using_subcommand check" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand check" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand check" -l strict -d 'Exit 1 on warnings too'
complete -c initctl -n "__fish_initctl_using_subcommand check" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand check" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand convert" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand convert" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand convert" -l strict-sandbox -d 'Refuse units whose sandbox cannot be provided'
complete -c initctl -n "__fish_initctl_using_subcommand convert" -l report -d 'Print what became of each directive or header line, instead of the native form'
complete -c initctl -n "__fish_initctl_using_subcommand convert" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand convert" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand explain" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand explain" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand explain" -l man -d 'The keys as a man page, groundstate.unit(5)'
complete -c initctl -n "__fish_initctl_using_subcommand explain" -l schema -d 'The keys as a JSON schema, for editors'
complete -c initctl -n "__fish_initctl_using_subcommand explain" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand explain" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand source; and not __fish_seen_subcommand_from put list drop" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand source; and not __fish_seen_subcommand_from put list drop" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand source; and not __fish_seen_subcommand_from put list drop" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand source; and not __fish_seen_subcommand_from put list drop" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand source; and not __fish_seen_subcommand_from put list drop" -f -a "put" -d 'Replace the contents of a source'
complete -c initctl -n "__fish_initctl_using_subcommand source; and not __fish_seen_subcommand_from put list drop" -f -a "list" -d 'List all sources and their contents'
complete -c initctl -n "__fish_initctl_using_subcommand source; and not __fish_seen_subcommand_from put list drop" -f -a "drop" -d 'Delete the contents of a source'
complete -c initctl -n "__fish_initctl_using_subcommand source; and __fish_seen_subcommand_from put" -l root -d 'A target that should run' -r
complete -c initctl -n "__fish_initctl_using_subcommand source; and __fish_seen_subcommand_from put" -l expect -d 'Fail unless the source has this revision' -r
complete -c initctl -n "__fish_initctl_using_subcommand source; and __fish_seen_subcommand_from put" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand source; and __fish_seen_subcommand_from put" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand source; and __fish_seen_subcommand_from put" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand source; and __fish_seen_subcommand_from put" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand source; and __fish_seen_subcommand_from list" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand source; and __fish_seen_subcommand_from list" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand source; and __fish_seen_subcommand_from list" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand source; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand source; and __fish_seen_subcommand_from drop" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand source; and __fish_seen_subcommand_from drop" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand source; and __fish_seen_subcommand_from drop" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand source; and __fish_seen_subcommand_from drop" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand upgrade" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand upgrade" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand upgrade" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand upgrade" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand switch-root" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand switch-root" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand switch-root" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand switch-root" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand ping" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand ping" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand ping" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand ping" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand stats" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand stats" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand stats" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand stats" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c initctl -n "__fish_initctl_using_subcommand poweroff" -l at -d 'Later: at HH:MM, or in M minutes (+M); logged-in users are warned' -r
complete -c initctl -n "__fish_initctl_using_subcommand poweroff" -l message -d 'With --at: a text for logged-in users' -r
complete -c initctl -n "__fish_initctl_using_subcommand poweroff" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand poweroff" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand poweroff" -s y -l yes -d 'Do not ask for confirmation'
complete -c initctl -n "__fish_initctl_using_subcommand poweroff" -s f -l force -d 'Kill all processes without stopping units, then sync and unmount; twice: end at once'
complete -c initctl -n "__fish_initctl_using_subcommand poweroff" -l cancel -d 'Cancel a shutdown that was planned with --at'
complete -c initctl -n "__fish_initctl_using_subcommand poweroff" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand poweroff" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand reboot" -l at -d 'Later: at HH:MM, or in M minutes (+M); logged-in users are warned' -r
complete -c initctl -n "__fish_initctl_using_subcommand reboot" -l message -d 'With --at: a text for logged-in users' -r
complete -c initctl -n "__fish_initctl_using_subcommand reboot" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand reboot" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand reboot" -s y -l yes -d 'Do not ask for confirmation'
complete -c initctl -n "__fish_initctl_using_subcommand reboot" -s f -l force -d 'Kill all processes without stopping units, then sync and unmount; twice: end at once'
complete -c initctl -n "__fish_initctl_using_subcommand reboot" -l cancel -d 'Cancel a shutdown that was planned with --at'
complete -c initctl -n "__fish_initctl_using_subcommand reboot" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand reboot" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand halt" -l at -d 'Later: at HH:MM, or in M minutes (+M); logged-in users are warned' -r
complete -c initctl -n "__fish_initctl_using_subcommand halt" -l message -d 'With --at: a text for logged-in users' -r
complete -c initctl -n "__fish_initctl_using_subcommand halt" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand halt" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand halt" -s y -l yes -d 'Do not ask for confirmation'
complete -c initctl -n "__fish_initctl_using_subcommand halt" -s f -l force -d 'Kill all processes without stopping units, then sync and unmount; twice: end at once'
complete -c initctl -n "__fish_initctl_using_subcommand halt" -l cancel -d 'Cancel a shutdown that was planned with --at'
complete -c initctl -n "__fish_initctl_using_subcommand halt" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand halt" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand exit" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand exit" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand exit" -s y -l yes -d 'Do not ask for confirmation'
complete -c initctl -n "__fish_initctl_using_subcommand exit" -s f -l force -d 'Kill all processes without stopping units, then sync and unmount; twice: end at once'
complete -c initctl -n "__fish_initctl_using_subcommand exit" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand exit" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand completions" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand completions" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand completions" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand completions" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand man" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand man" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand man" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand man" -s h -l help -d 'Print help'
complete -c initctl -n "__fish_initctl_using_subcommand __targets" -l socket -d 'The control socket of init [env: GROUNDSTATE_SOCKET]' -r -F
complete -c initctl -n "__fish_initctl_using_subcommand __targets" -l color -d 'When to use colours: auto, always or never' -r -f -a "auto\t'Colours on a terminal, unless NO_COLOR is set'
always\t'Colours on any output'
never\t'No colours'"
complete -c initctl -n "__fish_initctl_using_subcommand __targets" -l json -d 'Print JSON; streams print one object per line'
complete -c initctl -n "__fish_initctl_using_subcommand __targets" -s h -l help -d 'Print help'

complete -c initctl -n "__fish_seen_subcommand_from status set-target plan why want unwant mask unmask enable disable restart reload-unit kill retry logs tree critical-chain cat" -f -a "(initctl __targets 2>/dev/null)"
complete -c initctl -n "__fish_seen_subcommand_from explain" -f -a "(initctl explain 2>/dev/null | string replace -rf '^  (\S+) .*' '\$1')"
