# lib.sh: graphs, contenders and one measurement; sourced by run, syscalls and vm.
# An adapter (adapters/NAME.sh) is sourced with D, N, GRAPH, SVC, FIFO set. have() says whether the
# contender is installed; gen() writes $D/cmd (argv of PID 1, one argument a line), optionally
# $D/env, $D/pre (shell, run inside the namespace before the clock starts) and $D/stop (shell;
# $P = pid of PID 1; default: kill -TERM $P), and the configuration for the services in $GRAPH
# (lines "ID DEP DEP …"). Service i is started as  $SVC $FIFO i [fd=3|sd|none].
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOP=$(cd "$HERE/../.." && pwd)
BIN=$TOP/tests/.work/bench
# A tmpfs of our own, outside the directories that pbench covers in the namespace.
PB=${PB:-/mnt/groundstate-bench}
PEERS=${PEERS:-/opt/peers}
export PEERS
# Measured programs and the harness run before all other work of the machine.
STEADY=$(chrt -r 10 true 2>/dev/null && echo chrt -r 10)
HOST=$(rustc -vV | sed -n 's/^host: //p')
GROUNDSTATE_INIT=${GROUNDSTATE_INIT:-$TOP/target/$HOST/release/init}

build() {
  mkdir -p "$BIN" || return 1
  local cc="cc -static"
  command -v musl-gcc >/dev/null && cc="musl-gcc -static"
  $cc -O2 -s -o "$BIN/floor" "$HERE/floor.c" && $cc -O2 -s -o "$BIN/pbench" "$HERE/pbench.c" &&
    $cc -Os -s -o "$BIN/svc" "$HERE/svc.c"
}

graph() { # KIND N
  case $1 in
    flat) awk -v n="$2" 'BEGIN{for(i=0;i<n;i++)print i}' ;;
    chain) awk -v n="$2" 'BEGIN{for(i=0;i<n;i++)print i (i?" " i-1:"")}' ;;
    layer) awk -v L=10 -v W=50 'BEGIN{for(l=0;l<L;l++)for(w=0;w<W;w++){s=l*W+w;if(l)for(k=0;k<3;k++)s=s " " (l-1)*W+(w+k*17)%W;print s}}' ;;
  esac
}

have_contender() { (. "$HERE/adapters/$1.sh" && have); }

prep() { # NAME N KIND
  D=$PB/$1 N=$2
  rm -rf "$D"
  mkdir -p "$D"
  cp "$BIN/svc" "$D/svc"
  SVC=$D/svc FIFO=$D/fifo GRAPH=$D/graph
  graph "${3:-flat}" "$N" >"$GRAPH"
  [ "${3:-}" = layer ] && N=$(wc -l <"$GRAPH")
  (. "$HERE/adapters/$1.sh" && gen)
}

one() { # NAME N KIND PHASE…: one JSON line
  local name=$1 n=$2 kind=$3
  shift 3
  prep "$name" "$n" "$kind" || return 1
  $STEADY "$BIN/pbench" -d "$D" -n "$N" -t "${T:-60}" -c "$name" "$@" | sed "s/^{/{\"kind\":\"$kind\",/"
  # The next init would remove the cgroups of a killed one within its measured time.
  # A running init holds a lock on its directory, so no other init is affected.
  local root
  for root in /sys/fs/cgroup/{,unified/}{pbench,groundstate*}; do
    [ -d "$root" ] && flock -n "$root" find "$root" -depth -type d -exec rmdir {} \; 2>/dev/null
  done
  rm -rf "$D"
}
