# Shared code of the stages; sourced. The working directory is the top of the repository.
WORK=tests/.work
mkdir -p "$WORK"
RESULTS=${RESULTS:-$WORK/results.tsv}
AGAIN=$WORK/again
# Tests that could not run, each with the reason; see src/not_run.rs.
NOT_RUN=$WORK/not-run
export GROUNDSTATE_NOT_RUN=$PWD/$NOT_RUN
HOST=$(rustc -vV | sed -n 's/^host: //p')
STATIC=target/$HOST/release
# The directory of the tests' own programs: the stand-in, the simulators, the demo's tour …
export GROUNDSTATE_PROGRAMS=$PWD/target/$HOST/test-fast
STAND_IN=$GROUNDSTATE_PROGRAMS/daemon
export CARGO_TERM_COLOR=never RUST_BACKTRACE=0
# The paths of the real binaries for their tests.
export GROUNDSTATE_INIT=$PWD/$STATIC/init GROUNDSTATE_INITCTL=$PWD/$STATIC/initctl
export GROUNDSTATE_DAEMON=$STAND_IN

# Cargo rebuilds when the selection of crates and features changes. So each profile always uses the
# same options, and nothing is compiled twice.
TESTS=(--workspace --features groundstate-tests/real,groundstate-cluster/real)
PROGRAMS=(--workspace --features groundstate-cluster/sim --profile test-fast --target "$HOST")

ok() { # NAME
  printf '%s\tok\n' "$1" >>"$RESULTS"
  echo "ok $1"
}
fail() { # NAME [WHY]
  printf '%s\tFAIL\n' "$1" >>"$RESULTS"
  echo "FAIL $1${2:+: $2}"
}
not_run() { # NAME: counts as neither passed nor failed
  printf '%s\tnot run\n' "$1" >>"$RESULTS"
  echo "not run $1"
}
failures() { grep -c $'\tFAIL$' "$RESULTS"; }

check() { # NAME COMMAND…: runs one test; shows its output if it fails
  local name=$1 log
  shift
  log=$WORK/${name//[^A-Za-z0-9._-]/_}.log
  if "$@" >"$log" 2>&1; then
    ok "$name"
  else
    fail "$name" "$*"
    tail -n 60 "$log" | sed 's/^/    /'
    return 1
  fi
}

# Runs `cargo test` with the arguments given and reports each test it ran as
# PROGRAM::NAME. An ignored test is a failure, because its result is unknown.
cargo_tests() { # LABEL ARGUMENT…
  local label=$1 log before status cargo arguments=() argument
  shift
  log=$WORK/$label.log
  before=$(failures)
  for argument in "$@"; do
    [ "$argument" != -- ] || break
    arguments+=("$argument")
  done
  if ! cargo test --quiet --no-run "${arguments[@]}" >"$log" 2>&1; then
    fail "$label::cargo-test" "does not build"
    grep -E '^error' -A 12 "$log" | head -n 60 | sed 's/^/    /'
    return 1
  fi
  cargo test --no-fail-fast "$@" >"$log" 2>&1 &
  cargo=$!
  end_the_silent "$cargo" "$log" &
  tail --pid="$cargo" --sleep-interval=0.2 --lines=+1 --follow "$log" | take_results
  wait "$cargo"
  status=$?
  wait
  [ "$status" -eq 0 ] && return 0
  # The other tests of a crashed program have no result, whatever a repetition of a failed test says.
  if grep -q "process didn't exit successfully.*(signal" "$log" && ! grep -q "^$ENDED" "$log"; then
    fail "$label::crashed" "a signal ended a test program"
  fi
  if [ "$(failures)" = "$before" ]; then
    fail "$label::cargo-test" "ended with status $status"
    grep -E '^error' -A 12 "$log" | head -n 60 | sed 's/^/    /'
  fi
  sed -n '/^---- .* stdout ----$/,/^test result/p' "$log" | head -n 200 | sed 's/^/    /'
  return 1
}

# Converts the output of `cargo test` to results.
take_results() {
  local line name program= pending=
  while IFS= read -r line; do
    case $line in
      *Running*" ("*)
        program=${line##*/}
        program=${program%-*}
        program=${program#groundstate_}
        ;;
      *Doc-tests*)
        program=${line##* }
        program=doc::${program#groundstate_}
        ;;
      # The log of a program may be before, after and between these words.
      *"test "*" ... ok"*)
        name=${line#*test } && name=$program::${name%% ... *}
        if grep -qF "$name"$'\t' "$NOT_RUN" 2>/dev/null; then not_run "$name"; else ok "$name"; fi
        ;;
      *"test "*" ... FAILED"*) name=${line#*test } && fail "$program::${name%% ... *}" ;;
      "test "*" ... ignored"*) name=${line#test } && fail "$program::${name% ... ignored*}" ignored ;;
      # Its log came between the name and the result, which starts a line.
      *"test "*" ... "*) pending=${line#*test } && pending=${pending%% ... *} ;;
      ok | ok[A-Z]* | FAILED*)
        [ -z "$pending" ] || case $line in
          ok*) ok "$program::$pending" ;;
          *) fail "$program::$pending" ;;
        esac
        pending=
        ;;
      "$ENDED "*) fail "$program::said_nothing_any_more" "ended after $SILENCE s of silence" ;;
    esac
  done
}

# A test program without output for this many seconds hangs: each test has a shorter timeout.
SILENCE=600
ENDED="== ended:"
end_the_silent() { # CARGO LOG: runs until that cargo exits
  local size=-1 now since=$SECONDS program
  while kill -0 "$1" 2>/dev/null; do
    now=$(stat -c %s "$2")
    [ "$now" = "$size" ] || since=$SECONDS
    size=$now
    if [ $((SECONDS - since)) -ge $SILENCE ]; then
      for program in $(cat "/proc/$1/task"/*/children 2>/dev/null); do
        echo "$ENDED $(tr '\0' ' ' <"/proc/$program/cmdline")" >>"$2"
        kill -KILL "$program"
      done
    fi
    read -rt 2 <> <(:) || true
  done
}

# Like cargo_tests, for tests of real processes on a machine that may be slow. Up to twenty-four
# tests that failed or did not finish are repeated, one by one. A fault of ours recurs and counts as
# failed; a test that passes then is listed at the end.
real_tests() { # LABEL ARGUMENT…
  local label=$1 name argument arguments=() status=0 log failed
  cargo_tests "$@" && return 0
  shift
  for argument in "$@"; do
    [ "$argument" != -- ] || break
    arguments+=("$argument")
  done
  # From the list at the end of each program, because log lines may be mixed with result lines.
  mapfile -t failed < <({
    awk '/^failures:$/ { n = 0 } /^    [a-z0-9_:]+$/ { name[n++] = $1 }
      /^test result: FAILED/ { while (n) print name[--n] }' "$WORK/$label.log"
    ! grep -q "^$ENDED" "$WORK/$label.log" || unheard "$label" "${arguments[@]}"
  } | sort -u)
  [ ${#failed[@]} -ge 1 ] && [ ${#failed[@]} -le 24 ] || return 1
  for name in "${failed[@]}"; do
    log=$WORK/$label-again.log
    if timeout --kill-after=15 $SILENCE cargo test --no-fail-fast "${arguments[@]}" -- --exact "$name" >"$log" 2>&1 &&
      grep -qE '^test result: ok\. [1-9][0-9]* passed' "$log"; then
      take_back "$name"
      echo "again $name: failed beside others, passed by itself" | tee -a "$AGAIN"
    else
      sed 's/^/    /' "$log" | tail -n 60
      status=1
    fi
  done
  [ $status -ne 0 ] || take_back said_nothing_any_more
  return $status
}

# Tests without a result in the log of LABEL, because their program was killed.
unheard() { # LABEL ARGUMENT…
  local log=$WORK/$1.log
  shift
  cargo test "$@" -- --list 2>/dev/null | sed -n 's/: test$//p' | sort -u | while IFS= read -r name; do
    grep -qE "test $name( - should panic)? \.\.\. " "$log" || echo "$name"
  done
}

take_back() { # NAME: it failed first and passes now
  awk -F'\t' -v name="::$1" '
    $2 == "FAIL" && substr($1, length($1) - length(name) + 1) == name {
      if (name != "::said_nothing_any_more") print $1 "\tok"
      seen = 1; next
    }
    { print }
    END { exit !seen }' "$RESULTS" >"$RESULTS.new"
  local seen=$?
  mv "$RESULTS.new" "$RESULTS"
  # Not reported before: its program was killed.
  [ $seen -eq 0 ] || [ "$1" = said_nothing_any_more ] || ok "again::$1"
}

# Like check, for real processes: repeated once after a failure.
check_again() { # NAME COMMAND…
  check "$@" && return 0
  check "$@" || return 1
  awk -F'\t' -v name="$1" '!($1 == name && $2 == "FAIL")' "$RESULTS" >"$RESULTS.new" && mv "$RESULTS.new" "$RESULTS"
  echo "again $1: failed, passed when run once more" | tee -a "$AGAIN"
}

# Records the `ok NAME` and `FAIL NAME` lines of one of our own programs.
own_program() { # LABEL PROGRAM ARGUMENT…
  local label=$1 program=$2 log before status
  shift 2
  log=$WORK/$label.log
  before=$(failures)
  "$GROUNDSTATE_PROGRAMS/$program" "$@" 2>&1 |
    tee "$log" | while IFS= read -r line; do
    case $line in
      "ok "*) ok "$label::${line#ok }" ;;
      "FAIL "*) fail "$label::${line#FAIL }" ;;
      *" passed, "*" failed") ;;
      *) echo "    $line" ;;
    esac
  done
  status=${PIPESTATUS[0]}
  if [ "$status" -eq 0 ]; then
    grep -q '^ok ' "$log" || ok "$label"
    return 0
  fi
  [ "$(failures)" != "$before" ] || fail "$label" "ended with status $status"
  return 1
}

static_binaries() { # those of a release
  contrib/static
}

programs() { # builds the programs of the tests, static too, because the stand-in runs in any container
  local bins=() file
  for file in tests/src/bin/*; do
    file=${file##*/}
    bins+=(--bin "${file%.rs}")
  done
  RUSTFLAGS="-C target-feature=+crt-static" cargo build "${PROGRAMS[@]}" "${bins[@]}" \
    --bin simulate-cluster --test simulation --test apart
}

program() { # NAME: builds this program only
  RUSTFLAGS="-C target-feature=+crt-static" cargo build "${PROGRAMS[@]}" --bin "$1"
}

run_program() { # PROGRAM ARGUMENT…: builds all, then runs this one, at the lowest priority if NICE is set
  programs >"$WORK/programs.log" 2>&1 || { tail -n 30 "$WORK/programs.log" >&2; return 2; }
  ${NICE:+nice -n 19} "$GROUNDSTATE_PROGRAMS/$1" "${@:2}"
}

need_binaries() { # for a stage that needs them if `build` does not run
  { static_binaries && programs; } >"$WORK/binaries.log" 2>&1 && return 0
  fail "stage::binaries" "cargo build"
  tail -n 30 "$WORK/binaries.log" | sed 's/^/    /'
  return 1
}

packages_of() { # STAGE: prints lines "PACKAGE proof-that-it-is-installed"
  printf '%s\n' "gcc cc" "python3 python3" "protobuf-compiler protoc" \
    "libprotobuf-dev /usr/include/google/protobuf/descriptor.proto"
  case $1:${SUITE:-bookworm} in *:bookworm) ;; vm-*) echo "mmdebstrap mmdebstrap" ;; esac
  case $1 in
    core | cluster | crowd | schema) printf '%s\n' "etcd-server etcd" "etcd-client etcdctl" \
      "strace strace" "chromium chromium" "openssl openssl" "iproute2 ip" "procps pkill" "hostname hostname" \
      "util-linux setpriv" "python3 python3" "openssh-server sshd" "openssh-client ssh-agent" \
      "jq jq" ;;
    namespaces) printf '%s\n' "strace strace" "util-linux unshare" ;;
    container) printf '%s\n' "runc runc" "busybox-static busybox" ;;
    vm) printf '%s\n' "qemu-system-x86 qemu-system-x86_64" "busybox-static busybox" "cpio cpio" "dmsetup dmsetup" \
      "e2fsprogs mke2fs" "xfsprogs mkfs.xfs" "strace strace" "linux-image-cloud-amd64 /boot/vmlinuz-*-cloud-amd64" \
      "linux-image-amd64 /boot/vmlinuz-*[0-9]-amd64" ;;
    vm-debian | vm-engines) printf '%s\n' "debootstrap debootstrap" "qemu-system-x86 qemu-system-x86_64" "e2fsprogs mke2fs" \
      "openssh-client ssh-keygen" "python3 python3" ;;
    vm-cloud) printf '%s\n' "debootstrap debootstrap" "qemu-system-x86 qemu-system-x86_64" "e2fsprogs mke2fs" \
      "openssh-client ssh-keygen" "fdisk sfdisk" "genisoimage genisoimage" ;;
    arm64) printf '%s\n' "debootstrap debootstrap" "util-linux unshare" "busybox-static busybox" "cpio cpio" "git git" \
      "binutils readelf" ;;
    release) printf '%s\n' "git git" "jq jq" "runc runc" "busybox-static busybox" "dpkg dpkg-deb" "binutils readelf" ;;
    vm-openrc) printf '%s\n' "debootstrap debootstrap" "qemu-system-x86 qemu-system-x86_64" "e2fsprogs mke2fs" \
      "openssh-client ssh-keygen" "python3 python3" "cpio cpio" "linux-image-cloud-amd64 /boot/vmlinuz-*-cloud-amd64" ;;
    vm-package) printf '%s\n' "debootstrap debootstrap" "qemu-system-x86 qemu-system-x86_64" "e2fsprogs mke2fs" \
      "openssh-client ssh-keygen" "dpkg dpkg-deb" ;;
    import) printf '%s\n' "systemd /lib/systemd/systemd" "util-linux setpriv" ;;
    two-services) printf '%s\n' "debootstrap debootstrap" "runc runc" ;;
    daemons | apt) printf '%s\n' "debootstrap debootstrap" "util-linux nsenter" "procps pgrep" ;;
    guide) printf '%s\n' "debootstrap debootstrap" "util-linux nsenter" "procps pgrep" "python3 python3" \
      "e2fsprogs mke2fs" "runc runc" "busybox-static busybox" "cpio cpio" "qemu-system-x86 qemu-system-x86_64" \
      "iproute2 ip" "linux-image-cloud-amd64 /boot/vmlinuz-*-cloud-amd64" ;;
    bench-smoke) printf '%s\n' "musl-tools musl-gcc" "util-linux unshare" ;;
  esac
}

there() { # a command, or a pattern of files
  case $1 in
    /*) compgen -G "$1" >/dev/null ;;
    *) command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] ;;
  esac
}

ensure_packages() { # STAGE…: installs missing packages as root, otherwise names them
  local missing="" package proof stage
  for stage in "$@"; do
    while read -r package proof; do
      [ -n "$package" ] && ! there "$proof" && missing="$missing $package"
    done <<<"$(packages_of "$stage")"
  done
  [ -z "$missing" ] && return 0
  missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
  if [ "$(id -u)" -ne 0 ]; then
    echo "tests/run: missing Debian packages: $missing" >&2
    return 1
  fi
  local install="apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=300 $missing"
  export DEBIAN_FRONTEND=noninteractive
  $install >"$WORK/apt.log" 2>&1 || { apt-get update -q && $install; } >>"$WORK/apt.log" 2>&1 || {
    tail -n 20 "$WORK/apt.log" >&2
    echo "tests/run: cannot install $missing" >&2
    return 1
  }
}
