"""Times single operations of SectionFlow and of PyTorch in turn, and compares the times.

    python3 bench/peers/compare_operations.py --program build/bench/bench_ops --python VENV/bin/python [--op top_k ...]

Each round times an operation by bench_ops, and then each way of PyTorch's to the same result, with as many repetitions
and threads, all with operands that a copy of 256 MiB has driven out of the caches. A ratio is that of ours to theirs in
the same round. Without --op all operations that torch_operations.py has, with the shapes below.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

from rounds import add_round_arguments, environment_of, quartiles
from worker import Worker

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = [
    {"op": "matmul", "shape": "2048x2048", "dtype": "f32", "settings": {"columns": "2048"}},
    {"op": "matmul", "shape": "2048x2048", "dtype": "bf16", "settings": {"columns": "2048"}},
    {"op": "top_k", "shape": "64x50257", "dtype": "f32", "settings": {"k": "40"}},
    {"op": "categorical", "shape": "64x50257", "dtype": "f32", "settings": {"draws": "1"}},
    {"op": "categorical", "shape": "64x50257", "dtype": "f32", "settings": {"draws": "10"}},
    {"op": "ctc_loss", "shape": "16x512x1024", "dtype": "f32", "settings": {}},
]
WITH_GRADIENT = ("ctc_loss",)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="bench_ops")
    parser.add_argument("--python", required=True, help="one that has PyTorch")
    parser.add_argument("--op", action="append", choices=sorted({case["op"] for case in CASES}), help="may be repeated")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=9, help="of a round, of which the median counts")
    add_round_arguments(parser)
    return parser.parse_args()


def measure_ours(arguments, case):
    """Milliseconds of the operation and of its gradient: the sum of what each is made of."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "times.json")
        settings = [word for name, value in case["settings"].items() for word in (f"--{name}", value)]
        gradient = ["--gradient"] if case["op"] in WITH_GRADIENT else []
        subprocess.run([arguments.program, "--op", case["op"], "--shape", case["shape"], "--dtype", case["dtype"], *settings,
                        *gradient, "--threads", str(arguments.threads), "--repeats", str(arguments.repeats), "--json", file],
                       check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment_of(arguments)})
        with open(file, encoding="utf-8") as text:
            rows = json.load(text)["cases"][0]["kernels"]
    times = {}
    for row in rows:
        part = "gradient" if row["gradient"] else "forward"
        times[part] = times.get(part, 0) + row["median_seconds"] * 1000
    return times


def compare(arguments, case, peer):
    ours, theirs = [], []
    for _ in range(arguments.rounds):
        ours.append(measure_ours(arguments, case))
        theirs.append(peer.ask(json.dumps({**case, "repeats": arguments.repeats})))
    rows = []
    for part in ours[0]:
        own = [round_[part] for round_ in ours]
        for way in theirs[0]:
            other = [round_[way][part] for round_ in theirs]
            ratios = [a / b for a, b in zip(own, other)]
            rows.append({**case, "part": part, "theirs": way, "ours_ms": statistics.median(own),
                         "theirs_ms": statistics.median(other), "ratio": quartiles(ratios)})
    return rows


def main():
    arguments = parse_arguments()
    script = os.path.join(HERE, "torch_operations.py")
    peer = Worker([arguments.python, script, "--threads", str(arguments.threads)], environment_of(arguments))
    results = []
    print(f"PyTorch {peer.ready['torch']}, {arguments.threads} threads, {arguments.rounds} rounds")
    print(f"{'':44} {'ours ms':>9} {'theirs ms':>9}  ours / theirs")
    for case in CASES:
        if arguments.op and case["op"] not in arguments.op:
            continue
        for row in compare(arguments, case, peer):
            results.append(row)
            settings = "".join(f" {name} {value}" for name, value in row["settings"].items())
            low, middle, high = row["ratio"]
            print(f"{row['op']} {row['part']} {row['shape']} {row['dtype']}{settings}".ljust(54) +
                  f"{row['ours_ms']:9.2f} {row['theirs_ms']:9.2f}  {middle:.3f} ({low:.3f} to {high:.3f})  {row['theirs']}", flush=True)
    peer.quit()
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"arguments": vars(arguments), "torch": peer.ready["torch"], "results": results}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
