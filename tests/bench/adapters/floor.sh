# The physical limit: see floor.c.
have() { true; }
gen() { printf '%s\n' /bin/floor $SVC $FIFO $GRAPH v > $D/cmd; cp $BIN/floor $D/floor; sed -i "1s,.*,$D/floor," $D/cmd; }
