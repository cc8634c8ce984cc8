"""Measures what planning reaches, and prints it as tables: plans against bounds, and trained steps against whole graphs.

    python3 bench/planning_figures.py --build build --json figures.json
    python3 bench/planning_figures.py --build build --rows steps --threads 1
    python3 bench/planning_figures.py --build build --rows steps --only C5,C6 --folder kept --until plans --json figures.json

`plans` needs a quiet machine for its seconds alone: plans are of instances and of the nominal machine. `steps` trains, in
turns with the whole graph, on a machine that does nothing else, by a profile that is measured first and plans that are
searched for by it. --folder keeps both, and what lies there is not made again: with --until the stages are calls of their
own, of which those of plans may take their time beside others. Every row is in --json as soon as it is there; with --only
the file keeps its other rows. `budget` is a share of the whole graph's transient peak, without variables; `floor` is what no plan
does with less than: one operation with its operands, and, where variables are away, with those.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

SHARES = (90, 80, 70, 60, 50, 40, 30, 25, 20, 15)
# 6 layers of 512 features in f32 on a slow device; what `--generate gpt` makes by itself has 12 of 4096 in bf16.
SMALL_GPT = ["--layers", "6", "--hidden", "512", "--tokens", "1024", "--sequence", "256", "--element-bytes", "4",
             "--flops", "1e11", "--memory-rate", "1e10", "--launch", "0"]
LARGE_LAYERS = 205  # about 5,000 operations
RESNET = ["--model", "resnet50", "--batch", "8"]
GPT = ["--model", "gpt", "--layers", "6", "--width", "512", "--heads", "8", "--sequence", "256", "--vocabulary", "4096",
       "--batch", "4"]
LOWER_TIERS = ["--host-memory", "500MiB", "--disk", "4GiB"]
MIB = 1 << 20
STAGES = ("profiles", "plans", "steps")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Measures what planning reaches.")
    parser.add_argument("--build", default="build", help="folder of the programs")
    parser.add_argument("--rows", choices=("plans", "steps", "all"), default="all")
    parser.add_argument("--only", help="rows of which all these words are, or those: 'C5 auto:swap,P2 resnet50'")
    parser.add_argument("--until", choices=STAGES, default="steps", help="the last stage of steps")
    parser.add_argument("--json", help="the file that results are written to")
    parser.add_argument("--folder", help="of instances, profiles and plans; by itself one that is thrown away")
    parser.add_argument("--threads", type=int, default=2, help="of steps without a link; beside one, one computes")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--about", default="", help="machine and commit, for the head of --json")
    return parser.parse_args()


class Rows:
    """Results, in the file as soon as they are there."""

    KEYS = ("row", "graph", "model", "budget", "strategy")

    def __init__(self, arguments):
        self.path, self.about, self.rows = arguments.json, arguments.about, []
        self.only = [each.split() for each in arguments.only.split(",")] if arguments.only else []
        if self.only and self.path and os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                kept = json.load(file)
            self.rows, self.about = kept["rows"], self.about or kept["about"]

    def wants(self, *names):
        words = " ".join(names).replace(",", " ").split()
        return not self.only or any(all(word in words for word in each) for each in self.only)

    def wants_some(self, row):
        """Whether rows of this goal may be asked for: what is only worked out for them is left out otherwise."""
        return not self.only or any(row in each or not any(re.fullmatch("[CP][0-9]+", word) for word in each)
                                    for each in self.only)

    def add(self, **row):
        key = [row.get(name) for name in self.KEYS]
        same = [i for i, each in enumerate(self.rows) if [each.get(name) for name in self.KEYS] == key]
        if same:
            self.rows[same[0]] = row
        else:
            self.rows.append(row)
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
        if self.path:
            with open(self.path, "w", encoding="utf-8") as file:
                rows = ",\n".join("  " + json.dumps(each) for each in self.rows)
                file.write(f'{{"about": {json.dumps(self.about)},\n "rows": [\n{rows}\n ]}}\n')


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

    def search(self, path, *arguments):
        """Whether a plan fits, which is then in the file. What is looked for besides, the smallest budget, is ended."""
        command = [os.path.join(self.build, "tools/sectionflow"), "plan", *arguments, "--save-plan", path]
        search = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while search.poll() is None:
            if os.path.exists(path):
                search.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        return os.path.exists(path)

    def instance(self, path, *arguments):
        if not os.path.exists(path):
            subprocess.run([os.path.join(self.build, "bench/bench_plan"), *arguments, "--out", path], check=True,
                           stdout=subprocess.DEVNULL)
        return ["--instance", path]


def rounded(number, digits=3):
    return None if number is None else round(number, digits)


class Plans:
    """Searches of graphs that are told from no machine, each with its bound."""

    def __init__(self, programs, rows, folder):
        self.programs, self.rows, self.folder = programs, rows, folder

    def instance(self, name, *arguments):
        return self.programs.instance(os.path.join(self.folder, name + ".json"), *arguments)

    def measure(self, row, graph, problem, shares, *more):
        for share in shares:
            if not self.rows.wants(row, graph, f"{share}%"):
                continue
            found = self.programs.plan(*problem, "--budget", f"{share}%", *more)
            self.add(row, graph, share, found)
            if row == "P3" and graph == "layered":
                found = self.programs.plan(*problem, "--budget", f"{share}%", "--effort", str(10 * found["effort"]))
                self.add(row, "layered, ten times the effort", share, found)

    def add(self, row, graph, share, found):
        self.rows.add(row=row, graph=graph, operations=found["n"], budget=f"{share}%",
                      bound=rounded(found["lower_bound_overhead"]), plan=rounded(found["overhead"]),
                      gap=rounded(found["gap_points"]), seconds=rounded(found["seconds"], 1))


def measure_plans(programs, rows, folder):
    plans = Plans(programs, rows, folder)
    large = plans.instance("gpt", "--generate", "gpt", "--layers", "12")
    plans.measure("P1, P2", "gpt h4096", large, SHARES)
    plans.measure("P1, P2", "gpt h512", plans.instance("small", "--generate", "gpt", *SMALL_GPT), SHARES)
    plans.measure("P6", "gpt h4096, 50 GB/s", large, (50, 40, 30, 25), "--link", "50GB/s")
    for model in ("resnet50", "mobilenet_v2"):
        plans.measure("P2", model, ["--model", model], SHARES)
    plans.measure("P3", "layered", plans.instance("layered", "--generate", "layered", "--operations", "1000"), (90, 80, 70))
    deep = plans.instance("deep", "--generate", "gpt", "--layers", str(LARGE_LAYERS))
    plans.measure("P3", "gpt h4096, 205 layers", deep, (50,))
    measure_placements(programs, rows)


def measure_placements(programs, rows):
    """What memory a plan takes above what is alive at once."""
    for name, model in (("resnet50", RESNET), ("gpt", GPT)):
        for share in (50, 25):
            if not rows.wants("P7", name, f"{share}%"):
                continue
            found = programs.tool(*model, "--strategy", "auto:recompute", "--device-memory", f"{share}%")["plan"]
            rows.add(row="P7", graph=name, budget=f"{share}%", placed=found["planned_peak_bytes"],
                     alive=found["lower_bound_bytes"],
                     ratio=rounded(found["planned_peak_bytes"] / found["lower_bound_bytes"], 4),
                     variables=found["persistent_bytes"])


class Subject:
    """A model, how it is trained, and its profile, which is measured where the folder has none."""

    def __init__(self, programs, folder, name, model, *how):
        self.programs, self.folder, self.name, self.model, self.how = programs, folder, name, model, how
        self.profile = os.path.join(folder, name + ".profile")

    def measure_profile(self):
        if not os.path.exists(self.profile):
            # With a disk, so that its speed is measured too.
            self.programs.compare(*self.model, *self.how, *LOWER_TIERS, "--strategies", "whole", "--steps", "2",
                                  "--profile", self.profile)

    def whole(self, *more):
        return self.programs.tool(*self.model, *self.how, "--strategy", "whole", *more)["plan"]

    def forward_seconds(self):
        """Of the whole graph by the profile."""
        path = os.path.join(self.folder, "trace.json")
        self.whole("--profile", self.profile, "--trace", path)
        with open(path, encoding="utf-8") as file:
            events = [each for each in json.load(file)["traceEvents"] if each.get("ph") == "X" and each["tid"] == 1]
        backward = next(i for i, each in enumerate(events) if each["name"].startswith("gradients/"))
        return sum(each["dur"] for each in events[:backward]) / 1e6


class Steps:
    """Steps of models under budgets: profiles first, then plans, then the steps."""

    def __init__(self, arguments, programs, rows, folder):
        self.programs, self.rows, self.folder = programs, rows, folder
        self.stage, self.steps = STAGES.index(arguments.until), str(arguments.steps)

    def measure(self, row, subject, memory, strategies, *more):
        for strategy in strategies:
            if self.rows.wants(row, subject.name, memory, strategy):
                subject.measure_profile()
                if self.stage >= STAGES.index("plans"):
                    self.measure_one(row, subject, memory, strategy, more)

    def measure_one(self, row, subject, memory, strategy, more):
        path = os.path.join(self.folder, f"{row}_{subject.name}_{memory}_{strategy}.plan".replace(" ", "_"))
        setting = [*subject.model, *subject.how, *more, "--device-memory", memory, "--profile", subject.profile]
        if not os.path.exists(path) and not self.programs.search(path, *setting, "--strategy", strategy):
            self.rows.add(row=row, model=subject.name, budget=memory, strategy=strategy, fits=False)
            return
        if self.stage >= STAGES.index("steps"):
            found = self.programs.compare(*setting, "--strategies", strategy, "--plan", path, "--steps", self.steps)
            self.add(row, subject.name, memory, found["reference"], found["strategies"][0])

    def add(self, row, name, memory, whole, result):
        median = result["step_ms"]["median"]
        exact = all(tier["planned_bytes"] == tier["measured_bytes"] for tier in (result["host"], result["disk"]))
        exact = exact and result["planned_peak_bytes"] == result["measured_peak_bytes"]
        predicted = result["predicted_seconds"] * 1e3
        self.rows.add(
            row=row, model=name, budget=memory, strategy=result["name"], ratio=rounded(result["ratio"]),
            step_ms=rounded(median, 1), quartiles=[rounded(result["step_ms"][each], 1) for each in ("p25", "p75")],
            whole_ms=rounded(whole["step_ms"]["median"], 1), predicted_ms=rounded(predicted, 1),
            measured_over_predicted=rounded(median / predicted) if predicted else None,
            peak_mib=rounded(result["measured_peak_bytes"] / MIB, 1), planned_is_measured=exact,
            identical=result["identical"])


def measure_steps(arguments, programs, rows, folder):
    steps = Steps(arguments, programs, rows, folder)
    threads = ["--threads", str(arguments.threads)]
    resnet = Subject(programs, folder, "resnet50", RESNET, *threads)
    gpt = Subject(programs, folder, "gpt", GPT, *threads)
    for row, subject, share in (("C1", resnet, "50%"), ("C2", resnet, "25%"), ("C3", gpt, "50%"), ("C4", gpt, "25%")):
        steps.measure(row, subject, share, ["auto:recompute"])

    beside = Subject(programs, folder, "gpt_one_thread", GPT, "--threads", "1", "--copy-threads")
    steps.measure("C3, one thread", beside, "50%", ["auto:recompute"])
    measure_links(steps, beside)
    for subject in (resnet, gpt):
        measure_small_budgets(steps, subject)


def measure_links(steps, subject):
    if not steps.rows.wants_some("C5") and not steps.rows.wants_some("C6"):
        return
    subject.measure_profile()
    transient, forward = subject.whole()["transient_bytes"], subject.forward_seconds()
    for row, share in (("C5", 0.4), ("C6", 0.15)):
        link = ["--link", str(int(share * transient / forward))]
        steps.rows.add(row=row, link_mib_per_second=rounded(share * transient / forward / MIB, 1), forward_seconds=forward)
        steps.measure(row, subject, "50%", ["auto", "auto:recompute", "auto:swap"], *link)
        steps.measure(row, subject, "25%", ["auto"], *link)


def measure_small_budgets(steps, subject):
    """Near what the largest operation takes; with the variables in host memory and on disk, and on the device."""
    if not steps.rows.wants_some("C8") and not steps.rows.wants_some("C9"):
        return
    floor = steps.programs.plan(*subject.model, "--budget", "50%")["working_set"]
    away = ["--swap-variables"]
    least = steps.programs.tool(*subject.model, *subject.how, *away, "--strategy", "auto", "--device-memory", "1B")
    floor_away, whole = least["plan"]["planned_peak_bytes"], subject.whole()
    steps.rows.add(row="C9", model=subject.name, floor_mib=rounded(floor / MIB, 1),
                   floor_away_mib=rounded(floor_away / MIB, 1), total_mib=rounded(whole["planned_peak_bytes"] / MIB, 1))
    if subject.name == "resnet50":
        tenth = max(whole["planned_peak_bytes"] // 10, int(1.1 * floor_away))
        steps.measure("C8", subject, str(tenth), ["auto"], *LOWER_TIERS, *away)
    steps.measure("C9, variables away", subject, str(int(1.05 * floor_away)), ["auto"], *away)
    there = whole["persistent_bytes"] + int(1.05 * floor)
    steps.measure("C9", subject, str(there), ["auto"])


def main():
    arguments = parse_arguments()
    programs, rows = Programs(arguments.build), Rows(arguments)
    with tempfile.TemporaryDirectory() as thrown_away:
        folder = arguments.folder or thrown_away
        os.makedirs(folder, exist_ok=True)
        if arguments.rows in ("plans", "all"):
            measure_plans(programs, rows, folder)
        if arguments.rows in ("steps", "all"):
            measure_steps(arguments, programs, rows, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
