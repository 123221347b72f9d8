"""Boots the image of tests/bench/machine in turn under both inits and prints the comparison.

Arguments: DIRECTORY (with root.img, kernel, initrd, key), the kernel's command line, ROUNDS, SETTLE.
"""
import os
import pathlib
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import time

run = pathlib.Path(sys.argv[1]).resolve()
LINE, ROUNDS, SETTLE = sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
INITS = {"systemd": "/usr/local/sbin/start-systemd", "groundstate": "/usr/local/sbin/start-init"}
OWN = {"systemd": "/usr/lib/systemd/", "groundstate": "/usr/lib/groundstate/"}
# The first runs in both machines; the second exits 30 s after the check of the file systems.
NOT_COUNTED = ("systemd-udevd", "systemd-fsckd")
LOGGERS = ("systemd-journal", "groundstate-log")
# Seconds, for a machine that emulates the processor and has other work.
PATIENCE = 300
# A refused connection is repeated after POLL seconds. Before the first refusal the machine has no
# network and qemu drops connections: each is repeated after NO_NETWORK seconds. Afterwards, a
# connection without an answer is repeated after NO_ANSWER seconds. So sshd holds few silent
# connections, and drops none (MaxStartups).
POLL, NO_NETWORK, NO_ANSWER = 0.05, 0.2, 2.0

# The machine runs before all other work, if that is allowed.
STEADY = ["chrt", "-r", "10"] if subprocess.run(["chrt", "-r", "10", "true"], stderr=subprocess.DEVNULL).returncode == 0 else []

# Prints lines with a first word each.
LOOK = r"""
echo self $$
for p in /proc/[0-9]*; do
  exe=$(readlink $p/exe) || continue
  awk -v pid=${p#/proc/} -v parent="$(awk '$1 == "PPid:" {print $2}' $p/status)" -v comm="$(tr ' ' '_' <$p/comm)" \
    -v exe="${exe%% *}" -v cgroup="$(tail -n 1 $p/cgroup)" '
    $1 == "Pss:" {pss = $2} $1 == "Pss_Anon:" {anon = $2}
    END {print "process", pid, parent, pss, anon, comm, exe, cgroup}' $p/smaps_rollup
done 2>/dev/null
awk '$1 == "MemAvailable:" {print "available", $2}' /proc/meminfo
systemctl list-units --type=service --state=running --no-legend --plain | awk '{print "running", $1}'
systemctl list-units --failed --no-legend --plain | awk '{print "failed", $1}'
"""


class Machine:
    """One boot, from the start of qemu to its end."""

    def __init__(self, name, keep):
        self.name = name
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        listener.close()
        self.serial, self.monitor = run / "serial", run / "monitor"
        for path in self.serial, self.monitor:
            path.unlink(missing_ok=True)
        self.console = b""
        with open(run / "qemu.log", "ab") as log:
            # The snapshot is a file below TMPDIR.
            self.qemu = subprocess.Popen(
                [*STEADY, "qemu-system-x86_64", "-accel", "tcg", "-cpu", "qemu64,+rdrand", "-m", "1024", "-smp", "2", "-display", "none", "-no-reboot",
                 "-chardev", f"socket,id=serial,path={self.serial},server=on,wait=on", "-serial", "chardev:serial",
                 "-monitor", f"unix:{self.monitor},server=on,wait=off", "-kernel", run / "kernel", "-initrd", run / "initrd",
                 "-append", f"{LINE} init={INITS[name]}",
                 "-drive", f"file={run}/root.img,format=raw,if=virtio,snapshot={'off' if keep else 'on'}",
                 "-nic", f"user,restrict=on,model=virtio-net-pci,hostfwd=tcp:127.0.0.1:{self.port}-:22"],
                env={**os.environ, "TMPDIR": str(run)}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.tty = self.connect(self.serial)
        self.tty.setblocking(False)

    def connect(self, path):
        end = time.monotonic() + PATIENCE
        while True:
            peer = socket.socket(socket.AF_UNIX)
            try:
                peer.connect(str(path))
                return peer
            except OSError:
                peer.close()
            try:
                self.qemu.wait(0.05)
            except subprocess.TimeoutExpired:
                if time.monotonic() < end:
                    continue
            raise SystemExit(f"{self.name}: qemu did not start: see {run}/qemu.log")

    def read_console(self):
        try:
            data = self.tty.recv(65536)
        except BlockingIOError:
            return
        self.console += data
        with open(run / f"console.{self.name}", "ab") as file:
            file.write(data)

    def watch(self, done, seconds=PATIENCE):
        """Reads the console until `done` returns a value."""
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.tty, selectors.EVENT_READ)
            while (result := done()) is None:
                if time.monotonic() > end:
                    tail = self.console[-2000:].decode(errors="replace")
                    raise SystemExit(f"{self.name}: no progress in {seconds} s; its console:\n{tail}")
                if selector.select(0.02):
                    self.read_console()
        return result

    def settle(self):
        end = time.monotonic() + SETTLE
        self.watch(lambda: True if time.monotonic() >= end else None)

    def until_sshd(self):
        """Returns the time from the exec of PID 1 to the banner of sshd."""
        self.began = self.watch(lambda: time.monotonic() if b"bench: exec of" in self.console else None)
        peer, next_try, since, patience = None, 0.0, 0.0, NO_NETWORK

        def banner():
            nonlocal peer, next_try, since, patience
            now = time.monotonic()
            if peer is None:
                if now < next_try:
                    return None
                next_try, since = now + POLL, now
                peer = socket.create_connection(("127.0.0.1", self.port))
                peer.setblocking(False)
            try:
                if peer.recv(16).startswith(b"SSH-"):
                    return time.monotonic() - self.began
                patience = NO_ANSWER
            except BlockingIOError:
                if now - since < patience:
                    return None
            except OSError:
                patience = NO_ANSWER
            peer.close()
            peer = None
            return None

        took = self.watch(banner)
        peer.close()
        return took

    def inside(self, command):
        """Returns the output of a command, as soon as the machine takes a login."""
        end = time.monotonic() + PATIENCE
        while True:
            ssh = subprocess.Popen(
                ["ssh", "-i", run / "key", "-o", "BatchMode=yes", "-o", "ConnectTimeout=60", "-o", "LogLevel=ERROR",
                 "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-p", str(self.port), "root@127.0.0.1", command],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.watch(ssh.poll)
            said, error = ssh.communicate()
            if said:
                return said
            if time.monotonic() > end:
                raise SystemExit(f"{self.name}: ssh: {error}")

    def press_power(self):
        """Presses the power button and returns the time until qemu has ended."""
        monitor = self.connect(self.monitor)
        began = time.monotonic()
        monitor.sendall(b"system_powerdown\n")
        self.watch(self.qemu.poll)
        took = time.monotonic() - began
        monitor.close()
        return took

    def end(self):
        if self.qemu.poll() is None:
            self.qemu.send_signal(signal.SIGKILL)
            self.qemu.wait()
        self.tty.close()


def measure(name, keep=False):
    machine = Machine(name, keep)
    try:
        boot = machine.until_sshd()
        state = machine.inside("systemctl is-system-running --wait").strip()
        finished = time.monotonic() - machine.began
        machine.settle()
        found = machine.inside(LOOK)
        machine.settle()
        return {"boot": boot, "boot finished": finished, "state": state, "found": found, "power-off": machine.press_power()}
    finally:
        machine.end()


def digest(name, seen):
    """Adds the numbers of `LOOK` to a measurement."""
    lines = [line.split() for line in seen["found"].splitlines()]
    words = lambda kind: [line[1] for line in lines if line[0] == kind]
    processes = {line[1]: line[2:] for line in lines if line[0] == "process"}
    parent = lambda pid: processes[pid][0] if pid in processes else "0"
    # The login of the measurement: the process below the listening sshd, which is a child of PID 1.
    login = words("self")[0]
    while parent(parent(login)) not in ("0", "1"):
        login = parent(login)

    def of_login(pid):
        while pid not in ("0", login):
            pid = parent(pid)
        return pid == login

    own, others = [], []
    for pid, (_, pss, anon, comm, exe, cgroup) in processes.items():
        if of_login(pid) or "user.slice" in cgroup:
            continue
        if exe.startswith(OWN[name]) and comm not in NOT_COUNTED:
            own.append((f"PID 1 ({comm})" if pid == "1" else comm, int(pss) / 1024, int(anon) / 1024))
        elif comm != "systemd-fsckd":
            others.append(comm)
    return {
        **seen, "own": own, "others": sorted(others), "units": sorted(words("running")), "failed": words("failed"),
        "memory": sum(pss for _, pss, _ in own),
        "memory, private": sum(anon for _, _, anon in own),
        "PID 1 and log": sum(pss for row, pss, _ in own if row.startswith("PID 1") or row in LOGGERS),
        "available": int(words("available")[0]) / 1024,
    }


for path in run.glob("console.*"):
    path.unlink()
for name in INITS:
    measure(name, keep=True)
results = {name: [] for name in INITS}
for _ in range(ROUNDS):
    for name in INITS:
        results[name].append(digest(name, measure(name)))

names = list(INITS)
print(f"on {os.cpu_count()} processors; qemu with 2 processors and 1 GiB; medians of {ROUNDS} boots, [lowest … highest]\n")
ROWS = [("boot", "s"), ("boot finished", "s"), ("power-off", "s"), ("memory", "MiB"), ("memory, private", "MiB"),
        ("PID 1 and log", "MiB"), ("available", "MiB")]
print(f"{'':22}{names[0]:>28}{names[1]:>28}   ratio")
for row, unit in ROWS:
    values = [[seen[row] for seen in results[name]] for name in names]
    cells = [f"{statistics.median(v):.2f} [{min(v):.2f} … {max(v):.2f}]" for v in values]
    ratio = statistics.median(values[1]) / statistics.median(values[0])
    print(f"{row + ', ' + unit:22}{cells[0]:>28}{cells[1]:>28}   {ratio:.2f}")
for name in names:
    last = results[name][-1]
    print(f"\n{name}: {', '.join(sorted({seen['state'] for seen in results[name]}))}; failed units: {' '.join(last['failed']) or 'none'}")
    print("  counted:", "; ".join(f"{row} {pss:.2f} MiB ({anon:.2f} private)" for row, pss, anon in last["own"]))
    print(f"  {len(last['units'])} running units:", " ".join(last["units"]))
others = [results[name][-1]["others"] for name in names]
if others[0] == others[1]:
    print("\nother processes, the same under both:", " ".join(others[0]))
else:
    print("\nNOT THE SAME WORK; other processes:")
    for name, those in zip(names, others):
        print(f"  {name}: {' '.join(those)}")
healthy = all(seen["state"] == "running" and not seen["failed"] for name in names for seen in results[name])
sys.exit(0 if healthy and others[0] == others[1] else 1)
