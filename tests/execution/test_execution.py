"""The values of `on=`, access to clusters and their end; recipes; compiled code on workers."""

import gc
import json
import os
import re
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path

import psutil
import pytest
import yaml
from cases.cluster import by_hand, make_policy, parabola, until
from cases.paths import ROOT

import scalable_bandits as sb
from scalable_bandits.execution import ClusterError, InTurn, Threads, clusters, connect, executing
from scalable_bandits.execution.clusters import await_worker
from scalable_bandits.execution.connect import KINDS, _given, read_recipe
from scalable_bandits.execution.workers import ClusterExecution

CLUSTER = ROOT / "cluster"
MANIFEST = CLUSTER / "kubernetes" / "daskcluster.yaml"
RECIPES = sorted(path for path in CLUSTER.rglob("*.yaml") if path != MANIFEST)


def square(x):
    if x == 3:
        error = ValueError("three\nand not four")
        error.add_note("(a note)")
        raise error
    return x * x, os.getpid()


def leave(code):
    sys.exit(code)


def square_elsewhere(x, on):
    """Run a task from within a task: on the cluster that `on` names, on its own for None."""
    from distributed import worker_client

    try:
        with worker_client() as own, executing(on or own, square, "square") as execution:
            execution.submit("square", x)
            return gathered(execution, 1)[-1].value[0]
    except ClusterError as error:
        return str(error)


def gathered(execution, count):
    """Return all events until a number of tasks have ended."""
    found = []
    while sum(event.kind in ("done", "failed") for event in found) < count:
        found += execution.events()
    return found


class TestExecutions:
    """Tests that every executor of tasks has to pass."""

    @pytest.fixture(params=["in turn", "threads", "threads:2", "workers"])
    def execution(self, request, client):
        on = {"threads:2": "threads:2", "workers": client}.get(request.param)
        with executing(on, square, "square", 2 if request.param == "threads" else None) as found:
            yield found

    @pytest.mark.sampled(2)
    def test_every_call_is_made_once(self, execution):
        """Also calls with equal arguments."""
        for number in range(6):
            execution.submit(f"square-{number}", 2)
        found = gathered(execution, 6)
        for kind in ("started", "done"):
            assert sorted(event.key for event in found if event.kind == kind) == [f"square-{i}" for i in range(6)]
        assert {event.value[0] for event in found if event.kind == "done"} == {4}
        assert all(event.where for event in found if event.kind == "started")

    def test_errors(self, execution):
        execution.submit("square-1", 3)
        execution.submit("square-2", 4)
        ends = {event.key: event for event in gathered(execution, 2) if event.kind in ("done", "failed")}
        assert ends["square-1"].kind == "failed"
        assert ends["square-1"].error == "ValueError: three"
        assert "in square" in ends["square-1"].trace
        assert ends["square-2"].value[0] == 16

    @pytest.mark.parametrize("on", ["threads", "workers"])
    def test_a_function_that_ends_its_process(self, on, client):
        """SystemExit fails the task."""
        with executing(*((client, leave, "leave") if on == "workers" else (None, leave, "leave", 2))) as execution:
            execution.submit("leave-1", 3)
            (end,) = [event for event in gathered(execution, 1) if event.kind != "started"]
        assert (end.kind, end.key) == ("failed", "leave-1")
        assert "SystemExit: 3" in end.error

    def test_slots(self, execution):
        assert execution.slots == (1 if isinstance(execution, InTurn) else 2)
        assert execution.events(0.01) == []
        if not isinstance(execution, InTurn | Threads):
            execution.submit("square-1", 5)
            assert gathered(execution, 1)[-1].value[1] != os.getpid()


class TestValues:
    @pytest.mark.parametrize(
        "on",
        ["threads:0", "local:0", "local:-1", "local:x", "locale", "127.0.0.1:8786", "", 3, object, {"tcp": 1}],
        ids=repr,
    )
    def test_refusals(self, on):
        with pytest.raises(ValueError, match=r"^on: got .*; allowed: None, 'local', 'local:4'"), connect(on):
            pass

    def test_nobody_there(self, connect_seconds):
        connect_seconds(1.0)
        with pytest.raises(ClusterError, match=r"no scheduler can be reached at tcp://127.0.0.1:9"):
            sb.maximize(parabola, make_policy(), 3, on="tcp://127.0.0.1:9")

    @pytest.mark.slow
    def test_no_workers(self, tmp_path):
        recipe = tmp_path / "recipe.yaml"
        with by_hand(tmp_path / "cluster", 0) as cluster:
            recipe.write_text(yaml.safe_dump({"scheduler-file": str(cluster.file), "wait": 0.5}))
            with pytest.raises(ClusterError, match="has no workers, and none came"), connect(recipe):
                pass
            recipe.write_text(yaml.safe_dump({"scheduler-file": str(cluster.file), "wait": 600}))  # on a busy machine
            cluster.worker("--preload", "scalable_bandits.execution.preload")
            for on in (recipe, str(recipe), cluster.address):
                with connect(on) as client:
                    assert len(client.nthreads()) == 1

    @pytest.mark.slow
    @pytest.mark.usefixtures("forked_workers")
    @pytest.mark.parametrize("processes", [False, True])
    def test_an_adaptive_cluster(self, processes):
        """It starts a worker when asked, and ends it when there is nothing to do."""
        from distributed import Client, LocalCluster

        with (
            LocalCluster(
                n_workers=0,
                processes=processes,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",
            ) as cluster,
            Client(cluster, set_as_default=False) as own,
        ):
            cluster.adapt(minimum=0, maximum=2, interval="100ms")
            with connect(own) as client:
                assert len(client.nthreads()) >= 1
                assert client.submit(sum, [1, 2]).result() == 3
            until(lambda: not own.futures and not own.nthreads())

    @pytest.mark.slow
    def test_a_cluster_that_never_gets_a_worker(self):
        """The error is raised after the given seconds, and no task is left at the scheduler."""
        from distributed import Client, LocalCluster

        with (
            LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster,
            Client(cluster, set_as_default=False) as own,
        ):
            began = time.monotonic()
            with pytest.raises(ClusterError, match=r"has no workers, and none came in 1 s"):
                await_worker(own, 1.0)
            assert time.monotonic() - began >= 1.0
            until(lambda: not cluster.scheduler.tasks)

    def test_a_dashboard_is_named_where_there_is_one(self):
        """A scheduler without bokeh, or without a dashboard, has an address for one all the same."""
        from distributed import Client, LocalCluster

        with (
            LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            pages = cluster.scheduler.http_application.applications
            own = list(pages)
            pages.clear()
            assert client.dashboard_link
            assert ClusterExecution(client, sum, "one").dashboard == ""
            pages.append(object())
            assert ClusterExecution(client, sum, "two").dashboard == client.dashboard_link
            pages[:] = own

    def test_a_late_worker_of_another_version_is_refused(self, client, monkeypatch):
        found = client.get_versions(packages=["scalable_bandits", "numpy"])
        late = {"packages": {**found["client"]["packages"], "scalable_bandits": "0.0.1"}}
        execution = ClusterExecution(client, sum, "late")
        execution._looked = 0.0
        execution._count()  # nothing has changed
        threads = client.nthreads()
        monkeypatch.setattr(client, "nthreads", lambda: {**threads, "tcp://late:1": 3})
        monkeypatch.setattr(client, "get_versions", lambda packages: {**found, "workers": {"tcp://late:1": late}})
        execution._looked = 0.0
        with pytest.raises(ClusterError, match=r"tcp://late:1: scalable_bandits 0\.0\.1"):
            execution.events(0.0)
        execution.close()

    def test_an_asynchronous_client(self):
        class Other:
            asynchronous, status = True, "running"

        with pytest.raises(ValueError, match="got 'an asynchronous client'; allowed: one that blocks"), _given(Other()):
            pass

    @pytest.mark.slow
    def test_own_cluster(self, monkeypatch):
        """It listens on loopback only, has one thread of BLAS and numba a worker, and leaves nothing.

        So it is after a restart of a worker; the environment of this process is what it was all the while.
        """
        for name in clusters.THREADS:
            monkeypatch.delenv(name, raising=False)
        environment = dict(os.environ)
        me = psutil.Process()
        before = {p.pid for p in me.children(recursive=True)}, listening([me])
        with connect("local:1") as client:
            added = [p for p in me.children(recursive=True) if p.pid not in before[0]]
            found = listening([me, *added]) - before[1]
            assert len(found) >= 3
            assert {address for address, _ in found} <= {"127.0.0.1", "::1"}
            assert set(client.run(lambda: os.environ.get(clusters.TRIM)).values()) == {os.environ.get(clusters.TRIM)}
            assert set(client.nthreads().values()) == {1}
            for restart in (True, False):
                for limits in client.run(lambda: [os.environ.get(name) for name in clusters.THREADS]).values():
                    assert limits == ["1"] * 4
                assert dict(os.environ) == environment
                until(lambda: not inherited().keys() & {*clusters.THREADS})  # workers that start inherit them
                if restart:
                    client.restart()
            added += [p for p in me.children(recursive=True) if p.pid not in before[0]]
        workers = [p for p in added if "resource_tracker" not in "".join(cmdline(p))]
        assert len(workers) < len(added) or workers
        assert not psutil.wait_procs(workers, timeout=60)[1]
        assert listening([me]) <= before[1]

    def test_within_a_worker(self, client):
        """A worker may not start a cluster; the error names the alternative, which works."""
        assert client.submit(square_elsewhere, 2, "local:1").result().startswith("on: a worker process cannot start")
        assert client.submit(square_elsewhere, 2, None).result() == 4

    def test_own_client(self, client):
        """The user's client is used and left unchanged."""
        gc.collect()
        until(lambda: not client.futures)  # from earlier tests
        before = client.status, client.run(plugins)
        with executing(client, square, "square") as execution:
            execution.submit("square-1", 2)
            execution.submit("square-2", 3)
            assert len(client.futures) == 2
            gathered(execution, 1)
            assert client.run(plugins) != before[1]
        until(lambda: (client.status, client.run(plugins), set(client.futures)) == (*before, set()))

    def test_closed_client(self, client):
        from distributed import Client

        other = Client(client.scheduler.address, set_as_default=False)
        other.close()
        with pytest.raises(ClusterError, match="not connected, its status is 'closed'"), connect(other):
            pass


def inherited():
    """Return the environment of a process that starts now."""
    command = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def cmdline(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def plugins(dask_worker):
    return sorted(name for name in dask_worker.plugins if name.startswith("scalable"))


def listening(processes):
    """Return the addresses and ports that processes listen on."""
    return {
        tuple(connection.laddr)
        for process in processes
        for connection in process.net_connections(kind="inet")
        if connection.status == "LISTEN"
    }


class TestTLS:
    @pytest.fixture
    def authority(self, tmp_path):
        """Make certificates by the documented script."""
        folder = tmp_path / "tls"
        folder.mkdir()
        done = subprocess.run(
            [CLUSTER / "tls" / "make.sh", "server", "client"], env={**os.environ, "TLS_DIR": str(folder)}, check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode == 127 or "openssl: command not found" in done.stderr:
            pytest.skip("there is no openssl command here")
        assert done.returncode == 0, done.stderr
        assert all(oct(file.stat().st_mode).endswith("600") for file in folder.glob("*.key"))
        return folder

    @pytest.mark.slow
    def test_certificates(self, authority, tmp_path, connect_seconds):
        """With them it works; without them, and with those of another authority, nobody gets in."""
        files = [f"--tls-{option}={authority / file}" for option, file in
                 (("ca-file", "ca.pem"), ("cert", "server.pem"), ("key", "server.key"))]  # fmt: skip
        with by_hand(tmp_path / "cluster", 1, *files, scheme="tls") as cluster:
            assert cluster.address.startswith("tls://127.0.0.1:")
            recipe = tmp_path / "recipe.yaml"
            tls = {"ca": "tls/ca.pem", "cert": "tls/client.pem", "key": "tls/client.key"}
            recipe.write_text(yaml.safe_dump({"scheduler": cluster.address, "tls": tls}))
            found = sb.maximize(parabola, make_policy(), 5, on=recipe)
            assert len(found) == 5
            assert found.tickets[0].where.startswith("tls://127.0.0.1:")
            connect_seconds(1.0)
            other = cluster.address.replace("tls", "tcp")
            for address, why in ((cluster.address, "certificates: a recipe"), (other, "")):
                with pytest.raises(ClusterError, match=f"no scheduler can be reached.*{why}"), connect(address):
                    pass
            (authority / "ca.key").unlink()
            subprocess.run(
                [CLUSTER / "tls" / "make.sh", "client"], env={**os.environ, "TLS_DIR": str(authority)}, check=True,
                capture_output=True,
            )  # fmt: skip
            with pytest.raises(ClusterError, match="no scheduler can be reached"), connect(recipe):
                pass

    @pytest.mark.slow
    @pytest.mark.usefixtures("forked_workers")
    def test_encrypted_local_cluster(self, tmp_path):
        pytest.importorskip("cryptography", reason="cryptography is not installed")
        recipe = tmp_path / "recipe.yaml"
        recipe.write_text("workers: 1\nencrypted: true\n")
        with connect(recipe) as client:
            assert client.scheduler.address.startswith("tls://127.0.0.1:")
            assert client.submit(sum, [1, 2]).result() == 3


class TestRecipes:
    @pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
    def test_every_recipe_is_read(self, path):
        recipe = read_recipe(path)
        assert recipe.kind in KINDS
        assert f"`{path.relative_to(CLUSTER)}`" in (CLUSTER / "README.md").read_text()

    def test_there_is_one_of_every_kind(self):
        assert {read_recipe(path).kind for path in RECIPES} == set(KINDS) - {"scheduler-file"}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "clutser: a.B",
                r"^keys of .*: got \['clutser'\]; allowed: one of workers, scheduler, scheduler-file, clu",
            ),
            ("scheduler: tcp://a:1\nscheduler-file: b", r"^keys of .*: got .*; allowed: one of workers, scheduler"),
            ("workers: 3\nthread: 3", r"^key of .*: got 'thread'; allowed: did you mean 'threads'"),
            ("workers: 0", r"workers: got 0; allowed: a positive integer"),
            ("workers: many", r"workers: got 'many'; allowed: a positive integer"),
            ("workers: 1.5", r"workers: got 1.5; allowed: a positive integer"),
            ("workers: true", r"workers: got True; allowed: a positive integer"),
            ("workers: 1\nwait: 0", r"wait: got 0; allowed: a positive number"),
            ("workers: 1\nencrypted: 1", r"encrypted: got 1; allowed: yes or no"),
            ("cluster: a.B\noptions: [1]", r"options: got \[1\]; allowed: keys and values"),
            ("cluster: 3", r"cluster: got 3; allowed: text"),
            ("- a list", r"^on: got .*allowed: a recipe"),
            ("cluster: [", r"^on: got .*allowed: a recipe that can be read"),
            ("a: &a [x, x]\nworkers: [*a, *a]", r"^on: got .*names parts of itself"),  # aliases of aliases: gigabytes
            (f"workers: 1 #{' ' * 100_000}", r"^on: got .*more than 100,000 characters"),
        ],
    )
    def test_refusals(self, text, message, tmp_path):
        path = tmp_path / "recipe.yaml"
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_recipe(path)

    def test_no_such_file(self):
        with pytest.raises(ValueError, match=r"^on: got .*nothing.yaml.*No such file"):
            sb.maximize(parabola, make_policy(), 3, on="nothing.yaml")

    def test_files_that_are_not_there(self, tmp_path):
        path = tmp_path / "recipe.yaml"
        path.write_text("scheduler-file: no.json")
        with pytest.raises(ClusterError, match=r"no scheduler has written .*no.json"), connect(path):
            pass
        path.write_text("scheduler: tls://127.0.0.1:1\ntls: {ca: a, cert: b, key: c}")
        with pytest.raises(FileNotFoundError, match="tls: ca: there is no file"), connect(path):
            pass

    def test_slurm(self, monkeypatch):
        """The job script that dask-jobqueue would submit."""
        jobqueue = pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
        options = yaml.safe_load((CLUSTER / "slurm" / "slurm.yaml").read_text())["options"]
        assert options.pop("interface") == "ib0"  # this machine has no such interface
        job = jobqueue.slurm.SLURMJob("tcp://127.0.0.1:1", name="bandits", **{
            key: value for key, value in options.items() if key != "scheduler_options"
        })  # fmt: skip
        script = job.job_script()
        for part in ("#SBATCH -p normal", "--nthreads 1", "--nworkers 16", "NUMBA_NUM_THREADS=1", "#SBATCH -t 04:00:00",
                     "--preload scalable_bandits.execution.preload", "--lifetime 225m"):  # fmt: skip
            assert part in script

    def test_any_cluster_class(self, tmp_path):
        """The class gets its options, is scaled, and is closed."""
        path = tmp_path / "recipe.yaml"
        options = {"n_workers": 0, "processes": False, "dashboard_address": None, "local_directory": "./here"}
        path.write_text(yaml.safe_dump({"cluster": "distributed.LocalCluster", "options": options, "scale": {"n": 2}}))
        with connect(path) as client:
            client.wait_for_workers(2, timeout=300)
            found = set(client.run(lambda dask_worker: dask_worker.local_directory).values())
            assert all(Path(folder).is_relative_to(tmp_path / "here") for folder in found)
        assert client.status == "closed"
        del options["local_directory"]
        adapt = {"minimum": 0, "maximum": 1, "interval": "100ms"}
        path.write_text(yaml.safe_dump({"cluster": "distributed.LocalCluster", "options": options, "adapt": adapt}))
        with connect(path) as client:
            assert len(client.nthreads()) == 1

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("cluster: dask_nowhere.Cluster", "needs dask_nowhere.Cluster: .*; pip install dask-nowhere"),
            ("cluster: distributed.Nothing", "needs distributed.Nothing"),
            ("cluster: Cluster", "needs Cluster"),
            ("cluster: distributed.SpecCluster\noptions: {wrokers: {}}", "does not start: .*wrokers"),
        ],
    )
    def test_classes_that_are_not_there(self, text, message, tmp_path):
        path = tmp_path / "recipe.yaml"
        path.write_text(text)
        with pytest.raises(ClusterError, match=f"^on: .*{message}"), connect(path):
            pass

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["scheduler.sbatch", "jobs.sbatch"])
    def test_job_scripts(self, name):
        path = CLUSTER / "slurm" / name
        assert subprocess.run(["bash", "-n", path], check=False).returncode == 0
        options = set(re.findall(r"--[a-z-]+", path.read_text().split("exec ")[1].split("dask ")[1]))
        which = "scheduler" if "dask scheduler" in path.read_text() else "worker"
        command = [sys.executable, "-m", f"distributed.cli.dask_{which}", "--help"]
        known = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert all(option in known for option in options)

    @pytest.mark.slow
    def test_kubernetes(self):
        """The manifest fits the schema that the operator installs in the cluster."""
        pytest.importorskip("dask_kubernetes", reason="dask-kubernetes is not installed")
        jsonschema = pytest.importorskip("jsonschema")
        chart = resources.files("dask_kubernetes") / "operator" / "deployment" / "helm" / "dask-kubernetes-operator"
        (version,) = yaml.safe_load((chart / "crds" / "daskcluster.yaml").read_text())["spec"]["versions"]
        check = jsonschema.Draft202012Validator(version["schema"]["openAPIV3Schema"]).validate
        manifest = yaml.safe_load(MANIFEST.read_text())
        check(manifest)
        assert manifest["apiVersion"] == f"kubernetes.dask.org/{version['name']}"
        manifest["spec"]["worker"]["replicas"] = "many"
        with pytest.raises(jsonschema.ValidationError, match="'many' is not of type 'integer'"):
            check(manifest)

    @pytest.mark.slow
    def test_what_kubernetes_starts(self):
        """Names are consistent, and programs and options exist."""
        manifest = yaml.safe_load(MANIFEST.read_text())
        selector = manifest["spec"]["scheduler"]["service"]["selector"]
        assert selector["dask.org/cluster-name"] == manifest["metadata"]["name"]
        for part in ("worker", "scheduler"):
            (container,) = manifest["spec"][part]["spec"]["containers"]
            assert container["resources"]["requests"] == container["resources"]["limits"]
            program, name, *options = container["args"]  # the image has the same programs as this environment
            command = [Path(sys.executable).with_name(program), name, "--help"]
            known = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            assert name == part
            assert all(option in known for option in options if option.startswith("--"))
            # the operator makes Deployments, for which Kubernetes allows no other restart policy
            assert manifest["spec"][part]["spec"].get("restartPolicy", "Always") == "Always"


class TestWarmup:
    @pytest.mark.slow
    def test_compiles_everything(self):
        """After a warm-up in a new process no policy compiles anything."""
        code = """
import sys, json, numpy as np
import scalable_bandits as sb
from numba.core.dispatcher import Dispatcher
def signatures():
    return {f"{value.__module__}.{value.__name__}": len(value.signatures)
            for name, module in list(sys.modules.items()) if name.startswith("scalable_bandits")
            for value in vars(module).values() if isinstance(value, Dispatcher)}
seconds = sb.warmup()
before = signatures()
def play(policy, rounds=9):
    for t in range(rounds):
        x = policy.ask()
        policy.tell(x, float(np.sum(x)) % 1.3)
    policy.ask(2)
grid = sb.Grid([[0, 1], [0, 2]], (12, 7))
for name in ("GPUCB", "IGPUCB", "GPEI", "GPPI", "GPTS", "MeanOnly", "VarianceOnly", "RandomSearch"):
    play(getattr(sb, name)(grid, sb.RBF((0.2, 0.3)) + sb.Matern(0.4, nu=2.5)))
play(sb.IGPUCB(grid, sb.Matern(0.3, nu=0.5), engine="tiled"), 150)
play(sb.PiGPUCB(grid, sb.Matern(0.3, nu=1.5), horizon=300), 150)
play(sb.GPEI(sb.Arms(4), sb.Covariance(np.eye(4))))
table = sb.TableEnvironment(grid, np.linspace(0.0, 1.0, 84))
for name in ("IGPUCB", "GPUCB", "MeanOnly", "RandomSearch"):
    sb.simulate(getattr(sb, name)(grid, sb.RBF(0.3)), table, 200)
sb.simulate(sb.TVGPUCB(grid, sb.RBF(0.3) * sb.TemporalDecay(0.1)), table, 200)
play(sb.GPEI(sb.Box([[0, 1]]), sb.Periodic(0.4) * sb.RationalQuadratic(0.3) + sb.Linear()))
after = signatures()
print(json.dumps([seconds, sum(before.values()), {name: n for name, n in after.items() if n != before[name]}]))
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        seconds, compiled, more = json.loads(done.stdout)
        assert seconds > 0
        assert compiled > 20
        assert {name for name in more if "tie_hash" not in name} == set()
