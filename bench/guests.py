"""Emulated guests of a cloud kernel with busybox, iperf3 and sockperf, and a shell on their serial lines."""

import json
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = ("busybox", "iperf3", "sockperf")
MODULES = (
    "virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci failover net_failover virtio_net"
).split()


class Guest:
    """A guest with a shell on its serial line."""

    def __init__(self, process, line):
        self.process, self.number, self.log = process, 0, line.parent
        self.control = Path(f"{line}.qmp")
        self.line = socket.socket(socket.AF_UNIX)
        end = time.time() + 10
        while True:
            try:
                self.line.connect(str(line))
                break
            except OSError:
                if time.time() > end:
                    raise
                time.sleep(0.05)
        self.said = ""

    def monitor(self, word):
        """Has the monitor do something that takes no arguments."""
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect(str(self.control))
            answers = stream.makefile("rw")
            answers.readline()
            for command in ("qmp_capabilities", word):
                answers.write(json.dumps({"execute": command}) + "\n")
                answers.flush()
                while "return" not in (answer := json.loads(answers.readline())):
                    if "error" in answer:
                        sys.exit(f"{word}: {answer['error']['desc']}")

    def logs(self):
        return "".join(path.read_text(errors="replace")[-1000:] for path in self.log.glob("*.log"))

    def tell(self, command):
        self.line.sendall(f"{command}\n".encode())

    def expect(self, word, seconds):
        end = time.time() + seconds
        while not re.search(rf"^{word}\r?$", self.said, re.M):
            self.line.settimeout(max(end - time.time(), 0.01))
            try:
                self.said += self.line.recv(65536).decode(errors="replace")
            except TimeoutError:
                sys.exit(f"the guest did not answer in {seconds} s; it said:\n{self.said[-2000:]}\n{self.logs()}")
        text, self.said = re.split(rf"^{word}\r?$", self.said, maxsplit=1, flags=re.M)
        return text

    def run(self, command, seconds):
        self.number += 1
        self.tell(f"{command}; echo; echo END{self.number}")
        return self.expect(f"END{self.number}", seconds)


def command(kernel, initramfs, line, number, device, mtu):
    """QEMU's command line for a guest whose serial line and monitor are sockets there."""
    return [
        "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "256", "-nodefaults", "-display", "none",
        "-name", "guest,debug-threads=on",
        "-no-reboot", "-object", "memory-backend-memfd,id=m,size=256M,share=on", "-machine", "q35,memory-backend=m",
        "-kernel", kernel["image"], "-initrd", initramfs,
        "-append", f"console=ttyS0 quiet panic=-1 guest={number} mtu={mtu}",
        "-chardev", f"socket,id=line,path={line},server=on,wait=off", "-serial", "chardev:line",
        "-qmp", f"unix:{line}.qmp,server=on,wait=off", *device,
    ]  # fmt: skip


@contextmanager
def boot(kernel, initramfs, place, devices, mtu):
    processes = []
    try:
        for number, (inside, device) in enumerate(devices, 1):
            line = place / f"line{number}"
            log = open(place / f"qemu{number}.log", "w")
            words = inside + command(kernel, initramfs, line, number, device, mtu)
            processes.append(subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT))
        # Both lines first: output of a guest without a listener is lost.
        both = [Guest(p, place / f"line{n}") for n, p in enumerate(processes, 1)]
        for guest in both:
            guest.expect("READY", 90)
        yield both
    finally:
        for process in processes:
            process.kill()
            process.wait()


INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev; mount -t proc proc /proc; mount -t sysfs sys /sys; mkdir -p /tmp
for m in MODULES; do insmod /modules/$m.ko; done
for word in $(cat /proc/cmdline); do case $word in guest=*) n=${word#*=} ;; mtu=*) mtu=${word#*=} ;; esac; done
ip link set lo up; ip link set eth0 mtu $mtu up; ip addr add 10.0.0.$n/24 dev eth0
export PS1=; stty -echo; echo; echo READY
exec setsid cttyhack sh -i 2>/dev/null
"""


def image(kernel, programs=PROGRAMS):
    """An initramfs (newc cpio) of programs with their libraries, and the modules."""
    files = {"init": (0o755, INIT.replace("MODULES", " ".join(MODULES)).encode())}
    for program in programs:
        path = shutil.which(program)
        files[f"bin/{program}"] = (0o755, Path(path).read_bytes())
        said = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
        for library in re.findall(r"(/\S+)", said):
            files[library.lstrip("/")] = (0o755, Path(library).read_bytes())
    for module in MODULES:
        found = next(kernel["modules"].rglob(f"{module}.ko*"), None)
        if found is None or found.suffix != ".ko":
            sys.exit(f"the kernel has no module {module}.ko")
        files[f"modules/{module}.ko"] = (0o644, found.read_bytes())
    folders = sorted({str(p) for f in files for p in Path(f).parents if str(p) != "."} | {"dev", "proc", "sys"})
    entries = [(name, 0o40755, b"") for name in folders] + [(n, 0o100000 | m, d) for n, (m, d) in files.items()]
    out = bytearray()
    for number, (name, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        head = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        out += b"070701" + b"".join(b"%08x" % field for field in head) + name.encode() + b"\0"
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return bytes(out)
