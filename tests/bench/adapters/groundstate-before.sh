# Ours as an earlier build: GROUNDSTATE_BEFORE is its init.
[ -z "${GROUNDSTATE_BEFORE-}" ] || GROUNDSTATE_INIT=$GROUNDSTATE_BEFORE
. "$HERE/adapters/groundstate.sh"
have() { [ -x "${GROUNDSTATE_BEFORE-}" ]; }
