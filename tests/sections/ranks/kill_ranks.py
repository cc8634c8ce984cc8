"""Kills a rank of a training at a random time, again and again, and looks at what is left.

    python3 tests/sections/ranks/kill_ranks.py --program build/tests/training_ranks --mpirun mpirun --trials 100

Every job goes on from the last checkpoint of the one before. Half of them are left to the launcher, which ends the other
ranks; of the other half (--enable-recovery) the survivors have to find out by themselves. In each

    every rank ends within --seconds (0 hangs; Open MPI's launcher, which sometimes hangs at its own end, is counted apart),
    an update leaves the same variables on every rank, in every job that comes to it (0 half-applied steps),
    the counts of completed updates differ by one at most,
    a survivor ends by a typed error, and has the variables of its last update, or its session is torn and refuses to go on
    (SF-E323),
    checkpoints hold what that update left.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

# As root, which is what containers run tests as; no network but the loopback.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_pml": "ob1",
               "OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_oob_tcp_if_include": "lo", "OMP_WAIT_POLICY": "passive"}
UPDATES = 1_000_000


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="training_ranks")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=30, help="that a job may take behind the kill")
    parser.add_argument("--deadline-ms", type=int, default=2000, help="of the communicator")
    parser.add_argument("--latest-ms", type=float, default=400, help="the kill comes so long behind the first update, at most")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    return parser.parse_args()


class Job:
    """Ranks of one launcher; each prints into a file of its own."""

    def __init__(self, arguments, folder, number, recovers):
        self.ranks = arguments.ranks
        self.logs = [os.path.join(folder, f"log-{number}-{rank}") for rank in range(arguments.ranks)]
        checkpoints = os.path.join(folder, "checkpoints")
        shell = (f"exec '{arguments.program}' '{checkpoints}' {UPDATES} {arguments.deadline_ms} "
                 f"> '{folder}/log-{number}-'$OMPI_COMM_WORLD_RANK 2>&1")
        self.launcher = subprocess.Popen(
            [arguments.mpirun, *(["--enable-recovery"] if recovers else []), "--oversubscribe", "-n", str(self.ranks),
             "sh", "-c", shell], env={**os.environ, **ENVIRONMENT}, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)

    def text(self, rank):
        try:
            with open(self.logs[rank], encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def processes(self):
        """Of the ranks, once all train."""
        found = [re.search(r"process (\d+)\n.*update (\d+)", self.text(rank), re.DOTALL) for rank in range(self.ranks)]
        return [int(each[1]) for each in found] if all(found) else None

    def wait_for_training(self, seconds):
        end = time.monotonic() + seconds
        while self.launcher.poll() is None:
            is_late = time.monotonic() > end
            processes = self.processes()
            if processes:
                return processes
            if is_late:
                break
            time.sleep(0.01)
        raise SystemExit("no training has begun:\n" + "\n".join(self.text(rank) for rank in range(self.ranks)))

    def end(self, seconds, processes):
        """Whether all ranks, and whether the launcher, have ended by themselves in that time; what has not is ended."""
        end = time.monotonic() + seconds
        while True:
            # Asked once more where this program itself was held up.
            is_late = time.monotonic() > end
            ranks_ended, launcher_ended = not any(map(is_alive, processes)), self.launcher.poll() is not None
            if is_late or (ranks_ended and launcher_ended):
                break
            time.sleep(0.01)
        if not launcher_ended:
            self.launcher.kill()
            self.launcher.wait()
        for process in filter(is_alive, processes):
            os.kill(process, signal.SIGKILL)
        return ranks_ended, launcher_ended


def is_alive(process):
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def problems_of(job, killed, recovers, states):
    """What is wrong in what the ranks have printed. `states`: the variables of each update, of all jobs so far."""
    problems, last = [], []
    for rank in range(job.ranks):
        text = job.text(rank)
        # The last line of a rank that was killed may be cut off.
        updates = [(int(number), state) for number, state in re.findall(r"update (\d+) ([0-9a-f]{16})\n", text)]
        for number, state in updates:
            if states.setdefault(number, state) != state:
                problems.append(f"rank {rank} has other variables behind update {number}")
        last.append(updates[-1][0])
        left = re.search(r"left (\d+) (.*)\n", text)
        if left:
            last[-1] = int(left[1])
            known = states.get(int(left[1]))
            if "SF-E323" not in left[2] and known is not None and left[2] != known:
                problems.append(f"rank {rank} has half of a step behind update {left[1]}: {left[2]}")
        is_survivor = rank != killed
        if is_survivor and recovers and not re.search(r"ended by .*SF-E51[01]", text):
            problems.append(f"rank {rank} has not ended by a typed error: {text[-300:]}")
    if max(last) - min(last) > 1:
        problems.append(f"ranks have completed {last} updates")
    return problems


def main():
    arguments = parse_arguments()
    chance = random.Random(arguments.seed)
    print(f"seed {arguments.seed}", file=sys.stderr)
    found = {"trials": arguments.trials, "hangs": 0, "launcher_hangs": 0, "half_applied_steps": 0, "torn": 0,
             "refused_typed": 0}
    states = {}
    slowest, all_problems = 0.0, []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.trials):
            recovers = number % 2 == 1
            job = Job(arguments, folder, number, recovers)
            processes = job.wait_for_training(60)
            time.sleep(chance.uniform(0, arguments.latest_ms) / 1000)
            killed = chance.randrange(arguments.ranks)
            begin = time.monotonic()
            os.kill(processes[killed], signal.SIGKILL)
            ranks_ended, launcher_ended = job.end(arguments.seconds, processes)
            found["launcher_hangs"] += not launcher_ended
            if not ranks_ended:
                found["hangs"] += 1
                all_problems.append(f"trial {number}: hangs")
            slowest = max(slowest, time.monotonic() - begin)
            problems = problems_of(job, killed, recovers, states)
            found["half_applied_steps"] += sum("variables" in each or "half" in each for each in problems)
            texts = [job.text(rank) for rank in range(arguments.ranks)]
            found["torn"] += sum("SF-E323" in text for text in texts)
            found["refused_typed"] += sum(bool(re.search(r"ended by .*SF-E51[01]", text)) for text in texts)
            all_problems += [f"trial {number}: {problem}" for problem in problems]
    found.update(updates=max(states), slowest_end_s=round(slowest, 2), problems=all_problems)
    print(json.dumps(found, indent=1))
    return 1 if all_problems else 0


if __name__ == "__main__":
    sys.exit(main())
