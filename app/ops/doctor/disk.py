"""Checks the data directory: access, the process that uses it, and its disk."""

from collections.abc import Iterator

from app.base.process.free_disk import wanted_bytes
from app.ops.doctor.facts import MachineFacts
from app.ops.doctor.finding import Finding

CHECK = "disk"
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs")
_PASSING = ("tmpfs", "ramfs", "overlay")


def check(machine: MachineFacts) -> Iterator[Finding]:
    """Yield the state of the data directory on this machine."""
    path = machine.data_path
    if machine.error:
        sentence = (
            f"the data directory {path} cannot be used: {machine.error}. Make it writable for the worker's "
            "user, or set DATADIR."
        )
        yield Finding("error", CHECK, path, sentence)
        return
    if machine.filesystem in _NETWORK:
        sentence = (
            f"the data directory {path} is on a network filesystem ({machine.filesystem}): locks and databases are not "
            "safe there. Set DATADIR to a local disk; it is only a copy of the changelog."
        )
        yield Finding("warning", CHECK, path, sentence)
    wanted = wanted_bytes(machine.total)
    if machine.free < wanted:
        sentence = (
            f"{machine.free >> 20} MiB are free on the disk of {path}, but a worker needs {wanted >> 20} MiB, so no "
            "requests are accepted. Free space, or set DATADIR to a larger disk."
        )
        yield Finding("error", CHECK, path, sentence)
    elif machine.free < 2 * wanted:
        sentence = (
            f"{machine.free >> 20} MiB are free on the disk of {path}. With less than {wanted >> 20} MiB, a worker "
            "accepts no requests. Free space."
        )
        yield Finding("warning", CHECK, path, sentence)
    else:
        yield Finding("ok", CHECK, path, _fine(machine))


def _fine(machine: MachineFacts) -> str:
    """Return a sentence about a directory with room on its disk."""
    passing = (
        ", lost with the container or machine; the worker then restores it" if machine.filesystem in _PASSING else ""
    )
    kind = f" ({machine.filesystem}{passing})" if machine.filesystem else ""
    held = {None: "it is unknown whether a worker uses it", 0: "no worker uses it"}
    used = held.get(machine.user, f"process {machine.user} uses it")
    if not machine.there:
        used = "a worker creates it"
    return f"the data directory {machine.data_path} has {machine.free >> 20} MiB free{kind}; {used}."
