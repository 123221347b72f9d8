# busybox init (Debian static build), one ::respawn: line per service; no readiness, no dependencies.
have() { [ -x /bin/busybox ] && ! ldd /bin/busybox >/dev/null 2>&1; }
gen() { awk -v S=$SVC -v F=$FIFO 'BEGIN{print "::sysinit:/bin/true"}{printf "::respawn:%s %s %s none\n",S,F,$1}' $GRAPH > $D/inittab
 echo "touch /etc/inittab 2>/dev/null; mount --bind $D/inittab /etc/inittab" > $D/pre
 printf '%s\n' $D/init > $D/cmd; cp /bin/busybox $D/init; echo 'kill -TERM $P' > $D/stop; }
