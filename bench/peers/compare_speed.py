"""Trains one model in SectionFlow and in PyTorch, step by step in turn, and compares the times.

    python3 bench/peers/compare_speed.py --program build/bench/bench_train_steps --model mnist_resnet --batch 250 \\
        --ours whole --ours blocks --peer debian:channels_last --peer debian:channels_last:malloc --peer newest

A peer is a Python with PyTorch and what it is asked to do, separated by colons: `debian` (the system's python3, as
Debian's python3-torch has it), `newest` (the newest PyTorch from PyPI, installed into a virtual environment in the cache
folder on first use), or a path of a Python; then any of

    channels_last    images in that memory format; contiguous otherwise
    malloc           an allocator that keeps its memory: no trimming, no mmap for single tensors
    compile          torch.compile
    fused            the optimizer's one-pass form (newer than Debian's PyTorch)
    checkpoint=K     K sections, or blocks, computed again in the backward pass (torch.utils.checkpoint)
    save-on-cpu      torch.autograd.graph.save_on_cpu
    tf32             --device cuda: f32 products may round to TF32, which is off otherwise
    bf16             torch.autocast in bfloat16

Ours may be several builds, by another oneDNN for example: `--other-program NAME=PATH --ours whole:bf16:NAME`.

All start from the same weights, on the same batches. While one takes its step all others wait for input; a pause
before each step lets their threads go to sleep. A ratio is that of ours to theirs in the same round, so that what slows
the machine down for a while slows both.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from rounds import quartiles
from worker import Worker, model_options, option_arguments

HERE = os.path.dirname(os.path.abspath(__file__))
MEMORY_KEEPING_MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_MMAP_THRESHOLD_": str(1 << 40),
                         "MALLOC_TOP_PAD_": str(64 << 20)}
LEARNING_RATES = {"adam": 1e-4, "sgd": 1e-2, "momentum": 1e-2}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="bench_train_steps")
    parser.add_argument("--other-program", action="append", default=[], metavar="NAME=PATH", help="another build of it; may be repeated")
    parser.add_argument("--model", default="mnist_resnet")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=NUMBER", help="of the model")
    parser.add_argument("--batch", type=int, default=250)
    parser.add_argument("--batches", type=int, default=1, help="different batches, gone round")
    parser.add_argument("--optimizer", choices=sorted(LEARNING_RATES), default="adam")
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--ours", action="append", help="whole, a number of sections, or blocks; behind it :bf16 (mixed precision), :tf32 and :autotune "
                             "(of a GPU), as in whole:tf32:autotune; may be repeated")
    parser.add_argument("--peer", action="append", help="see above; may be repeated")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of all programs")
    parser.add_argument("--device-memory", help="budget of ours; on a GPU say one, or ours takes all of its memory")
    parser.add_argument("--burst", type=int, default=1, help="steps in a row each turn, of which the median counts")
    parser.add_argument("--steps", type=int, default=20, help="rounds that count")
    parser.add_argument("--warm-up", type=int, default=3, help="rounds before them")
    parser.add_argument("--pause-ms", type=float, default=50, help="before each step")
    parser.add_argument("--wait-policy", choices=("passive", "active", "unset"), default="passive",
                        help="OMP_WAIT_POLICY of all programs")
    parser.add_argument("--debian-python", default="/usr/bin/python3", help="what `debian` means")
    parser.add_argument("--cache", help="folder of the virtual environment of `newest`; by itself below the user's cache")
    parser.add_argument("--no-peak", action="store_true", help="do not measure PyTorch's peak of tensors")
    parser.add_argument("--json", help="write the results to this file too")
    parser.add_argument("--rounds", help="write a line of JSON to this file after each round that counts: what is there "
                                         "when the run is cut off")
    arguments = parser.parse_args()
    arguments.ours = arguments.ours or ["whole"]
    arguments.peer = arguments.peer or ["debian:channels_last", "debian:channels_last:malloc"]
    arguments.options = model_options(arguments.option)
    if arguments.learning_rate is None:
        arguments.learning_rate = LEARNING_RATES[arguments.optimizer]
    if arguments.device == "cuda" and not arguments.device_memory:
        parser.error("--device cuda wants --device-memory: the GPU is shared with the peers")
    return arguments


def newest_python(cache):
    """A Python with the newest PyTorch from PyPI, installed when it is not there."""
    if cache is None:
        cache = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "sectionflow")
    folder = os.path.join(cache, "newest-pytorch")
    python, done = os.path.join(folder, "bin", "python"), os.path.join(folder, "installed")
    if not os.path.exists(done):
        print(f"installing the newest PyTorch into {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True, stdout=sys.stderr)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "torch", "numpy"], check=True, stdout=sys.stderr)
        with open(done, "w"):
            pass
    return python


def openmp_environment(arguments):
    environment = {"OMP_NUM_THREADS": str(arguments.threads)}
    if arguments.wait_policy != "unset":
        environment["OMP_WAIT_POLICY"] = arguments.wait_policy
    return environment


def model_arguments(arguments):
    return ["--model", arguments.model, "--optimizer", arguments.optimizer, "--learning-rate",
            str(arguments.learning_rate), "--threads", str(arguments.threads), "--device", arguments.device]


def start_ours(arguments, cut):
    cut, *wishes = cut.split(":")
    others = dict(pair.split("=", 1) for pair in arguments.other_program)
    program = next((others[wish] for wish in wishes if wish in others), arguments.program)
    wishes = [wish for wish in wishes if wish not in others]
    strange = [wish for wish in wishes if wish not in ("bf16", "tf32", "autotune")]
    if strange:
        raise SystemExit(f"'{strange[0]}' in --ours {':'.join([cut, *wishes])} is not known; see --help")
    flags = [f"--{wish}" for wish in wishes]
    budget = ["--device-memory", arguments.device_memory] if arguments.device_memory else []
    return Worker([program, *model_arguments(arguments), *budget, *flags, "--batch", str(arguments.batch), "--batches",
                   str(arguments.batches), "--cut", cut, *option_arguments(arguments.options)],
                  openmp_environment(arguments))


def start_peer(arguments, peer, weights, batches):
    python, *wishes = peer.split(":")
    python = {"debian": lambda: arguments.debian_python,
              "newest": lambda: newest_python(arguments.cache)}.get(python, lambda: python)()
    environment, flags = openmp_environment(arguments), []
    for wish in wishes:
        name, _, value = wish.partition("=")
        if wish == "malloc":
            environment.update(MEMORY_KEEPING_MALLOC)
        elif wish in ("channels_last", "contiguous"):
            flags += ["--layout", wish]
        elif wish == "bf16":
            flags += ["--amp", "bf16"]
        elif wish in ("compile", "fused", "save-on-cpu", "tf32"):
            flags.append(f"--{wish}")
        elif name == "checkpoint" and value:
            flags += ["--checkpoint", value]
        else:
            raise SystemExit(f"'{wish}' in peer '{peer}' is not known; see --help")
    return Worker([python, os.path.join(HERE, "torch_peer.py"), *model_arguments(arguments), "--options",
                   json.dumps(arguments.options), "--weights", weights, "--batches", batches, *flags], environment)


def start_all(arguments):
    """Our programs and the peers, by name; all with the same weights and batches."""
    ours = {f"sectionflow {cut}": start_ours(arguments, cut) for cut in arguments.ours}
    first = next(iter(ours.values()))
    with tempfile.TemporaryDirectory() as folder:
        weights, batches = (os.path.join(folder, f"{name}.safetensors") for name in ("weights", "batches"))
        first.ask(f"export {weights}")
        first.ask(f"batch {batches}")
        peers = {peer: start_peer(arguments, peer, weights, batches) for peer in arguments.peer}
    return ours, peers


def run_rounds(arguments, workers):
    """Milliseconds of each counted step, and the last loss, by name. Who begins changes from round to round."""
    times, losses = {name: [] for name in workers}, {}
    names = list(workers)
    if arguments.rounds:
        with open(arguments.rounds, "w") as file:
            file.write(json.dumps({"arguments": vars(arguments)}) + "\n")
    for number in range(arguments.warm_up + arguments.steps):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            time.sleep(arguments.pause_ms / 1000)
            answers = [workers[name].ask("step") for _ in range(arguments.burst)]
            losses[name] = answers[-1]["loss"]
            if number >= arguments.warm_up:
                times[name].append(statistics.median(answer["ms"] for answer in answers))
        if arguments.rounds and number >= arguments.warm_up:
            with open(arguments.rounds, "a") as file:
                file.write(json.dumps({"step_ms": {name: times[name][-1] for name in names}, "loss": losses}) + "\n")
    return times, losses


def compare(arguments):
    ours, peers = start_all(arguments)
    workers = {**ours, **peers}
    times, losses = run_rounds(arguments, workers)
    rows = []
    for name, worker in workers.items():
        row = {"name": name, "step_ms": quartiles(times[name]), "last_loss": losses[name],
               "torch": worker.ready.get("torch"), "device": worker.ready.get("device")}
        if name in peers:
            row["ratio_ours_to_theirs"] = {
                our: quartiles([a / b for a, b in zip(times[our], times[name])]) for our in ours}
        if name in ours:
            row["peak_bytes"] = worker.ask("peak")["planned_peak_bytes"]
            row["outside_kernels_ms"] = worker.ask("trace")["outside_kernels_ms"]
        elif not arguments.no_peak:
            row["peak_bytes"] = worker.ask("peak")["peak_tensor_bytes"]
        rows.append(row)
        worker.quit()
    return rows


def print_rows(arguments, rows):
    options = "".join(f", {name} {value}" for name, value in arguments.options.items())
    print(f"{arguments.model}{options}, batch {arguments.batch}, {arguments.optimizer}, {arguments.threads} threads, "
          f"{arguments.steps} rounds, OMP_WAIT_POLICY {arguments.wait_policy}")
    print(f"{'':44} {'step ms':>9} {'quartiles':>19} {'peak MiB':>9} {'last loss':>10}  ours / theirs")
    for row in rows:
        low, middle, high = row["step_ms"]
        peak = f"{row['peak_bytes'] / 2**20:.1f}" if "peak_bytes" in row else ""
        name = row["name"] + (f" ({row['torch']})" if row["torch"] else "")
        ratios = "; ".join(f"{our.split(' ', 1)[1]} {q[1]:.3f} ({q[0]:.3f} to {q[2]:.3f})"
                           for our, q in row.get("ratio_ours_to_theirs", {}).items())
        print(f"{name:44} {middle:9.1f} {low:9.1f} {high:9.1f} {peak:>9} {row['last_loss']:10.4f}  {ratios}")
    for row in rows:
        if "outside_kernels_ms" in row:
            print(f"{row['name']}: {row['outside_kernels_ms']:.2f} ms of a step outside of kernels")


def main():
    arguments = parse_arguments()
    rows = compare(arguments)
    print_rows(arguments, rows)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"arguments": vars(arguments), "results": rows}, file, indent=2)
            file.write("\n")


if __name__ == "__main__":
    main()
