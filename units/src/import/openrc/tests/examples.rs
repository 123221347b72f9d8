//! Our own service scripts, one for each common form.

/// The script only declares; the service starts into the background.
pub(super) const BACKGROUND: &str = r#"#!/sbin/openrc-run
# A daemon that stays in the foreground by itself.

name="cased"
description="Keeper  of
cases"
cfg="${CASES_CONF:-/etc/${RC_SVCNAME}.conf}"
command=/usr/sbin/cased
command_args="--config $cfg --say \"two words\""
command_background="yes"
command_user="cases:files"
pidfile="/run/${RC_SVCNAME}.pid"
directory=/srv/cases
umask=027
output_log="/var/log/$SVCNAME.log"
error_log="/var/log/$SVCNAME.err"
required_files="$cfg"
required_dirs=/srv/cases

depend() {
	need localmount net	# both
	want clerk
	use logger
	after bootmisc cases \
		logger
	before court
	provide registry cases
	keyword -timeout -docker -containers -jail
	config $cfg
}
"#;

/// A service of supervise-daemon with all its variables.
pub(super) const SUPERVISED: &str = r#"#!/sbin/openrc-run
supervisor=supervise-daemon
command="/usr/bin/hare"
command_args="--run"
command_args_foreground="--no-fork"
command_args_background="--fork"
respawn_delay=2
respawn_max=5
respawn_period=60
retry="SIGINT/30/SIGKILL/5"
rc_ulimit="-n 65536 -c unlimited -l64"
capabilities="^cap_net_bind_service,^cap_net_raw"
no_new_privs=yes
notify=fd:5
extra_started_commands="reload"
description_reload="Runs the other way"
supervise_daemon_args="--nicelevel 5 -I 2:7 --oom-score-adj=-200"

export HARE_HOME="/var/lib/hare" LANG=C

start_pre() {
	checkpath -d -m 0750 /run/hare /run/hare/old
	checkpath --directory --owner root:root /var/log/hare
}

reload() {
	ebegin "Turning $RC_SVCNAME"
	$supervisor "$RC_SVCNAME" --signal HUP
	eend $?
}
"#;

/// The script has functions of its own for start and stop.
pub(super) const SCRIPTED: &str = r#"#!/sbin/openrc-run
description="Rings the tree"
extra_started_commands="reload"
retry=TERM/60/KILL/70
: ${tree_dir:=$(findtree --first)}

depend() {
	need root
}

_rings() {
	cat <<-END | while read -r ring; do
		if one } of { them is '
	END
		echo "$ring"
	done
}

start() {
	ebegin "Ringing"
	for ring in $(_rings); do
		case "$ring" in
			(old) continue ;;
			new|newer) ring "$ring" & ;;
		esac
	done
	eend $?
}

stop() {
	kill -TERM $(cat /run/tree.pid) 2>/dev/null
}

reload() {
	stop && start
}
"#;

/// Half of the words in `depend()` are under a condition.
pub(super) const CONDITIONAL: &str = r#"#!/sbin/openrc-run
command=/usr/sbin/gated
pidfile=/run/gated.pid

depend() {
	use logger
	after entropy
	if [ -n "$gate_net" ]; then
		need net
	fi
	local extra=$(gate --list)
	need $extra
	probe_more --all
	[ -e /etc/gate.early ] && return 0
	want late
}
"#;

/// One file for several services.
pub(super) const INSTANCE: &str = r#"#!/sbin/openrc-run
link="${RC_SVCNAME#*.}"
command=/usr/sbin/link
command_args="-i $link"
pidfile="/run/link.$link.pid"

depend() {
	provide net
	after net.lo
}
"#;

/// All scripts.
pub(super) const ALL: [(&str, &str); 5] = [
    ("cases", BACKGROUND),
    ("hare", SUPERVISED),
    ("tree", SCRIPTED),
    ("gate", CONDITIONAL),
    ("net.eth0", INSTANCE),
];
