"""Measures what training by several ranks comes to, on one machine with at least two cores.

    python3 bench/ranks_figures.py --build build --json figures.json
    python3 bench/ranks_figures.py --build build --rows hidden scale --json figures.json

`one_rank`: a step of one rank with a communicator against none, in turn. `hidden`: 2 ranks of one thread each, by mpirun,
over throttled links: what of the communication computing hides, and the peak of every rank. `scale`: the same steps on
paper (`sectionflow scale`), by a profile that two processes have measured at the same time. `peers`: against PyTorch's DDP and
FSDP over gloo, 2 processes of one thread each, run after run in turn. `kills`: a rank is killed at a random time; needs no
quiet machine. Medians; each row is written to --json when it is there.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "peers"))
from compare_speed import MEMORY_KEEPING_MALLOC, newest_python, quartiles
from worker import Worker, option_arguments

ROWS = ("one_rank", "hidden", "scale", "peers", "kills")
# As root, which is what containers run as; no network but the loopback.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_pml": "ob1",
       "OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_oob_tcp_if_include": "lo", "OMP_WAIT_POLICY": "passive"}
# What trains, and links over which its gradients take less than a step's arithmetic.
MODELS = {
    "mnist_resnet": {"batch": 64, "options": {}, "links": ["10MB/s", "25MB/s"],
                     "scale_links": ["250MB/s", "25MB/s", "10MB/s", "2.5MB/s"]},
    "gpt": {"batch": 4, "options": {"layers": 6, "width": 512, "heads": 8, "sequence": 256, "vocabulary": 4096},
            "links": ["250MB/s", "500MB/s"], "scale_links": ["2.5GB/s", "500MB/s", "250MB/s", "25MB/s"]},
}
# What was tried of each rival; the fastest counts.
DDP = {"ddp": [], "ddp static, buckets of 4 MB": ["--static", "--bucket-mb", "4"]}
FSDP = {"fsdp": []}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="folder of the programs")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--json", help="the file that results are written to")
    parser.add_argument("--steps", type=int, default=7, help="of each run of several processes")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each in turn with the peers")
    parser.add_argument("--one-rank-rounds", type=int, default=60)
    parser.add_argument("--trials", type=int, default=100, help="ranks that are killed")
    parser.add_argument("--python", help="a Python with PyTorch; the newest one is installed where none is said")
    parser.add_argument("--cache", help="folder of that")
    parser.add_argument("--mpirun", default="mpirun")
    return parser.parse_args()


class Rows:
    """Results, in the file as soon as they are there."""

    def __init__(self, path):
        self.path, self.rows = path, []

    def add(self, **row):
        self.rows.append(row)
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
        if self.path:
            with open(self.path, "w", encoding="utf-8") as file:
                json.dump(self.rows, file, indent=1)
                file.write("\n")


class Programs:
    def __init__(self, arguments):
        self.arguments = arguments

    def path(self, name):
        return os.path.join(self.arguments.build, name)

    def model(self, name, cut, batch=None):
        model = MODELS[name]
        return ["--model", name, *option_arguments(model["options"]), "--batch", str(batch or model["batch"]), "--cut", cut]

    def ranks(self, name, cut, *more, ranks=2):
        """What bench_train_steps writes of ranks that are processes, of one thread each."""
        command = [self.arguments.mpirun, "--oversubscribe", "-n", str(ranks), self.path("bench/bench_train_steps"),
                   *self.model(name, cut), "--threads", "1", "--ranks", "mpi", "--steps", str(self.arguments.steps), *more,
                   "--json", "-"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **MPI}, check=True)
        return json.loads(done.stdout)

    def ranks_as_threads(self, name, cut, *more, ranks=2):
        command = [self.path("bench/bench_train_steps"), *self.model(name, cut), "--threads", "1", "--ranks", str(ranks),
                   "--steps", str(self.arguments.steps), *more, "--json", "-"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_WAIT_POLICY": "passive"},
                              check=True)
        return json.loads(done.stdout)

    def worker(self, name, cut, *more, batch=None):
        return Worker([self.path("bench/bench_train_steps"), *self.model(name, cut, batch), *more],
                      {"OMP_WAIT_POLICY": "passive"})


def rounded(number, digits=3):
    return round(number, digits)


def measure_one_rank(programs, rows, arguments):
    for name in arguments.models:
        batch = 16 if name == "mnist_resnet" else 1
        workers = [programs.worker(name, "whole", "--threads", "2", *more, batch=batch) for more in ([], ["--ranks", "1"])]
        ratios = []
        for number in range(arguments.one_rank_rounds + 5):
            order = workers if number % 2 == 0 else workers[::-1]
            took = {worker: worker.ask("step")["ms"] for worker in order}
            if number >= 5:
                ratios.append(took[workers[1]] / took[workers[0]])
        for worker in workers:
            worker.quit()
        rows.add(row="one_rank", model=name, batch=batch, threads=2, rounds=len(ratios),
                 ratio=[rounded(each, 4) for each in quartiles(ratios)])


def measure_hidden(programs, rows, arguments):
    for name in arguments.models:
        for link in MODELS[name]["links"]:
            found = programs.ranks(name, "blocks", "--rank-link", link)
            for rank in found["by_rank"]:
                rows.add(row="hidden", model=name, batch=found["batch"], cut="blocks", link=link, rank=rank["rank"],
                         step_ms=rounded(rank["step_ms"], 1), communicate_ms=rounded(rank["communicate_ms"], 1),
                         exposed_ms=rounded(rank["exposed_ms"], 1), hidden_share=rounded(rank["hidden_share"]),
                         planned_peak_bytes=rank["planned_peak_bytes"], measured_peak_bytes=rank["measured_peak_bytes"],
                         peak_is_exact=rank["planned_peak_bytes"] == rank["measured_peak_bytes"],
                         variables=rank["variables"])


def measured_profile(programs, name, folder):
    """By two processes at once, since what shares the memory with another is slower than alone."""
    workers = [programs.worker(name, "blocks", "--threads", "1") for _ in range(2)]
    files = [os.path.join(folder, f"{name}.{number}.profile") for number in range(2)]
    for worker, file in zip(workers, files):
        worker.process.stdin.write(f"profile {file}\n")
        worker.process.stdin.flush()
    for worker in workers:
        worker.read()
        worker.quit()
    return files[0]


def on_paper(programs, name, profile, ranks, link, call_us=0):
    model = MODELS[name]
    command = [programs.path("tools/sectionflow"), "scale", "--model", name, *option_arguments(model["options"]), "--batch",
               str(model["batch"]), "--threads", "1", "--profile", profile, "--ranks", str(ranks), "--rank-link", link,
               "--call-us", f"{call_us:.0f}", "--json", "-"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def median_of_ranks(found, what):
    return statistics.median(rank[what] for rank in found["by_rank"])


def call_seconds(found, paper):
    """What each call takes besides its bytes, by a link that carries these in no time to speak of."""
    step = paper["steps"][0]
    return max(0, median_of_ranks(found, "communicate_ms") / 1000 - step["communicate_seconds"]) / step["calls"]


def measure_scale(programs, rows, arguments):
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.models:
            profile = measured_profile(programs, name, folder)
            for ways in ("threads", "processes"):
                compare_with_paper(programs, rows, name, ways, profile)


def compare_with_paper(programs, rows, name, ways, profile):
    """What a call takes is told by the fastest link, and the others are predicted."""
    run = programs.ranks if ways == "processes" else programs.ranks_as_threads
    fast, *others = MODELS[name]["scale_links"]
    call_us = 1e6 * call_seconds(run(name, "blocks", "--rank-link", fast), on_paper(programs, name, profile, 2, fast))
    for link in others:
        measured = median_of_ranks(run(name, "blocks", "--rank-link", link), "step_ms")
        paper = on_paper(programs, name, profile, 2, link, call_us)
        step = paper["steps"][0]
        rows.add(row="scale", model=name, ranks=2, ways=ways, link=link, call_us=rounded(call_us, 0),
                 measured_ms=rounded(measured, 1), on_paper_ms=rounded(1000 * step["step_seconds"], 1),
                 ratio=rounded(1000 * step["step_seconds"] / measured), bound=step["bound"],
                 gradient_bytes_held=paper["gradient_bytes_held"],
                 gradient_bytes_of_two_sections=paper["gradient_bytes_of_two_sections"])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Peers:
    """Runs of PyTorch by two processes, from our weights, on our batches."""

    def __init__(self, programs, python, name, folder):
        self.python, self.name, self.arguments = python, name, programs.arguments
        self.weights, self.batches = (os.path.join(folder, f"{name}.{what}") for what in ("weights", "batches"))
        worker = programs.worker(name, "whole", "--threads", "1", "--ranks", "2")
        worker.ask(f"export {self.weights}")
        worker.ask(f"batch {self.batches}")
        worker.quit()

    def run(self, kind, flags):
        # FSDP takes no parameters that are not contiguous.
        layout = "channels_last" if self.name == "mnist_resnet" and kind == "ddp" else "contiguous"
        command = [self.python, os.path.join(HERE, "peers", "torch_ranks.py"), "--kind", kind, "--ranks", "2", "--port",
                   str(free_port()), "--model", self.name, "--options", json.dumps(MODELS[self.name]["options"]),
                   "--weights", self.weights, "--batches", self.batches, "--learning-rate", "1e-4", "--layout", layout,
                   "--fused", "--threads", "1", "--steps", str(self.arguments.steps), *flags]
        environment = {**os.environ, **MEMORY_KEEPING_MALLOC, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
        others = subprocess.Popen([*command, "--rank", "1"], stdout=subprocess.DEVNULL, env=environment)
        done = subprocess.run([*command, "--rank", "0"], stdout=subprocess.PIPE, text=True, env=environment, check=True)
        others.wait()
        return json.loads(done.stdout.splitlines()[-1])


def measure_peers(programs, rows, arguments):
    python = arguments.python or newest_python(arguments.cache)
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.models:
            peers = Peers(programs, python, name, folder)
            runs = {f"ours {cut}": lambda cut=cut: ours_of(programs.ranks(name, cut)) for cut in ("whole", "blocks")}
            for kind, kinds in (("ddp", DDP), ("fsdp", FSDP)):
                for label, flags in kinds.items():
                    runs[label] = lambda kind=kind, flags=flags: peers.run(kind, flags)
            add_in_turns(runs, rows, arguments, name)


def ours_of(found):
    first = found["by_rank"][0]
    return {"step_ms": first["step_ms"], "peak_tensor_bytes": first["planned_peak_bytes"], "loss": first["loss"]}


def add_in_turns(runs, rows, arguments, name):
    times, last, failed = {label: [] for label in runs}, {}, {}
    for _ in range(arguments.rounds):
        for label, run in runs.items():
            if label in failed:
                continue
            try:
                last[label] = run()
                times[label].append(last[label]["step_ms"])
            except subprocess.CalledProcessError as error:
                failed[label] = f"exit status {error.returncode}"
    for label, samples in times.items():
        if label in failed:
            rows.add(row="peers", model=name, name=label, failed=failed[label])
            continue
        ratios = {ours: rounded(statistics.median(a / b for a, b in zip(times[ours], samples)))
                  for ours in runs if ours.startswith("ours")}
        peaks = {ours: rounded(last[ours]["peak_tensor_bytes"] / last[label]["peak_tensor_bytes"]) for ours in ratios}
        rows.add(row="peers", model=name, batch=MODELS[name]["batch"], name=label, step_ms=rounded(statistics.median(samples), 1),
                 peak_bytes=last[label]["peak_tensor_bytes"], loss=last[label]["loss"], torch=last[label].get("torch"),
                 ratio_of_step=None if label in ratios else ratios, ratio_of_peak=None if label in ratios else peaks)


def measure_kills(programs, rows, arguments):
    script = os.path.join(HERE, "..", "tests", "sections", "ranks", "kill_ranks.py")
    done = subprocess.run([sys.executable, script, "--program", programs.path("tests/training_ranks"), "--mpirun",
                           arguments.mpirun, "--trials", str(arguments.trials)], stdout=subprocess.PIPE, text=True, check=False)
    rows.add(row="kills", **json.loads(done.stdout))


def main():
    arguments = parse_arguments()
    programs, rows = Programs(arguments), Rows(arguments.json)
    measures = {"one_rank": measure_one_rank, "hidden": measure_hidden, "scale": measure_scale, "peers": measure_peers,
                "kills": measure_kills}
    for row in arguments.rows:
        measures[row](programs, rows, arguments)


if __name__ == "__main__":
    main()
