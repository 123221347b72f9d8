# runit 2.1.2 (Debian), the real PID 1 with /etc/runit/{1,2,3}; run scripts are dash; no readiness, no dependencies.
have() { [ -x /sbin/runit ]; }
gen() { mkdir -p $D/sv $D/etc
 awk -v D=$D '{print D "/sv/s" $1}' $GRAPH > $D/dirs; [ -s $D/dirs ] && xargs mkdir -p < $D/dirs
 awk -v D=$D -v S=$SVC -v F=$FIFO '{f=D "/sv/s" $1 "/run"; printf "#!/bin/sh\nexec %s %s %s none\n",S,F,$1 > f; close(f)}' $GRAPH
 [ -s $D/dirs ] && sed 's,$,/run,' $D/dirs | xargs chmod 755
 printf '#!/bin/sh\ntouch /run/runit.stopit; chmod 0 /run/runit.stopit\n' > $D/etc/1
 printf '#!/bin/sh\nexec runsvdir -P %s/sv\n' $D > $D/etc/2
 printf '#!/bin/sh\nsv -w196 force-stop %s/sv/* >/dev/null 2>&1; sv exit %s/sv/* >/dev/null 2>&1\n' $D $D > $D/etc/3
 find $D/sv -depth -exec touch -d "1 hour ago" {} + # runsvdir sleeps 1 s if the directory changed within this second
 ln -s /run/runit.stopit $D/etc/stopit; ln -s /run/runit.reboot $D/etc/reboot; chmod 755 $D/etc/[123]
 echo "mount --bind $D/etc /etc/runit" > $D/pre
 printf '%s\n' /sbin/runit > $D/cmd
 echo 'nsenter -t $P -p -m sh -c "touch /run/runit.stopit; chmod 100 /run/runit.stopit"; kill -CONT $P' > $D/stop; }
