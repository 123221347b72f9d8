# A virtual machine with a Debian system from debootstrap; sourced after stage.sh. The stage sets
#   STAGE      its name, and the first part of the names of its tests
#   PACKAGES   for debootstrap, separated by commas
#   DISKS      names of the images, in the order of /dev/vda, /dev/vdb …; the first is `root`
# and makes the directory $RUN with the images, `kernel`, `initrd` and `key`. SUITE names the release.
SUITE=${SUITE:-bookworm}
DIR=$PWD/tests/.work/$STAGE
TREE=$DIR/$SUITE
RUN=$DIR/run
ROOT=0d1c2a30-5f5e-4d6a-9c6b-7a1b2c3d4e5f
trap '[ -z "${QEMU-}" ] || kill -KILL "$QEMU" 2>/dev/null' EXIT

until_it() { # SECONDS COMMAND…: repeats it until it succeeds or the machine is off
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] && kill -0 "$QEMU" 2>/dev/null || return 1
    read -rt 0.5 <> <(:) || true
  done
}

tree() { # [PACKAGE…]: the system, made once, with these packages downloaded
  [ "$(cat "$TREE/.made" 2>/dev/null)" = "$PACKAGES $*" ] && return 0
  rm -rf "$TREE" && mkdir -p "$DIR" && minimal_system >"$DIR/debootstrap.log" 2>&1 &&
    printf 'APT::Install-Recommends "false";\n' >"$TREE/etc/apt/apt.conf.d/90tests" &&
    chroot "$TREE" apt-get install -y -q --download-only "$@" >>"$DIR/debootstrap.log" 2>&1 &&
    echo "$PACKAGES $*" >"$TREE/.made"
}
minimal_system() {
  if [ "$SUITE" = bookworm ]; then
    debootstrap --variant=minbase --include="$PACKAGES" "$SUITE" "$TREE"
  else
    # From Debian 13 on, debootstrap fails: it takes the first of alternative dependencies, systemd.
    mmdebstrap --variant=minbase --include="$PACKAGES" "$SUITE" "$TREE" &&
      cp /etc/resolv.conf "$TREE/etc/resolv.conf" && chroot "$TREE" apt-get update -q
  fi
}

configure() { # TREE: names, network and login of the machine; its kernel and initrd
  local root=$1
  printf '%s\n' 'auto lo' 'iface lo inet loopback' 'auto eth0' 'iface eth0 inet dhcp' >"$root/etc/network/interfaces"
  echo debian >"$root/etc/hostname"
  echo "127.0.0.1 localhost debian" >"$root/etc/hosts"
  echo root:secret | chroot "$root" chpasswd
  ssh-keygen -q -t ed25519 -N '' -f "$RUN/key"
  chroot "$root" sh -c 'umask 077; mkdir -p ~root/.ssh; cat >~root/.ssh/authorized_keys' <"$RUN/key.pub"
  cp "$root"/boot/vmlinuz-* "$RUN/kernel" && cp "$root"/boot/initrd.img-* "$RUN/initrd"
}

boot() { # [WORD…]: boots with these words on the kernel's command line
  local drives=() disk try
  for disk in $DISKS; do drives+=(-drive "file=$RUN/$disk.img,format=raw,if=virtio"); done
  : >"$RUN/console"
  for try in 1 2 3 4 5; do
    PORT=$((20000 + RANDOM % 10000))
    qemu-system-x86_64 -accel tcg -m 1024 -smp 2 -display none -no-reboot \
      -chardev "socket,id=serial,path=$RUN/serial,server=on,wait=off,logfile=$RUN/console" -serial chardev:serial \
      -monitor "unix:$RUN/monitor,server,nowait" -kernel "$RUN/kernel" -initrd "$RUN/initrd" \
      -append "root=UUID=$ROOT ro console=ttyS0 net.ifnames=0 no_timer_check $*" "${drives[@]}" \
      -nic "user,restrict=on,model=virtio-net-pci,hostfwd=tcp:127.0.0.1:$PORT-:22" >"$RUN/qemu.log" 2>&1 &
    QEMU=$!
    # A port that is in use ends qemu at once.
    until_it 20 [ -S "$RUN/monitor" ] && until_it 20 grep -q . "$RUN/console" && return 0
  done
  return 1
}

SSH=(-i "$RUN/key" -o BatchMode=yes -o ConnectTimeout=30 -o LogLevel=ERROR
  -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null)
inside() { # COMMAND: runs it in the machine
  ssh "${SSH[@]}" -p "$PORT" root@127.0.0.1 "$@" </dev/null
}

transcript() { # PAGE@PART: runs these commands of the page in the machine and compares the answers
  # The pages show Debian 12.
  [ "$SUITE" != bookworm ] || tests/guide run "$1" ssh "${SSH[@]}" -p "$PORT" root@127.0.0.1
}

send() { # SOCKET LINE: sends a line to the monitor or the serial console
  python3 -c '
import socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.settimeout(2)
peer.connect(sys.argv[1])
peer.sendall(sys.argv[2].encode() + b"\n")
try:
    while peer.recv(4096): pass
except TimeoutError:
    pass' "$RUN/$1" "$2"
}

shows() { grep -qF -- "$1" "$RUN/console"; } # TEXT: true once it is on the console
is_on() { kill -0 "$QEMU" 2>/dev/null; }
is_off() { ! is_on; }
# Before sshd runs, a connection may get no answer. Later, a slow machine may answer late.
answers() { ssh -o ConnectTimeout=5 "${SSH[@]}" -p "$PORT" root@127.0.0.1 true </dev/null; }
reaches_ssh() { until_it 240 answers; }
goes_off() { # [TEXT]: the kernel's last line
  local end=$((SECONDS + 120))
  while is_on; do
    [ $SECONDS -lt $end ] || return 1
    read -rt 0.5 <> <(:) || true
  done
  shows "reboot: ${1-Power down}"
}
cut_the_power() {
  kill -KILL "$QEMU"
  wait "$QEMU" 2>/dev/null
  true
}

part() { # NAME COMMAND…: runs one test; shows the end of the console if it fails
  check "$STAGE::$1" "${@:2}" || { tail -n 60 "$RUN/console" | tr -d '\r' | sed 's/^/    /' && false; }
}
