"""Times single operations of PyTorch for compare_operations.py: a line of JSON of what is to be timed, a line of answer."""

import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as functional


def product(shape, dtype, _):
    a, b, c = (torch.rand(shape, dtype=torch.float32).mul_(2).sub_(1).to(dtype) for _ in range(3))
    yield lambda: torch.mm(a, b, out=c)


def top_k(shape, dtype, settings):
    x = torch.randn(shape).to(dtype)
    yield lambda: torch.topk(x, int(settings["k"]))


def draws_of_logits(shape, dtype, settings):
    """What categorical is: draws by numbers that are no probabilities."""
    logits, draws = torch.randn(shape).to(dtype), int(settings["draws"])
    yield lambda: torch.multinomial(torch.softmax(logits, -1), draws, replacement=True)


def draws_of_probabilities(shape, dtype, settings):
    probabilities, draws = torch.softmax(torch.randn(shape), -1).to(dtype), int(settings["draws"])
    yield lambda: torch.multinomial(probabilities, draws, replacement=True)


def draws_by_gumbel(shape, dtype, settings):
    logits, draws = torch.randn(shape).to(dtype), int(settings["draws"])
    noise = torch.empty(shape[0], draws, shape[1], dtype=dtype)

    def draw():
        noise.exponential_()
        return (logits[:, None] - noise.log_()).argmax(-1)

    yield draw


def ctc(shape, dtype, _):
    examples, steps, classes = shape
    logits = torch.randn(shape).to(dtype).requires_grad_()
    num_labels = steps // 4
    labels = torch.randint(1, classes, (examples, num_labels))
    lengths, label_lengths = torch.full((examples,), steps), torch.full((examples,), num_labels)

    def forward():
        return functional.ctc_loss(torch.log_softmax(logits, -1).transpose(0, 1), labels, lengths, label_lengths, reduction="none")

    with torch.no_grad():
        yield forward
    losses = forward()
    dloss = torch.ones(examples, dtype=dtype)
    yield lambda: torch.autograd.grad(losses, logits, dloss, retain_graph=True)


WAYS = {
    "matmul": {"mm": product},
    "top_k": {"topk": top_k},
    "categorical": {"softmax, multinomial": draws_of_logits, "multinomial of probabilities": draws_of_probabilities,
                    "exponential, argmax": draws_by_gumbel},
    "ctc_loss": {"log_softmax, ctc_loss": ctc},
}


def median_ms(run, repeats, sweep):
    """Operands are out of the caches that a copy has gone through, as in bench_ops."""
    times = []
    for _ in range(repeats):
        sweep[0].copy_(sweep[1])
        begin = time.perf_counter()
        run()
        times.append((time.perf_counter() - begin) * 1000)
    return statistics.median(times)


def measure(request, sweep):
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[request["dtype"]]
    shape = [int(side) for side in request["shape"].split("x")]
    answer = {}
    for name, way in WAYS[request["op"]].items():
        parts = zip(("forward", "gradient"), way(shape, dtype, request["settings"]))
        answer[name] = {part: median_ms(run, request["repeats"], sweep) for part, run in parts}
    return answer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--copy-mib", type=int, default=256)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    sweep = [torch.ones(arguments.copy_mib << 18) for _ in range(2)]
    print(json.dumps({"ready": True, "torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        if line.strip() == "quit":
            break
        print(json.dumps(measure(json.loads(line), sweep)), flush=True)


if __name__ == "__main__":
    main()
