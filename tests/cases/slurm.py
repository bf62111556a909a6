"""A Slurm of one node, of this user alone, started in a folder and gone afterwards."""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time

from cases.cluster import free_port, until

PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")
MISSING = [name for name in NEEDED if shutil.which(name, path=PATH) is None]
CGROUPS = ("CgroupPlugin=disabled", "CgroupPlugin=cgroup/v1", "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes")

CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=8000 State=UNKNOWN
PartitionName=normal Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """Its daemons, and what its commands say."""

    def __init__(self, folder):
        self.folder, self.host = folder, socket.gethostname().split(".")[0]
        self.processes = []
        for name in ("state", "spool"):
            (folder / name).mkdir(parents=True)
        given = {"controller": free_port(), "daemon": free_port(), "user": getpass.getuser()}
        (folder / "slurm.conf").write_text(CONF.format(folder=folder, host=self.host, **given))
        self.environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf")}

    def start(self):
        """Whether a node is there to be used."""
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        parts = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munged.pid", "seed-file": "munge.seed"}
        self._start("munged", "--foreground", "--force", *(f"--{k}={self.folder / v}" for k, v in parts.items()))
        until((self.folder / "munge.socket").exists)
        self._start("slurmctld", "-D")
        for cgroups in CGROUPS:  # which of them there is depends on the version and the machine
            (self.folder / "cgroup.conf").write_text(f"{cgroups}\n")
            daemon = self._start("slurmd", "-D", "-N", self.host)
            for _ in range(300):
                if self("sinfo", "-h", "-o", "%t").strip() == "idle":
                    return True
                if daemon.poll() is not None:
                    break
                time.sleep(0.1)
        return False

    def _start(self, name, *arguments):
        with (self.folder / f"{name}.out").open("ab") as log:
            process = subprocess.Popen(
                [shutil.which(name, path=PATH), *arguments], env=self.environment, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def __call__(self, *command, **variables):
        """What a command prints."""
        environment = {**self.environment, **variables}
        found = [shutil.which(command[0], path=PATH), *map(str, command[1:])]
        return subprocess.run(found, env=environment, capture_output=True, text=True, check=False).stdout

    def jobs(self):
        """Numbers of those that wait or run."""
        return self("squeue", "-h", "-o", "%i").split()


@contextlib.contextmanager
def slurm(folder):
    """A Slurm that is gone afterwards, with all of its jobs."""
    made = Slurm(folder)
    try:
        started = made.start()
        yield made if started else None
        for job in made.jobs():
            made("scancel", job)
        until(lambda: not made.jobs())
    finally:
        for process in reversed(made.processes):
            process.terminate()
        for process in made.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
