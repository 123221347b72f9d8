# The physical limit with a cgroup (v2) per service: see floor.c.
have() { grep -q cgroup2 /proc/mounts; }
gen() {
  printf '%s\n' "$D/floor" "$SVC" "$FIFO" "$GRAPH" c >"$D/cmd"
  cp "$BIN/floor" "$D/floor"
  echo "mount -t cgroup2 none /sys/fs/cgroup" >"$D/pre"
}
