# Ours with its initial OOM score, so that children share its memory until their exec.
OOM=keep
. "$HERE/adapters/groundstate.sh"
