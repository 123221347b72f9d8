# Ours with its defaults: the output of each service goes through the logger into a file.
LOG=file
. "$HERE/adapters/groundstate.sh"
