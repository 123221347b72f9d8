# systemd 252 (Debian) as container PID 1, Type=notify, unified cgroup2 without controllers, only our units.
have() { [ -x /lib/systemd/systemd ]; }
gen() { mkdir -p $D/units
 awk -v D=$D -v S=$SVC -v F=$FIFO '{f=D "/units/s" $1 ".service"; d="";for(i=2;i<=NF;i++)d=d " s" $i ".service"; printf "[Unit]\nDefaultDependencies=no\nConflicts=shutdown.target\nBefore=shutdown.target\nStartLimitIntervalSec=0\n" > f; if(d!="")printf "Requires=%s\nAfter=%s\n",d,d > f; printf "[Service]\nType=notify\nExecStart=%s %s %s sd\nRestart=always\nRestartSec=0\nStandardOutput=null\nStandardError=null\n",S,F,$1 > f; close(f); w=w " s" $1 ".service"} END{f=D "/units/bench.target"; printf "[Unit]\nDefaultDependencies=no\nAllowIsolate=yes\n" > f; n=split(w,a," "); for(i=1;i<=n;i++)print "Wants=" a[i] > f}' $GRAPH
 cat > $D/pre <<X
mount -t cgroup2 none /sys/fs/cgroup
mkdir -p /run/systemd/system; mount --bind $D/units /run/systemd/system
mount -t tmpfs none /etc/systemd/system
X
 printf '%s\n' /lib/systemd/systemd --system --unit=bench.target --show-status=no --log-level=warning --log-target=console > $D/cmd
 echo 'kill -RTMIN+3 $P' > $D/stop; }
