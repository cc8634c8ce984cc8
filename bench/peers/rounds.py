"""What comparisons in rounds have in common: both sides in turn, with the same threads."""

import statistics


def add_round_arguments(parser):
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--wait-policy", choices=("passive", "active", "unset"), default="unset", help="OMP_WAIT_POLICY of both")
    parser.add_argument("--json", help="write the results to this file too")


def environment_of(arguments):
    environment = {"OMP_NUM_THREADS": str(arguments.threads)}
    if arguments.wait_policy != "unset":
        environment["OMP_WAIT_POLICY"] = arguments.wait_policy
    return environment


def quartiles(samples):
    """Of one sample that one, three times."""
    return statistics.quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else [samples[0]] * 3
