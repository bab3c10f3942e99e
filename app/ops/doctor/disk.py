"""Checks the data directory: access, the process that uses it, and its disk."""

from collections.abc import Iterator

from app.ops.doctor.facts import MachineFacts
from app.ops.doctor.finding import Finding
from app.settings.engine import EngineSettings

CHECK = "disk"
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs")
_PASSING = ("tmpfs", "ramfs", "overlay")


def check(engine: EngineSettings, machine: MachineFacts) -> Iterator[Finding]:
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
    low = machine.free < engine.min_free_disk
    if low:
        sentence = (
            f"{machine.free >> 20} MiB are free on the disk of {path}, but DELAY_MIN_FREE_DISK is "
            f"{engine.min_free_disk >> 20} MiB, so no requests are accepted. Free space, or set DATADIR to a "
            "larger disk."
        )
        yield Finding("error", CHECK, path, sentence)
    elif machine.free < 2 * engine.min_free_disk:
        sentence = (
            f"{machine.free >> 20} MiB are free on the disk of {path}, less than {engine.min_free_disk >> 20} MiB "
            "(DELAY_MIN_FREE_DISK), so no requests are accepted. Free space."
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
