#!/bin/sh
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
