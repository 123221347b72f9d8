//! Scripts in the forms that occur in /etc/init.d.

pub(super) const TWO_NAMES: &str = "\
#! /bin/sh

### BEGIN INIT INFO
# Provides:\t\tshell shelld
# Required-Start:\t$remote_fs $syslog keys
# Required-Stop:\t$remote_fs $syslog
# Should-Start:\t\tfirewall
# Default-Start:\t2 3 4 5
# Default-Stop:\t\t
# Short-Description:\tA shell from afar
# Description:\t\tLets people in
#\t\tfrom far away.
### END INIT INFO

set -e
case \"$1\" in
  start)
    run ;;
  reload|force-reload)
    again ;;
esac
";

pub(super) const EARLY: &str = "\
#!/bin/sh
### BEGIN INIT INFO
# Provides:          clock
# Required-Start:    mountdevs
# Required-Stop:
# X-Start-Before:    checkroot
# Default-Start:     S
# Default-Stop:
# Short-Description: Sets the clock.
### END INIT INFO
. /lib/lsb/init-functions
";

pub(super) const WITHOUT: &str = "#!/bin/bash\n# Starts what is here.\n/opt/here/run $1\n";

pub(super) const RED_HAT: &str = "\
#!/bin/bash
#
# cache        Keeps things near
#
# chkconfig: 2345 85 15
# description: Keeps answers \\
#              near the client.
# processname: cached
# pidfile: /var/run/cached.pid
# config: /etc/cached.conf

case \"$1\" in
  start|stop|restart) true ;;
esac
# pidfile: /not/at/the/head
";

pub(super) const FACILITIES: &str = "\
#!/bin/sh
### BEGIN INIT INFO
# Provides:          all-of-it $portmap
# Required-Start:    $local_fs $remote_fs $network $named
# Should-Start:      $time $syslog $x-display-manager
# Should-Stop:       $all
# X-Stop-After:      last
# Default-Start:     3 5
# Default-Stop:      0 1 2 6
# X-Interactive:     true
### END INIT INFO
";

pub(super) const SAMPLES: [(&str, &str); 5] = [
    ("shell", TWO_NAMES),
    ("clock.sh", EARLY),
    ("here", WITHOUT),
    ("cache", RED_HAT),
    ("all-of-it", FACILITIES),
];
