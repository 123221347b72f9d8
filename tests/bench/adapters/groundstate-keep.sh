# Ours with the OOM score it was started with, so that its children share its memory until they are executed.
OOM=keep
. "$HERE/adapters/groundstate.sh"
