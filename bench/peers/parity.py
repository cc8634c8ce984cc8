"""Trains a network of the zoo in SectionFlow and in PyTorch from the same weights on the same batches, and compares.

    python3 bench/peers/parity.py --program build/bench/bench_train_steps --model mnist_resnet

Judged are the loss of every step, and every variable after the first and after the last: relative 1e-6 after one step,
1e-4 after twenty. The exit code is 1 outside of that.

What SectionFlow is held against is PyTorch in double precision, so that only our own rounding counts; how far PyTorch
in single precision is from the same is printed beside it. A variable's difference is that of the whole tensor,
|a - b| / |b|.

Made equal here: Adam's epsilon stands beside sqrt(v) in SectionFlow and beside sqrt(v / (1 - beta2^t)) in PyTorch, so
PyTorch gets epsilon / sqrt(1 - beta2^t); the moving variance is of the biased variance in SectionFlow and of the
unbiased one in PyTorch, so that PyTorch's is brought back with the number of values that each batch norm sees.
"""

import argparse
import math
import os
import sys
import tempfile

import numpy
import torch

import safetensors_file
import torch_models
import torch_peer
from worker import Worker, model_options, option_arguments

# Small sizes, for which a run takes seconds; what is given on the command line goes before.
SIZES = {
    "mnist_resnet": {"batch": 16, "optimizer": "adam", "learning_rate": 1e-4, "options": {}},
    "resnet": {"batch": 8, "optimizer": "momentum", "learning_rate": 1e-2, "options": {"image": 64, "classes": 10}},
}
ADAM_EPSILON, ADAM_BETA2 = torch_models.f32(1e-8), torch_models.f32(0.999)


def sizes_of(model):
    return next((SIZES[name] for name in (model, model.rstrip("0123456789")) if name in SIZES),
                {"batch": 8, "optimizer": "sgd", "learning_rate": 1e-2, "options": {}})


class Reference:
    """The network in PyTorch, in one precision."""

    def __init__(self, arguments, weights, batches, dtype):
        self.model = torch_models.make_model(arguments.model, arguments.options)
        torch_models.load_variables(self.model, weights)
        self.model = self.model.to(dtype)
        self.batches = [(inputs.to(dtype) if inputs.is_floating_point() else inputs, labels)
                        for inputs, labels in torch_models.torch_batches(batches, "contiguous")]
        self.optimizer = torch_peer.make_optimizer(arguments.optimizer, self.model.parameters(),
                                                   arguments.learning_rate)
        self.adam = arguments.optimizer == "adam"
        self.counts = {}
        self.steps = 0
        for module in self.model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.register_forward_hook(self.count_values)

    def count_values(self, module, inputs, _):
        self.counts[module.variable] = inputs[0].numel() // inputs[0].shape[1]

    def step(self):
        inputs, labels = self.batches[self.steps % len(self.batches)]
        self.steps += 1
        if self.adam:
            for group in self.optimizer.param_groups:
                group["eps"] = ADAM_EPSILON / math.sqrt(1 - ADAM_BETA2**self.steps)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.model.loss(inputs, labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def variables(self):
        """In our layout, with moving averages of the biased variance."""
        variables = torch_models.read_variables(self.model)
        for module in self.model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                # running = kept * 1 + sum of shares * variance * n / (n - 1)
                kept, count = (1 - module.momentum)**self.steps, self.counts[module.variable]
                name = module.variable + "/moving_variance"
                variables[name] = kept + (variables[name] - kept) * (count - 1) / count
        return variables


def relative(a, b):
    a, b = numpy.asarray(a, numpy.float64), numpy.asarray(b, numpy.float64)
    size = numpy.linalg.norm(b)
    return float(numpy.linalg.norm(a - b) / size) if size > 0 else float(numpy.linalg.norm(a - b))


def worst(variables, reference):
    """The largest difference of any variable, and its name."""
    return max((relative(variables[name], array), name) for name, array in reference.items())


def parse_arguments():
    parser = argparse.ArgumentParser(description="Compares training in SectionFlow with training in PyTorch.")
    parser.add_argument("--program", required=True, help="bench_train_steps")
    parser.add_argument("--model", default="mnist_resnet")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=NUMBER", help="of the model")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--batches", type=int, default=4, help="different batches, gone round")
    parser.add_argument("--optimizer", choices=("sgd", "momentum", "adam"))
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--cut", default="blocks", help="of ours: whole, a number of sections, or blocks")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--first-tolerance", type=float, default=1e-6)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--list", action="store_true", help="print the difference of each variable too")
    arguments = parser.parse_args()
    sizes = sizes_of(arguments.model)
    arguments.options = {**sizes["options"], **model_options(arguments.option)}
    for name in ("batch", "optimizer", "learning_rate"):
        if getattr(arguments, name) is None:
            setattr(arguments, name, sizes[name])
    return arguments


def run_ours(arguments, folder):
    """Our losses, and our variables before, after one and after all steps, and the batches."""
    command = [arguments.program, "--model", arguments.model, "--batch", str(arguments.batch), "--batches",
               str(arguments.batches), "--cut", arguments.cut, "--optimizer", arguments.optimizer, "--learning-rate",
               str(arguments.learning_rate), "--threads", str(arguments.threads), *option_arguments(arguments.options)]
    worker = Worker(command)
    path = os.path.join(folder, "tensors.safetensors")

    def tensors(what):
        worker.ask(f"{what} {path}")
        return safetensors_file.read(path)

    before, batches = tensors("export"), tensors("batch")
    losses = [worker.ask("step")["loss"]]
    first = tensors("export")
    losses += [worker.ask("step")["loss"] for _ in range(arguments.steps - 1)]
    last = tensors("export")
    worker.quit()
    return losses, before, first, last, batches


def main():
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        losses, before, first, last, batches = run_ours(arguments, folder)
    judge = Reference(arguments, before, batches, torch.float64)
    single = Reference(arguments, before, batches, torch.float32)
    missing = set(torch_models.variables_of(judge.model)) ^ {n for n in before if is_model_variable(n)}
    if missing:
        print(f"variables of one side alone: {', '.join(sorted(missing))}")
        return 1
    rows = []  # (what, ours, PyTorch's own, tolerance)
    for step, loss in enumerate(losses):
        exact, rounded = judge.step(), single.step()
        limit = arguments.first_tolerance if step == 0 else arguments.tolerance
        rows.append((f"loss of step {step + 1}: {loss:.7f}", relative(loss, exact), relative(rounded, exact), limit))
        if step in (0, len(losses) - 1):
            reference, theirs = judge.variables(), single.variables()
            ours = first if step == 0 else last
            difference, name = worst(ours, reference)
            rows.append((f"variables after step {step + 1} (worst: {name})", difference, worst(theirs, reference)[0],
                         limit))
            if arguments.list:
                rows += [(f"  {n}", relative(ours[n], reference[n]), relative(theirs[n], reference[n]), limit)
                         for n in sorted(reference)]
    return report(arguments, rows)


def is_model_variable(name):
    """Whether a variable belongs to the model rather than to an optimizer."""
    return name.rsplit("/", 1)[-1] in ("kernel", "bias", "scale", "shift", "moving_mean", "moving_variance", "table")


def report(arguments, rows):
    options = ", ".join(f"{name} {value}" for name, value in arguments.options.items())
    print(f"{arguments.model}{', ' + options if options else ''}, batch {arguments.batch}, {arguments.optimizer} with "
          f"rate {arguments.learning_rate:g}, cut {arguments.cut}; PyTorch {torch.__version__}")
    print(f"{'relative difference from PyTorch in double precision':78} {'ours':>9} {'PyTorch':>9} {'limit':>7}")
    outside = 0
    for what, ours, theirs, limit in rows:
        bad = not ours <= limit
        outside += bad
        print(f"{what:78} {ours:9.1e} {theirs:9.1e} {limit:7.0e}{'  OUTSIDE' if bad else ''}")
    print("parity: " + ("no" if outside else "yes"))
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
