"""What a damaged store does to its reader: this project beside loaderx.

The same records go into a store of each. Single bits are flipped, files are
cut and chunks exchanged; then a process of its own opens the store and reads
every record, and what came of it is counted: an error, other bytes and no
error, the right bytes, a process that died, one that hung.

    python py-host/bench/integrity.py --trials 200 --seed 1
    python py-host/bench/integrity.py --other-python .venv-loaderx/bin/python
"""

import argparse
import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

CHILD = """
import os, signal, sys, time
import numpy as np
package, root = sys.argv[1:]
if package == "loaderx":
    from loaderx.dataset import DenseDataset
    from loaderx.converter import from_numpy
else:
    from zrecord.dataset import DenseDataset
    from zrecord.converter import from_numpy
expected = np.load(root + "/expected.npy")

def read():
    try:
        store = DenseDataset(root + "/one")
        if len(store) != len(expected):
            return "error"
    except Exception:
        return "error"
    outcome = "right"
    for index in range(len(expected)):
        try:
            if not np.array_equal(store[index], expected[index]):
                return "silent"
        except Exception:
            outcome = "error"
    return outcome

def read_in_a_fork():
    # One that reads in a process of its own may die or hang.
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(theirs, read().encode())
        os._exit(0)
    os.close(theirs)
    deadline = time.monotonic() + 60
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(ours)
            return "hung"
        time.sleep(0.002)
    outcome = os.read(ours, 100).decode() or "crashed"
    os.close(ours)
    return outcome

for name, seed in (("one", 0), ("other", 1)):
    rng = np.random.default_rng(seed)
    records = rng.integers(0, 255, size=expected.shape, dtype=np.uint8)
    from_numpy(f"{root}/{name}", expected if name == "one" else records, codec="raw")
print("made", flush=True)
for line in sys.stdin:
    print(read_in_a_fork(), flush=True)
"""

OUTCOMES = ("error", "silent", "right", "crashed", "hung")


class Contestant:
    """A package, the Python that has it, and a folder for its stores."""

    def __init__(self, package, python, root, records):
        import numpy

        self.package, self.python = package, python
        self.root = os.path.join(root, package)
        os.mkdir(self.root)
        rng = numpy.random.default_rng(0)
        expected = rng.integers(0, 255, size=(records, 256), dtype=numpy.uint8)
        numpy.save(self.root + "/expected.npy", expected)
        self.process = subprocess.Popen(
            [python, "-c", CHILD, package, self.root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self.process.stdout.readline().strip() != "made":
            raise SystemExit(f"{package}: no store could be made")
        self.used = {"0.zr": records * 256, "meta.zr": 0}
        head, entry = (16, 16) if package == "loaderx" else (12288, 24)
        self.used["meta.zr"] = head + entry * records
        self.used["schema.msgpack"] = os.path.getsize(self.file("schema.msgpack"))

    def file(self, name, store="one"):
        return os.path.join(self.root, store, name)

    def read(self):
        """What reading every record comes to."""
        self.process.stdin.write("read\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def flip(self, rng):
        """One bit, anywhere in what the store uses."""
        name = rng.choice(sorted(self.used))
        position = rng.randrange(self.used[name])
        with open(self.file(name), "r+b") as file:
            file.seek(position)
            byte = file.read(1)[0]
            file.seek(position)
            file.write(bytes([byte ^ 1 << rng.randrange(8)]))
            file.flush()
            outcome = self.read()
            file.seek(position)
            file.write(bytes([byte]))
        return outcome

    def cut(self, rng):
        """A file that ends somewhere in what the store uses."""
        name = rng.choice(sorted(self.used))
        path = self.file(name)
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            used = file.read(self.used[name])
        os.truncate(path, rng.randrange(self.used[name]))
        outcome = self.read()
        with open(path, "r+b") as file:
            file.write(used)
        os.truncate(path, size)
        return outcome

    def exchange(self, _):
        """The chunk of another store of the same layout."""
        one, other, aside = self.file("0.zr"), self.file("0.zr", "other"), self.root + "/aside"
        os.rename(one, aside)
        os.rename(other, one)
        outcome = self.read()
        os.rename(one, other)
        os.rename(aside, one)
        return outcome


def measure(contestant, trials, seed):
    experiments = {
        "single bits": (contestant.flip, trials),
        "cut files": (contestant.cut, max(trials // 4, 1)),
        "exchanged chunks": (contestant.exchange, 1),
    }
    counts = {}
    for name, (experiment, repeats) in experiments.items():
        rng = random.Random(seed)
        counts[name] = collections.Counter(experiment(rng) for _ in range(repeats))
    if contestant.read() != "right":
        raise SystemExit(f"{contestant.package}: the store was not put back")
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200, help="how many bits are flipped")
    parser.add_argument("--records", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", default=sys.executable, help="a Python that has zrecord")
    parser.add_argument("--other-python", default=sys.executable, help="one that has loaderx")
    parser.add_argument("--only", choices=("zrecord", "loaderx"))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    packages = {"zrecord": arguments.python, "loaderx": arguments.other_python}
    root = tempfile.mkdtemp(prefix="zrecord-integrity-")
    results = {}
    try:
        for package, python in packages.items():
            if arguments.only in (None, package):
                contestant = Contestant(package, python, root, arguments.records)
                results[package] = measure(contestant, arguments.trials, arguments.seed)
                contestant.close()
    finally:
        shutil.rmtree(root)
    if arguments.json:
        print(json.dumps(results))
        return
    print(f"seed {arguments.seed}, {arguments.records} raw records of 256 bytes")
    print(f"{'':<18}{'':<10}" + "".join(f"{outcome:>9}" for outcome in OUTCOMES))
    for package, counts in results.items():
        for experiment, outcomes in counts.items():
            row = "".join(f"{outcomes[outcome]:>9}" for outcome in OUTCOMES)
            print(f"{experiment:<18}{package:<10}{row}")


if __name__ == "__main__":
    main()
