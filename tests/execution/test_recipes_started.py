"""Recipes for other machines, started on a Slurm of one node and an ssh server on loopback."""

import getpass
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import dask
import pytest
import yaml
from cases.cluster import Builder, free_port, toy, until
from cases.paths import PYTHONPATH, ROOT
from cases.slurm import MISSING, PATH, slurm
from studies.test_cluster_studies import same

from scalable_bandits.execution import ClusterError, connect

CLUSTER = ROOT / "cluster"
SSHD = shutil.which("sshd", path=PATH)


def recipe(name, folder, **changes):
    """Write a recipe of `cluster/` with other values to a folder; return its path."""
    given = yaml.safe_load((CLUSTER / name).read_text())
    for key, value in changes.items():
        given[key] = {**given.get(key, {}), **value} if isinstance(value, dict) else value
    if "adapt" in changes:
        del given["scale"]
    (folder / "recipe.yaml").write_text(yaml.safe_dump(given))
    return folder / "recipe.yaml"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Slurm for all tests."""
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    with slurm(tmp_path_factory.mktemp("slurm")) as found:
        if found is None:
            pytest.skip("slurmd does not start here: see slurmd.out in the test's folder")
        yield found


@pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)} (apt-get install slurm-wlm munge)")
class TestSlurm:
    @pytest.fixture(autouse=True)
    def environment(self, cluster, tmp_path, monkeypatch):
        """Set the environment of the submitting process, which Slurm passes to the jobs."""
        monkeypatch.chdir(tmp_path)  # logs of the jobs
        for name, value in {**cluster.environment, "PYTHONPATH": PYTHONPATH}.items():
            monkeypatch.setenv(name, value)

    def recipe(self, folder, number=1):
        """Write the recipe with sizes for this small machine."""
        sizes = {"cores": 2, "processes": 2, "memory": "2GB", "interface": "lo"}
        return recipe("slurm/slurm.yaml", folder, scale={"jobs": number}, options=sizes)

    @pytest.mark.slow
    def test_the_recipe(self, cluster, tmp_path):
        """Two jobs of two workers: the same numbers, and no job is left in the queue."""
        with connect(self.recipe(tmp_path, number=2)) as client:
            until(lambda: len(client.nthreads()) == 4, 300)
            assert len(cluster.jobs()) == 2
            limits = client.run(lambda: [os.environ[name] for name in ("SLURM_JOB_ID", "NUMBA_NUM_THREADS")])
            assert {job for job, _ in limits.values()} == set(cluster.jobs())
            assert {threads for _, threads in limits.values()} == {"1"}
            same(toy().run(on=client, store=tmp_path / "study"))
        until(lambda: not cluster.jobs())
        assert "distributed.preloading" in "".join(log.read_text() for log in (tmp_path / "logs").glob("*.err"))

    @pytest.mark.slow
    def test_jobs_whose_time_is_up(self, cluster, tmp_path):
        """With `adapt`, jobs at their time limit are followed by others; Slurm ends them as `scancel` does."""
        sizes = {"cores": 1, "processes": 1, "memory": "1GB"}
        path = recipe(self.recipe(tmp_path), tmp_path, adapt={"minimum_jobs": 0, "maximum_jobs": 2}, options=sizes)
        notes = tmp_path / "notes"
        notes.mkdir()
        ended = []

        def end_the_first():
            until(lambda: len(list(notes.iterdir())) >= 4 and len(cluster.jobs()) == 2, 300)
            ended.extend(cluster.jobs())
            cluster("scancel", *ended)

        thread = threading.Thread(target=end_the_first)
        thread.start()
        study = toy(Builder(str(notes), seconds=1.0), replicates=8)
        with dask.config.set({"distributed.deploy.lost-worker-timeout": "1s"}):
            same(study.run(on=path, store=tmp_path / "study"), toy(replicates=8).run())
        thread.join()
        assert len(ended) == 2
        logs = {log.stem.rpartition("-")[2] for log in (tmp_path / "logs").glob("*.err")}
        assert set(ended) < logs
        until(lambda: not cluster.jobs())

    @pytest.mark.slow
    def test_a_queue_that_does_not_move(self, cluster, tmp_path, caplog):
        """A log message says that the call waits, and an error that it waited too long."""
        cluster("sbatch", "--cpus-per-task=8", "--mem=1G", "--wrap=sleep 300")
        given = recipe(self.recipe(tmp_path), tmp_path, wait=12)
        with pytest.raises(ClusterError, match=r"has no workers, and none came in 12 s \(a recipe may"), connect(given):
            pass
        assert "no workers yet; waiting up to 12 s" in caplog.text
        (other,) = cluster.jobs()
        cluster("scancel", other)
        until(lambda: not cluster.jobs())

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"queue": "nowhere"}, "invalid partition"),
            ({"walltime": "soon"}, "Invalid --time"),
            ({"interface": "ib7"}, "'ib7' is not a valid network interface"),
        ],
        ids=lambda given: str(*given) if isinstance(given, dict) else "",
    )
    @pytest.mark.sampled(3)
    def test_what_is_refused(self, tmp_path, options, message):
        """The error is raised immediately, with the text of Slurm."""
        given = recipe("slurm/slurm.yaml", tmp_path, options={"interface": "lo", **options})
        with pytest.raises(ClusterError, match=f"(?si)^on: .*recipe.yaml does not start: .*{message}"), connect(given):
            pass

    def test_no_slurm(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
        given = recipe("slurm/slurm.yaml", tmp_path, options={"interface": "lo"})
        with pytest.raises(ClusterError, match=r"No such file.*sbatch"), connect(given):
            pass

    @pytest.mark.slow
    def test_the_job_scripts(self, cluster, tmp_path):
        """A scheduler and workers as jobs, found by the scheduler file."""
        file = tmp_path / "scheduler.json"
        own = {"SCHEDULER_FILE": str(file), "INTERFACE": "lo", "PYTHONPATH": PYTHONPATH}
        own["PATH"] = f"{Path(sys.executable).parent}:{PATH}"
        scripts = CLUSTER / "slurm"
        assert "Submitted" in cluster("sbatch", "--mem=1G", scripts / "scheduler.sbatch", **own)
        sizes = ("--nodes=1", "--cpus-per-task=2", "--mem=2G")
        assert "Submitted" in cluster("sbatch", *sizes, scripts / "jobs.sbatch", **own)
        until(file.exists, 120)
        (tmp_path / "recipe.yaml").write_text(yaml.safe_dump({"scheduler-file": str(file)}))
        with connect(tmp_path / "recipe.yaml") as client:
            until(lambda: len(client.nthreads()) == 2, 300)
            workers = client.scheduler_info(n_workers=-1)["workers"].values()
            assert {worker["nthreads"] for worker in workers} == {1}
            assert {round(worker["memory_limit"] / 1e6) for worker in workers} == {1024}
            same(toy().run(on=client))
        for job in cluster.jobs():
            cluster("scancel", job)
        until(lambda: not cluster.jobs())


@pytest.mark.skipif(SSHD is None, reason="no sshd (apt-get install openssh-server)")
class TestSsh:
    @pytest.fixture
    def server(self, tmp_path):
        """Start an ssh server for this user; yield the options of `asyncssh.connect`."""
        pytest.importorskip("asyncssh", reason="asyncssh is not installed")
        folder, port = tmp_path / "ssh", free_port()
        folder.mkdir(mode=0o700)
        for name in ("host", "user"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name]
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        cache = os.environ.get("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
        (folder / "sshd_config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
            f"PidFile {folder}/pid\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nPermitRootLogin yes\n"
            f'SetEnv "PYTHONPATH={PYTHONPATH}" "NUMBA_CACHE_DIR={cache}"\n'
        )
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # folder for its privilege separation
        with (folder / "log").open("w") as log:
            process = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
        host = (folder / "host.pub").read_text().split()[:2]
        (folder / "known").write_text(" ".join([f"[127.0.0.1]:{port}", *host]) + "\n")
        try:
            until(lambda: "listening" in (folder / "log").read_text() or process.poll() is not None)
            if process.poll() is not None:
                pytest.skip(f"sshd does not start here: {(folder / 'log').read_text()}")
            yield {
                "port": port, "username": getpass.getuser(), "client_keys": [str(folder / "user")],
                "known_hosts": str(folder / "known"), "config": [],
            }  # fmt: skip
        finally:
            process.kill()
            process.wait()

    def given(self, server, folder, **changes):
        own = {"hosts": ["127.0.0.1", "127.0.0.1"], "remote_python": sys.executable, "connect_options": server}
        own["scheduler_options"] = {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}
        workers = yaml.safe_load((CLUSTER / "ssh.yaml").read_text())["options"]["worker_options"]
        own["worker_options"] = {**workers, "n_workers": 2}
        return recipe("ssh.yaml", folder, options={**own, **changes})

    @pytest.mark.slow
    def test_the_recipe(self, server, tmp_path):
        """The same numbers, one thread a worker, and no process is left."""
        with connect(self.given(server, tmp_path)) as client:
            until(lambda: len(client.nthreads()) == 2, 300)
            assert set(client.nthreads().values()) == {1}
            found = client.run(lambda: (os.getpid(), os.environ["NUMBA_NUM_THREADS"], "SSH_CONNECTION" in os.environ))
            assert {about[1:] for about in found.values()} == {("1", True)}
            same(toy().run(on=client, store=tmp_path / "study"))
        until(lambda: not any(Path(f"/proc/{about[0]}").exists() for about in found.values()))

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"remote_python": "/nowhere/python"}, "the log of distributed.deploy has"),
            ({"connect_options": {"client_keys": []}}, "[Pp]ermission denied"),
            ({"connect_options": {"port": 1}}, "[Cc]onnect"),
        ],
        ids=["python", "key", "port"],
    )
    @pytest.mark.sampled(3)
    def test_what_goes_wrong(self, server, tmp_path, changes, message):
        """One error is raised, and no part of the cluster is left."""
        if "connect_options" in changes:
            changes = {"connect_options": {**server, **changes["connect_options"]}}
        with (
            pytest.raises(ClusterError, match=f"^on: the cluster of .*recipe.yaml does not start: .*{message}"),
            connect(self.given(server, tmp_path, **changes)),
        ):
            pass
