"""Times a frozen network of SectionFlow and the same in PyTorch in turn, in f32 and with 8 bits, and compares the times.

    python3 bench/peers/compare_inference.py --program build/bench/bench_inference --python VENV/bin/python --model resnet50

Each round times ours, in f32 and then with 8 bits, and then each way of PyTorch's (--peer, see torch_inference.py), a
process each: none has another's weights in its caches. PyTorch's have compiled and warmed up before the first round,
which takes minutes; what they compile lies in TORCHINDUCTOR_CACHE_DIR for the next call. With --wait the rounds begin
when a line comes on standard input: as soon as the machine is quiet, say. A ratio is that of medians in the same round.
f32 is compared with f32, 8 bits with 8 bits. VENV has torch, and torchao for pt2e.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

from rounds import add_round_arguments, environment_of, quartiles
from worker import Worker

HERE = os.path.dirname(os.path.abspath(__file__))
F32 = "fold_constants fold_batch_norms fuse pack_weights"
EIGHT_BITS = "fold_constants fold_batch_norms fuse quantize_nodes pack_weights"
PEERS = {"f32": ("eager", "compile", "tune"), "8 bits": ("fx", "pt2e", "pt2e-tune")}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="bench_inference")
    parser.add_argument("--python", required=True, help="one that has PyTorch")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--peer", action="append", choices=sum(PEERS.values(), ()), help="may be repeated; all if absent")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=12, help="of each in a round, of which the median counts")
    parser.add_argument("--wait", action="store_true", help="for a line on standard input, when all have warmed up")
    add_round_arguments(parser)
    return parser.parse_args()


def measure_ours(arguments, kind):
    """Median milliseconds in f32 or with 8 bits."""
    lines = subprocess.run([arguments.program, "--model", arguments.model, "--batch", str(arguments.batch), "--runs",
                            str(arguments.runs), "--threads", str(arguments.threads), "--transforms",
                            {"f32": F32, "8 bits": EIGHT_BITS}[kind]],
                           check=True, stdout=subprocess.PIPE, text=True,
                           env={**os.environ, **environment_of(arguments)}).stdout.splitlines()
    return float(lines[-1].split()[0])


def start_peer(arguments, way):
    command = [arguments.python, os.path.join(HERE, "torch_inference.py"), "--model", arguments.model, "--batch",
               str(arguments.batch), "--way", way, "--threads", str(arguments.threads)]
    return Worker(command, environment_of(arguments))


def main():
    arguments = parse_arguments()
    ways = {kind: [way for way in each if not arguments.peer or way in arguments.peer] for kind, each in PEERS.items()}
    kinds = [kind for kind, each in ways.items() if each]
    peers = {way: start_peer(arguments, way) for kind in kinds for way in ways[kind]}
    ours, theirs = {kind: [] for kind in kinds}, {way: [] for way in peers}
    if arguments.wait:
        print("ready", flush=True)
        sys.stdin.readline()
    for _ in range(arguments.rounds):
        for kind in kinds:
            ours[kind].append(measure_ours(arguments, kind))
        for way, peer in peers.items():
            theirs[way].append(statistics.median(peer.ask(str(arguments.runs))))

    version = next(iter(peers.values())).ready["torch"]
    rows = []
    print(f"{arguments.model}, batch {arguments.batch}, {arguments.threads} threads, {arguments.rounds} rounds, PyTorch {version}")
    print(f"{'':20} {'ours ms':>9} {'theirs ms':>9}  ours / theirs (quartiles)")
    for kind in kinds:
        for way in ways[kind]:
            row = {"kind": kind, "theirs": way, "ours_ms": statistics.median(ours[kind]),
                   "theirs_ms": statistics.median(theirs[way]),
                   "ratio": quartiles([a / b for a, b in zip(ours[kind], theirs[way])])}
            rows.append(row)
            low, middle, high = row["ratio"]
            print(f"{kind + ', ' + way:20} {row['ours_ms']:9.2f} {row['theirs_ms']:9.2f}  {middle:.3f} ({low:.3f} to {high:.3f})")
    for peer in peers.values():
        peer.quit()
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"arguments": vars(arguments), "torch": version, "results": rows}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
