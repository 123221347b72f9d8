# A Debian system whose PID 1 is the real init, in namespaces of its own; sourced. Only
# the loopback interface exists while it runs: packages are downloaded before.
DEBIAN=$PWD/tests/.work/chroot
BASE=$DEBIAN/base
ARCHIVES=$DEBIAN/archives
SUITE=bookworm

until_it() { # SECONDS COMMAND…: repeats it until it succeeds
  local end=$((SECONDS + $1 * 3)) # three times as long, for a slow machine
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    read -rt 0.2 <> <(:) || true
  done
}

debian_base() { # a minimal system, made once
  [ -e "$BASE/.made" ] && return 0
  mkdir -p "$DEBIAN"
  [ -x "$BASE/usr/bin/apt-get" ] && grep -q '^I: Base system installed' "$DEBIAN/debootstrap.log" ||
    { rm -rf "$BASE" && debootstrap --variant=minbase --include=ca-certificates "$SUITE" "$BASE" \
      >"$DEBIAN/debootstrap.log" 2>&1; } || return 1
  printf 'APT::Install-Recommends "false";\nAPT::Sandbox::User "root";\n' >"$BASE/etc/apt/apt.conf.d/90tests"
  # The tests are about unit files, not about prompts of packages.
  printf 'force-unsafe-io\n' >"$BASE/etc/dpkg/dpkg.cfg.d/90tests"
  cp /etc/resolv.conf "$BASE/etc/resolv.conf"
  chroot "$BASE" sh -c 'apt-get update -q && apt-get install -y -q systemd-standalone-tmpfiles procps' \
    >>"$DEBIAN/debootstrap.log" 2>&1 || return 1
  touch "$BASE/.made"
}

debian_download() { # PACKAGE…: downloads them with their dependencies into the shared cache
  mkdir -p "$ARCHIVES/partial"
  local stamp
  stamp=$ARCHIVES/.$(printf '%s\n' "$@" | sort -u | sha256sum | cut -c1-16)
  [ -e "$stamp" ] && return 0
  cp /etc/resolv.conf "$BASE/etc/resolv.conf"
  chroot "$BASE" apt-get install -y -q --download-only -o Acquire::Retries=3 -o Dir::Cache::archives=/archives "$@" \
    >>"$DEBIAN/download.log" 2>&1 < <(:) || return 1
  touch "$stamp"
}

debian_mount_archives() { # for the download, which runs in the base itself
  mkdir -p "$BASE/archives" "$ARCHIVES/partial"
  mountpoint -q "$BASE/archives" || mount --bind "$ARCHIVES" "$BASE/archives"
}

debian_boot() { # NAME: a fresh system over the base; sets INIT_PID (as seen from here)
  NAME=$1
  TOP=$DEBIAN/run/$NAME
  rm -rf "$TOP"
  mkdir -p "$TOP"/{upper,work,root}
  CGROUP=$(findmnt -n -t cgroup2 -o TARGET | head -n 1)/groundstate-test.$$.$NAME
  mkdir -p "$CGROUP"
  bash -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$CGROUP" \
    unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child \
    bash tests/stages/debian-init "$BASE" "$ARCHIVES" "$TOP" >"$TOP/console.log" 2>&1 &
  OUTER_PID=$!
  until_it 60 booted || { tail -n 20 "$TOP/console.log" && return 1; }
}
booted() {
  kill -0 "$OUTER_PID" 2>/dev/null && INIT_PID=$(pgrep -P "$OUTER_PID") && [ -n "$INIT_PID" ] &&
    within initctl ping >/dev/null 2>&1
}

within() { # COMMAND…: runs it in the booted system
  nsenter -t "$INIT_PID" --mount --pid --net --uts --ipc --cgroup --root --wd \
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}

debian_halt() { # powers the system off and removes it; fails if it has to be killed
  within initctl poweroff --yes >/dev/null 2>&1
  local status=0
  until_it 60 is_over || { kill -KILL "$OUTER_PID" && status=1; }
  wait "$OUTER_PID" 2>/dev/null
  find "$CGROUP" -depth -type d -exec rmdir {} \; 2>/dev/null
  [ $status -ne 0 ] || rm -rf "$TOP"
  return $status
}
is_over() { ! kill -0 "$OUTER_PID" 2>/dev/null; }
