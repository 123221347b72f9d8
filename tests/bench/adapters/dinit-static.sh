# dinit HEAD, container mode, readiness by pipefd:3, real dependency graph.  SIGTERM = orderly shutdown of all.
have() { [ -x $PEERS/dinit-static/src/dinit ]; }
gen() { mkdir -p $D/dinit.d
 awk -v D=$D -v S=$SVC -v F=$FIFO '{f=D "/dinit.d/s" $1; printf "type = process\ncommand = %s %s %s fd=3\nready-notification = pipefd:3\nrestart = true\nrestart-delay = 0\nrestart-limit-count = 0\n",S,F,$1 > f; for(i=2;i<=NF;i++)print "depends-on: s" $i > f; close(f); print "waits-for: s" $1 > D "/boot.tmp"}' $GRAPH
 { echo "type = internal"; cat $D/boot.tmp 2>/dev/null; } > $D/dinit.d/boot
 printf '%s\n' $PEERS/dinit-static/src/dinit -q --container -d $D/dinit.d boot > $D/cmd; }
