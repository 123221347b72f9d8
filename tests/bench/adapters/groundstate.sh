# Ours: readiness by sd_notify, real dependencies, no output captured (as the peers here).
LOG=${LOG:-null} OOM=${OOM:-}
have() { [ -x "$GROUNDSTATE_INIT" ]; }
gen() {
  mkdir -p "$D/units"
  awk -v D="$D" -v S="$SVC" -v F="$FIFO" -v L="$LOG" '{
    f = D "/units/s" $1 ".yaml"; d = ""
    for (i = 2; i <= NF; i++) d = d (d == "" ? "" : ", ") "s" $i
    printf "unit: s%s\ntype: foreground-notified\nrestart-delay: 0\nlog: %s\n", $1, L > f
    if (d != "") printf "depends-on: %s\n", d > f
    printf "exec-start: %s %s %s sd\n", S, F, $1 > f
    close(f); all = all (all == "" ? "" : ", ") "s" $1
  } END { f = D "/units/all.yaml"; printf "unit: all\ntype: virtual\n" > f
    if (all != "") printf "waits-for: %s\n", all > f }' "$GRAPH"
  printf 'echo: no\nenv-pass: []\n' >"$D/init.yaml"
  cp "$GROUNDSTATE_INIT" "$D/init"
  printf '%s\n' "$D/init" --container --config "$D/init.yaml" --units "$D/units" \
    --runtime-dir /run/groundstate --log-dir /var/log/groundstate --target all ${OOM:+--oom-score "$OOM"} >"$D/cmd"
}
