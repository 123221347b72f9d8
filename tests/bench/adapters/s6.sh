# s6 alone: s6-svscan as PID 1 over a ready-made scan directory; no dependencies.  run scripts are execline.
have() { [ -x $PEERS/skarnet/bin/s6-svscan ] || { [ -x /usr/bin/s6-svscan ] && [ -x /usr/bin/execlineb ]; }; }
gen() { B=$PEERS/skarnet/bin; [ -d $B ] || B=/usr/bin; MAX=-C; case $($B/s6-svscan -C 2>&1) in *maxservices*) MAX=-c ;; esac; mkdir -p $D/scan
 awk -v D=$D -v S=$SVC -v F=$FIFO -v B=$B '{d=D "/scan/s" $1; print d > D "/dirs"; r[$1]=1} END{}' $GRAPH; [ -s $D/dirs ] && xargs mkdir -p < $D/dirs
 awk -v D=$D -v S=$SVC -v F=$FIFO -v B=$B '{d=D "/scan/s" $1; printf "#!%s/execlineb -P\n%s %s %s fd=3\n",B,S,F,$1 > (d "/run"); close(d "/run"); print 3 > (d "/notification-fd"); close(d "/notification-fd")}' $GRAPH
 [ -s $D/dirs ] && sed 's,$,/run,' $D/dirs | xargs chmod 755
 echo PATH=$B:/usr/bin:/bin > $D/env; printf '%s\n' $B/s6-svscan $MAX 4000 -t 0 $D/scan >$D/cmd; }
