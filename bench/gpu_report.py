"""Makes one JSON and one table in Markdown of what scripts/gpu_check.sh has left in its work folder."""

import argparse
import datetime
import json
import os
import re
import statistics

MOST_BYTES = 1_000_000


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", required=True, help="folder with stages.tsv and the JSON files of the stages")
    parser.add_argument("--results", required=True, help="folder to write to")
    parser.add_argument("--device", required=True, help="name of the GPU, or none")
    parser.add_argument("--suffix", default="", help="of the files' names")
    return parser.parse_args()


def read_stages(work):
    stages = []
    with open(os.path.join(work, "stages.tsv")) as file:
        for line in file:
            name, outcome, seconds, remark, commit = line.rstrip("\n").split("\t")
            stages.append({"name": name, "outcome": outcome, "seconds": int(seconds), "remark": remark, "commit": commit})
    return stages


def read_results(work, stages):
    """What each stage measured; a stage that was stopped may have left half a file."""
    results = {}
    for stage in stages:  # of rows of one name the last one's files are there
        path = os.path.join(work, stage["name"])
        try:
            with open(path + ".json") as file:
                results[stage["name"]] = json.load(file)
        except (FileNotFoundError, json.JSONDecodeError):
            rounds = read_rounds(path + ".rounds")
            if rounds:
                results[stage["name"]] = rounds
    for result in results.values():
        if "arguments" in result:  # without what is a path on that machine
            result["arguments"] = {name: value for name, value in result["arguments"].items()
                                   if name not in ("program", "json", "rounds", "cache", "debian_python")}
    return results


def quartiles(samples):
    return statistics.quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else [samples[0]] * 3


def read_rounds(path):
    """What compare_speed.py had measured when it was stopped, in the form of its results; nothing without a round."""
    try:
        with open(path) as file:
            head, *rounds = [json.loads(line) for line in file if line.endswith("\n")]
    except (FileNotFoundError, ValueError):
        return None
    if not rounds:
        return None
    times = {name: [r["step_ms"][name] for r in rounds] for name in rounds[0]["step_ms"]}
    ours = [name for name in times if name.startswith("sectionflow ")]
    rows = [{"name": name, "step_ms": quartiles(samples), "last_loss": rounds[-1]["loss"][name]} for name, samples in times.items()]
    for row in rows:
        if row["name"] not in ours:
            row["ratio_ours_to_theirs"] = {
                our: quartiles([a / b for a, b in zip(times[our], times[row["name"]])]) for our in ours}
    return {**head, "rounds": len(rounds), "results": rows}


def read_choices(work):
    """By model and precision: the problems of libraries, and those for which none of their algorithms is taken."""
    choices = {}
    for name in sorted(os.listdir(work)):
        found = re.fullmatch(r"choices_(\w+)\.json", name)
        if found:
            with open(os.path.join(work, name)) as file:
                algorithms = json.load(file)["algorithms"]
            choices[found[1]] = {"problems": len(algorithms),
                                 "none": sorted(problem for problem, algorithm in algorithms.items() if algorithm == "none")}
    return choices


def choice_tables(choices):
    lines = []
    if choices:
        lines += ["", "## Algorithms of libraries", "", "| model and precision | problems | left to our own kernels |", "| --- | --- | --- |"]
        lines += [f"| {name} | {c['problems']} | {len(c['none'])} |" for name, c in choices.items()]
        # Who made the library and the GPU is said once, at the top.
        lines += [f"- {name}: {problem.split('multiprocessors: ')[-1]}" for name, c in choices.items() for problem in c["none"]]
    return lines


def precision(name):
    return next((word for word in ("bf16", "tf32") if word in name.split(":")), "f32")


def speed_tables(results):
    lines = []
    for stage, result in results.items():
        if not stage.startswith(("speed_", "compiled_")):
            continue
        arguments = result["arguments"]
        lines += ["", f"## {arguments['model']}, batch {arguments['batch']}", "",
                  "Milliseconds of a step, steps in turn; the ratio is ours to theirs in the same round, medians with quartiles.",
                  "", "| program | precision | step ms | peak MiB | ours / theirs |", "| --- | --- | --- | --- | --- |"]
        for row in result["results"]:
            low, middle, high = row["step_ms"]
            ratios = "; ".join(f"{our.removeprefix('sectionflow ')}: {q[1]:.3f} ({q[0]:.3f} to {q[2]:.3f})"
                               for our, q in row.get("ratio_ours_to_theirs", {}).items())
            peak = f"{row['peak_bytes'] / 2**20:.0f}" if "peak_bytes" in row else ""
            lines.append(f"| {row['name']} | {precision(row['name'])} | {middle:.3f} ({low:.3f} to {high:.3f}) | {peak} | {ratios} |")
    return lines


def strategy_tables(results):
    lines = []
    for stage, result in results.items():
        if not stage.startswith(("exactness_", "smoke_mnist")):
            continue
        reference = result["reference"]
        lines += ["", f"## Strategies: {result['model']}, batch {result['batch']}, {result['steps']} steps, budget "
                      f"{result['device_memory_bytes'] / 2**20:.0f} MiB ({stage})", "",
                  "Ratios are to the whole graph without a budget, steps in turn. Hidden: of the time of copies.", "",
                  "| strategy | fits | planned MiB | measured MiB | step ms | ratio | predicted ms | copied MiB | hidden | identical |",
                  "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
        for row in [reference, *result["strategies"]]:
            step = row.get("step_ms")
            middle = step["median"] if isinstance(step, dict) else step
            lines.append(f"| {row['name']} | {'yes' if row['fits'] else 'no'} | {row['planned_peak_bytes'] / 2**20:.1f} | "
                         f"{row['measured_peak_bytes'] / 2**20:.1f} | {middle:.3f} | {row['ratio']:.3f} | "
                         f"{1000 * row['predicted_seconds']:.1f} | {(row['bytes_out'] + row['bytes_in']) / 2**20:.0f} | "
                         f"{row['hidden_share']:.2f} | "
                         f"{'yes' if row['identical'] else 'no'} |")
    return lines


def fitting(report):
    """The report's text in at most 1 MB: the largest results are left out by name where it has more."""
    text = json.dumps(report, indent=1)
    while len(text) >= MOST_BYTES and report["results"]:
        largest = max(report["results"], key=lambda name: len(json.dumps(report["results"][name])))
        report = {**report, "left_out": [*report.get("left_out", []), largest],
                  "results": {name: result for name, result in report["results"].items() if name != largest}}
        text = json.dumps(report, indent=1)
    return text + "\n"


def main():
    arguments = parse_arguments()
    stages = read_stages(arguments.work)
    results = read_results(arguments.work, stages)
    date = datetime.date.today().isoformat()
    head = {"date": date, "device": arguments.device}
    lines = [f"# {date}, GPU: {arguments.device}", "",
             "| row | outcome | seconds | | commit |", "| --- | --- | --- | --- | --- |"]
    lines += [f"| {s['name']} | {s['outcome']} | {s['seconds']} | {s['remark'].replace('|', '/')} | {s['commit']} |" for s in stages]
    choices = read_choices(arguments.work)
    lines += speed_tables(results) + strategy_tables(results) + choice_tables(choices)
    name = re.sub(r"[^A-Za-z0-9]+", "_", arguments.device).strip("_").lower()
    path = os.path.join(arguments.results, f"{date}_gpu_{name}{arguments.suffix}")
    with open(path + ".json", "w") as file:
        file.write(fitting({**head, "stages": stages, "choices": choices, "results": results}))
    with open(path + ".md", "w") as file:
        file.write("\n".join(lines) + "\n")
    print(f"written: {path}.json, {path}.md")


if __name__ == "__main__":
    main()
