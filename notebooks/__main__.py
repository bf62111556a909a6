"""Make notebooks from their sources, or compare what they show now with what is kept.

python -m notebooks                    all of them
python -m notebooks 3_table_1          some
python -m notebooks --check [NAME ...] compares, changes nothing, and has exit code 1 if anything differs
"""

import argparse
import os
import sys
import time

import notebooks

parser = argparse.ArgumentParser(prog="python -m notebooks", description=__doc__.splitlines()[0])
parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all ({', '.join(notebooks.NAMES)})")
parser.add_argument("--check", action="store_true", help="execute again and compare, change nothing")
arguments = parser.parse_args()
if unknown := sorted(set(arguments.names) - set(notebooks.NAMES)):
    parser.error(f"NAME was {', '.join(unknown)}; it must be one of {', '.join(notebooks.NAMES)}")

os.environ["JUPYTER_PLATFORM_DIRS"] = "1"  # without it jupyter_core warns
any_problem = False
for name in arguments.names or notebooks.NAMES:
    began = time.perf_counter()
    problems = (notebooks.check if arguments.check else notebooks.make)(name)
    size = (notebooks.FOLDER / f"{name}.ipynb").stat().st_size / 1000
    print(f"{name}: {time.perf_counter() - began:.0f} s, {size:.0f} kB", flush=True)
    for problem in problems:
        print(f"  {name}, {problem}", flush=True)
    any_problem |= bool(problems)
sys.exit(any_problem)
