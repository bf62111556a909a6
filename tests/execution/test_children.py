"""Functions on local workers that start processes of their own; and workers whose main process is killed."""

import os
import signal
import subprocess
import sys

import psutil
import pytest
from cases.cluster import until
from cases.paths import PYTHONPATH

SCRIPT = """
import multiprocessing, os, sys, time
from concurrent.futures import ProcessPoolExecutor

def put(queue):
    queue.put(1.5)

def objective(x):
    queue = multiprocessing.Queue()
    child = multiprocessing.Process(target=put, args=(queue,))
    child.start()
    child.join()
    with multiprocessing.Pool(2) as pool, ProcessPoolExecutor(1) as executor:
        return queue.get() + sum(pool.map(abs, [1, -2])) + sum(executor.map(abs, [3]))

def endless(x):
    os.write(1, f"{os.getpid()}\\n".encode())  # whole: print may write a line's end later
    while True:
        time.sleep(1)

if __name__ == "__main__":
    import scalable_bandits as sb  # not again in each of the processes that import this script
    function, parallel = globals()[sys.argv[1]], int(sys.argv[2])
    found = sb.minimize(function, sb.Box([[0, 1]]), parallel, parallel=parallel, on=f"local:{parallel}", progress=False)
    print(found.y.tolist(), found.failed)
"""
pytestmark = pytest.mark.slow


@pytest.fixture
def started(tmp_path):
    """Start the script with a function and a number of evaluations."""
    (tmp_path / "script.py").write_text(SCRIPT)
    processes = []

    def start(*arguments):
        command = [sys.executable, "script.py", *arguments]
        environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
        processes.append(subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def test_functions_of_a_script_start_processes(started):
    """By multiprocessing, a pool and an executor, with functions of the script."""
    assert started("objective", "1").communicate()[0].strip() == "[7.5] []"


def test_workers_end_with_a_killed_process(started):
    script = started("endless", "2")
    workers = [psutil.Process(int(script.stdout.readline())) for _ in range(2)]
    script.send_signal(signal.SIGKILL)
    until(lambda: not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in workers))
