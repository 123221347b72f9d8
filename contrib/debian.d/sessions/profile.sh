# The runtime directory of the user's instance. elogind and logind have already set the variable.
if [ -z "${XDG_RUNTIME_DIR-}" ] && [ -O "/run/user/$(id -u)" ]; then
  XDG_RUNTIME_DIR=/run/user/$(id -u)
  export XDG_RUNTIME_DIR
fi
