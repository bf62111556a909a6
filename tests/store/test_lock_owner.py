"""Whether the process that a store names as its writer still runs."""

import subprocess
import sys
import time

import psutil

from scalable_bandits.store.locations import may_be_running, this_process


def test_who_lives():
    """This process; not one that was killed, whether or not its parent has asked how it ended; nor a later one."""
    assert may_be_running(this_process())
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    record = {**this_process(), "pid": process.pid, "since": time.time()}
    assert may_be_running(record)
    process.kill()
    while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert not may_be_running(record)
    process.wait()
    assert not may_be_running(record)
    assert not may_be_running({**this_process(), "since": 0.0})  # a process that was given the number of a dead one
    assert may_be_running({**record, "host": "another"})  # which cannot be told from here
