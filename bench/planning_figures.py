"""Measures what planning reaches, and prints it as tables: plans against bounds, and trained steps against whole graphs.

    python3 bench/planning_figures.py --build build --json figures.json
    python3 bench/planning_figures.py --build build --rows steps --threads 1

`plans` needs no quiet machine: times are of instances and of the nominal machine. `steps` trains, in turns with the
whole graph, on a machine that does nothing else, by a profile that is measured first and kept beside the results.
Every row is written to --json when it is there. `budget` is a share of the whole graph's transient peak, without variables;
`floor` is what no plan does with less than: one operation with its operands, and, where variables are away, with those.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

SHARES = (90, 80, 70, 60, 50, 40, 30, 25, 20, 15)
# 6 layers of 512 features in f32 on a slow device; what `--generate gpt` makes by itself has 12 of 4096 in bf16.
SMALL_GPT = ["--layers", "6", "--hidden", "512", "--tokens", "1024", "--sequence", "256", "--element-bytes", "4",
             "--flops", "1e11", "--memory-rate", "1e10", "--launch", "0"]
LARGE_LAYERS = 205  # about 5,000 operations
RESNET = ["--model", "resnet50", "--batch", "8"]
GPT = ["--model", "gpt", "--layers", "6", "--width", "512", "--heads", "8", "--sequence", "256", "--vocabulary", "4096",
       "--batch", "4"]
MIB = 1 << 20


def parse_arguments():
    parser = argparse.ArgumentParser(description="Measures what planning reaches.")
    parser.add_argument("--build", default="build", help="folder of the programs")
    parser.add_argument("--rows", choices=("plans", "steps", "all"), default="all")
    parser.add_argument("--json", help="the file that results are written to")
    parser.add_argument("--profiles", help="folder of the profiles; by itself one that is thrown away")
    parser.add_argument("--threads", type=int, default=2, help="of steps without a link; beside one, one computes")
    parser.add_argument("--steps", type=int, default=7)
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


class Programs:
    def __init__(self, build):
        self.build = build

    def results(self, program, *arguments):
        """What a program writes by --json. Status 1 is an answer too: there is no such plan."""
        command = [os.path.join(self.build, program), *arguments, "--json", "-"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}")
        return json.loads(done.stdout)

    def plan(self, *arguments):
        return self.results("bench/bench_plan", *arguments)

    def compare(self, *arguments):
        return self.results("bench/bench_compare", *arguments)

    def tool(self, *arguments):
        return self.results("tools/sectionflow", "plan", *arguments)

    def instance(self, path, *arguments):
        subprocess.run([os.path.join(self.build, "bench/bench_plan"), *arguments, "--out", path], check=True,
                       stdout=subprocess.DEVNULL)
        return ["--instance", path]


def rounded(number, digits=3):
    return None if number is None else round(number, digits)


def add_plan(rows, graph, budget, found, **more):
    rows.add(graph=graph, operations=found["n"], budget=budget, bound=rounded(found["lower_bound_overhead"]),
             plan=rounded(found["overhead"]), gap=rounded(found["gap_points"]), seconds=rounded(found["seconds"], 1),
             **more)


def measure_plans(programs, rows, folder):
    def instance(name, *arguments):
        return programs.instance(os.path.join(folder, name + ".json"), *arguments)

    large = instance("gpt", "--generate", "gpt", "--layers", "12")
    small = instance("small", "--generate", "gpt", *SMALL_GPT)
    for share in SHARES:
        add_plan(rows, "gpt h4096", f"{share}%", programs.plan(*large, "--budget", f"{share}%"))
    for share in SHARES:
        add_plan(rows, "gpt h512", f"{share}%", programs.plan(*small, "--budget", f"{share}%"))
    for share in (50, 40, 30, 25):
        found = programs.plan(*large, "--budget", f"{share}%", "--link", "50GB/s")
        add_plan(rows, "gpt h4096, 50 GB/s", f"{share}%", found)
    for model in ("resnet50", "mobilenet_v2"):
        for share in SHARES:
            add_plan(rows, model, f"{share}%", programs.plan("--model", model, "--budget", f"{share}%"))
    layered = instance("layered", "--generate", "layered", "--operations", "1000")
    for share in (90, 80, 70):
        found = programs.plan(*layered, "--budget", f"{share}%")
        add_plan(rows, "layered", f"{share}%", found)
        more = programs.plan(*layered, "--budget", f"{share}%", "--effort", str(10 * found["effort"]))
        add_plan(rows, "layered, ten times the effort", f"{share}%", more)
    deep = instance("deep", "--generate", "gpt", "--layers", str(LARGE_LAYERS))
    add_plan(rows, "gpt h4096, 205 layers", "50%", programs.plan(*deep, "--budget", "50%"))
    measure_placements(programs, rows)


def measure_placements(programs, rows):
    """What memory a plan takes above what is alive at once."""
    for name, model in (("resnet50", RESNET), ("gpt", GPT)):
        for share in (50, 25):
            found = programs.tool(*model, "--strategy", "auto:recompute", "--device-memory", f"{share}%")["plan"]
            rows.add(graph=name, budget=f"{share}%", placed=found["planned_peak_bytes"],
                     alive=found["lower_bound_bytes"],
                     ratio=rounded(found["planned_peak_bytes"] / found["lower_bound_bytes"], 4))


def forward_seconds(programs, model, profile, folder):
    """Of the whole graph by a profile."""
    path = os.path.join(folder, "trace.json")
    programs.tool(*model, "--strategy", "whole", "--profile", profile, "--trace", path)
    with open(path, encoding="utf-8") as file:
        events = [each for each in json.load(file)["traceEvents"] if each.get("ph") == "X" and each["tid"] == 1]
    backward = next(i for i, each in enumerate(events) if each["name"].startswith("gradients/"))
    return sum(each["dur"] for each in events[:backward]) / 1e6


class Steps:
    """Steps of one model under budgets."""

    def __init__(self, arguments, programs, rows, folder):
        self.arguments, self.programs, self.rows, self.folder = arguments, programs, rows, folder

    def profile(self, name):
        return os.path.join(self.folder, name + ".profile")

    def measure(self, row, name, model, memory, strategies, *more):
        found = self.programs.compare(*model, "--steps", str(self.arguments.steps), "--device-memory", memory,
                                      "--strategies", ",".join(strategies), "--profile", self.profile(name), *more)
        for result in found["strategies"]:
            self.add(row, name, memory, found["reference"], result)

    def add(self, row, name, memory, whole, result):
        if not result["fits"]:
            return self.rows.add(row=row, model=name, budget=memory, strategy=result["name"],
                                 misfit=result.get("misfit", ""))
        median = result["step_ms"]["median"]
        exact = all(tier["planned_bytes"] == tier["measured_bytes"] for tier in (result["host"], result["disk"]))
        exact = exact and result["planned_peak_bytes"] == result["measured_peak_bytes"]
        predicted = result["predicted_seconds"] * 1e3
        return self.rows.add(
            row=row, model=name, budget=memory, strategy=result["name"], ratio=rounded(result["ratio"]),
            step_ms=rounded(median, 1), quartiles=[rounded(result["step_ms"][each], 1) for each in ("p25", "p75")],
            whole_ms=rounded(whole["step_ms"]["median"], 1), predicted_ms=rounded(predicted, 1),
            measured_over_predicted=rounded(median / predicted) if predicted else None,
            peak_mib=rounded(result["measured_peak_bytes"] / MIB, 1), planned_is_measured=exact,
            identical=result["identical"])


def measure_steps(arguments, programs, rows, folder):
    steps = Steps(arguments, programs, rows, folder)
    threads = ["--threads", str(arguments.threads)]
    for row, name, model in (("C1, C2", "resnet50", RESNET), ("C3, C4", "gpt", GPT)):
        for share in ("50%", "25%"):
            steps.measure(row, name, model, share, ["auto:recompute"], *threads)

    beside = ["--threads", "1", "--copy-threads"]
    steps.measure("C3, C4, one thread", "gpt_one_thread", GPT, "50%", ["auto:recompute"], *beside)
    transient = programs.tool(*GPT, *beside, "--strategy", "whole")["plan"]["transient_bytes"]
    forward = forward_seconds(programs, [*GPT, *beside], steps.profile("gpt_one_thread"), folder)
    for row, share in (("C5", 0.4), ("C6", 0.15)):
        link = ["--link", str(int(share * transient / forward))]
        rows.add(row=row, link_mib_per_second=rounded(share * transient / forward / MIB, 1), forward_seconds=forward)
        steps.measure(row, "gpt_one_thread", GPT, "50%", ["auto", "auto:recompute", "auto:swap"], *link, *beside)
        steps.measure(row, "gpt_one_thread", GPT, "25%", ["auto"], *link, *beside)

    for name, model in (("resnet50", RESNET), ("gpt", GPT)):
        measure_small_budgets(programs, steps, name, model, threads)


def measure_small_budgets(programs, steps, name, model, threads):
    """Near what the largest operation takes; with the variables in host memory and on disk, and on the device."""
    floor = programs.plan(*model, "--budget", "50%")["working_set"]
    away = ["--swap-variables", *threads]
    floor_away = programs.tool(*model, "--strategy", "auto", "--device-memory", "1B", *away)["plan"]["planned_peak_bytes"]
    whole = programs.tool(*model, "--strategy", "whole")["plan"]
    steps.rows.add(model=name, floor_mib=rounded(floor / MIB, 1), floor_away_mib=rounded(floor_away / MIB, 1),
                   total_mib=rounded(whole["planned_peak_bytes"] / MIB, 1))
    if name == "resnet50":
        tenth = max(whole["planned_peak_bytes"] // 10, int(1.1 * floor_away))
        steps.measure("C8", name, model, str(tenth), ["auto"], "--host-memory", "500MiB", "--disk", "4GiB", *away)
    steps.measure("C9, variables away", name, model, str(int(1.05 * floor_away)), ["auto"], *away)
    there = whole["persistent_bytes"] + int(1.05 * floor)
    steps.measure("C9", name, model, str(there), ["auto"], *threads)


def main():
    arguments = parse_arguments()
    programs, rows = Programs(arguments.build), Rows(arguments.json)
    with tempfile.TemporaryDirectory() as thrown_away:
        folder = arguments.profiles or thrown_away
        os.makedirs(folder, exist_ok=True)
        if arguments.rows in ("plans", "all"):
            measure_plans(programs, rows, folder)
        if arguments.rows in ("steps", "all"):
            measure_steps(arguments, programs, rows, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
