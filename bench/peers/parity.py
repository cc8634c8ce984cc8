"""Trains a network of the zoo in SectionFlow and in PyTorch from the same weights on the same batches, and compares.

    python3 bench/peers/parity.py --program build/bench/bench_train_steps --model mnist_resnet

What SectionFlow is held against is PyTorch in double precision, so that our own rounding alone counts; how far PyTorch
in single precision is from the same is printed beside it. The exit code is 1 where ours is outside of a limit.

Judged are

- each step from our own state before it (variables and the optimizer's slots): the loss, and what the step makes of all
  trained parameters and of all moving averages. Limit 1e-6, or a tenth of what PyTorch in single precision is off,
  where that is more: Adam's first steps turn the smallest gradients into whole steps. Of the loss it is four times what
  PyTorch in single precision is off: batch norms one behind another amplify what the first layers have rounded.
- twenty steps on end, each side from its own state: losses, parameters and moving averages. Limit 1e-4, or four times
  what PyTorch in single precision is off by then where that is more, but never above 1e-2: training amplifies the
  smallest difference, an element on the other side of a relu's kink, at a pace that network and learning rate decide.

With --bf16 ours computes in mixed precision, and PyTorch under torch.autocast takes the place of single precision. Its
distance from double precision is the yardstick: the limit is half as much again, of losses on end, each of which may
lie anywhere within the noise, four times as much.

A difference is that of all values together, |a - b| / |b| with Euclidean lengths.

Made equal here: Adam's epsilon stands beside sqrt(v) in SectionFlow and beside sqrt(v / (1 - beta2^t)) in PyTorch, so
PyTorch gets epsilon / sqrt(1 - beta2^t); the moving variance is of the biased variance in SectionFlow and of the
unbiased one in PyTorch, so that PyTorch's is brought back with the number of values that each batch norm sees. Nothing
is dropped on either side, whose random numbers are not the same.
"""

import argparse
import math
import os
import sys
import tempfile

from worker import Worker, model_options, option_arguments

# Small sizes, for which a run takes seconds; what is given on the command line goes before.
SIZES = {
    "mnist_resnet": {"batch": 16, "optimizer": "adam", "learning_rate": 1e-4, "options": {}},
    "gpt": {"batch": 4, "optimizer": "adam", "learning_rate": 3e-4,
            "options": {"layers": 2, "width": 64, "heads": 4, "sequence": 32, "vocabulary": 97}},
    "vit_small": {"batch": 8, "optimizer": "adam", "learning_rate": 1e-4,
                  "options": {"image": 64, "classes": 10, "width": 64, "layers": 2, "heads": 4}},
    "bert_base": {"batch": 4, "optimizer": "adam", "learning_rate": 1e-4,
                  "options": {"layers": 2, "width": 64, "heads": 4, "sequence": 32, "vocabulary": 97}},
    "llama": {"batch": 4, "optimizer": "adam", "learning_rate": 1e-4,
              "options": {"layers": 2, "width": 64, "heads": 4, "sequence": 32, "vocabulary": 97}},
    "lstm_lm": {"batch": 4, "optimizer": "adam", "learning_rate": 1e-3,
                "options": {"layers": 2, "width": 32, "sequence": 24, "vocabulary": 97}},
    "gru_lm": {"batch": 4, "optimizer": "adam", "learning_rate": 1e-3,
               "options": {"layers": 2, "width": 32, "sequence": 24, "vocabulary": 97}},
    "resnet": {"batch": 16, "optimizer": "momentum", "learning_rate": 1e-4,
               "options": {"image": 64, "classes": 10, "width": 16}},
    "vgg": {"batch": 16, "optimizer": "momentum", "learning_rate": 1e-4,
            "options": {"image": 64, "classes": 10, "width": 16}},
    "inception": {"batch": 16, "optimizer": "momentum", "learning_rate": 1e-7,
                  "options": {"image": 107, "classes": 10, "width": 8}},
    "xception": {"batch": 16, "optimizer": "momentum", "learning_rate": 1e-4,
                 "options": {"image": 75, "classes": 10, "width": 8}},
    "nasnet": {"batch": 16, "optimizer": "momentum", "learning_rate": 1e-5,
               "options": {"image": 75, "classes": 10, "width": 12}},
    "mobilenet": {"batch": 16, "optimizer": "momentum", "learning_rate": 1e-5,
                  "options": {"image": 64, "classes": 10, "width": 16}},
}


def sizes_of(model):
    return next((sizes for name, sizes in SIZES.items() if model.startswith(name)),
                {"batch": 8, "optimizer": "sgd", "learning_rate": 1e-2, "options": {}})


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
    parser.add_argument("--bf16", action="store_true", help="mixed precision, beside torch.autocast")
    parser.add_argument("--first-tolerance", type=float, default=1e-6, help="of one step")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="of all on end")
    arguments = parser.parse_args()
    sizes = sizes_of(arguments.model)
    arguments.options = {**sizes["options"], **model_options(arguments.option)}
    for name in ("batch", "optimizer", "learning_rate"):
        if getattr(arguments, name) is None:
            setattr(arguments, name, sizes[name])
    return arguments


# Read before PyTorch is looked for: --help needs none.
ARGUMENTS = parse_arguments() if __name__ == "__main__" else None

try:
    import numpy
    import torch
except ImportError as missing:
    raise SystemExit(f"parity.py: {missing}; run it by a Python that has PyTorch and numpy")

import safetensors_file
import torch_models
import torch_peer

ADAM_EPSILON, ADAM_BETA2 = torch_models.f32(1e-8), torch_models.f32(0.999)


class Reference:
    """The network in PyTorch, in one precision."""

    def __init__(self, arguments, batches, dtype, autocasts=False):
        self.dtype, self.autocasts = dtype, autocasts
        self.model = torch_models.make_model(arguments.model, arguments.options).to(dtype)
        self.batches = [(inputs.to(dtype) if inputs.is_floating_point() else inputs, labels)
                        for inputs, labels in torch_models.torch_batches(batches, "contiguous")]
        for layer in self.model.modules():
            if isinstance(layer, torch.nn.Dropout):
                layer.p = 0
        self.optimizer = torch_peer.make_optimizer(arguments.optimizer, self.model.parameters(),
                                                   arguments.learning_rate)
        self.name = arguments.optimizer
        self.norms = [m for m in self.model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
        self.counts = {}
        for norm in self.norms:
            norm.register_forward_hook(self.count_values)

    def count_values(self, module, inputs, _):
        self.counts[module.variable] = inputs[0].numel() // inputs[0].shape[1]

    def take(self, tensors, steps):
        """Our variables and slots, as they are after `steps` steps."""
        torch_models.load_variables(self.model, tensors)
        for name, (parameter, to_torch, _) in torch_models.variables_of(self.model).items():
            if not parameter.requires_grad:
                continue

            def slot(kind):
                return torch.from_numpy(to_torch(tensors[f"{name}/{kind}"]).copy()).to(self.dtype)

            if self.name == "adam":
                self.optimizer.state[parameter] = {"step": torch.tensor(float(steps)), "exp_avg": slot("adam_m"),
                                                   "exp_avg_sq": slot("adam_v")}
            elif self.name == "momentum":
                self.optimizer.state[parameter] = {"momentum_buffer": slot("momentum")}

    def step(self, index):
        inputs, labels = self.batches[index % len(self.batches)]
        for group in self.optimizer.param_groups:
            if self.name == "adam":
                group["eps"] = ADAM_EPSILON / math.sqrt(1 - ADAM_BETA2**(index + 1))
        before = {norm: norm.running_var.clone() for norm in self.norms}
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.autocasts):
            loss = self.model.loss(inputs, labels)
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            for norm, old in before.items():
                count, kept = self.counts[norm.variable], 1 - norm.momentum
                norm.running_var.copy_(kept * old + (norm.running_var - kept * old) * (count - 1) / count)
        return loss.item()

    def variables(self):
        return torch_models.read_variables(self.model)


def relative(a, b):
    a, b = numpy.asarray(a, numpy.float64), numpy.asarray(b, numpy.float64)
    size = numpy.linalg.norm(b)
    return float(numpy.linalg.norm(a - b) / size) if size > 0 else float(numpy.linalg.norm(a - b))


AVERAGES = ("moving_mean", "moving_variance")


def differences(variables, reference):
    """Of all trained parameters, and of all moving averages, together."""
    result = {}
    for kind, wanted in (("parameters", False), ("moving averages", True)):
        names = [n for n in sorted(reference) if (n.rsplit("/", 1)[-1] in AVERAGES) == wanted]
        if names:
            a, b = (numpy.concatenate([of[n].ravel().astype(numpy.float64) for n in names])
                    for of in (variables, reference))
            result[kind] = relative(a, b)
    return result


def run_ours(arguments, folder):
    """Our losses, all our variables before the first step and after each, and the batches."""
    command = [arguments.program, "--model", arguments.model, "--batch", str(arguments.batch), "--batches",
               str(arguments.batches), "--cut", arguments.cut, "--optimizer", arguments.optimizer, "--learning-rate",
               str(arguments.learning_rate), "--threads", str(arguments.threads), "--no-dropout",
               *option_arguments(arguments.options)]
    command += ["--bf16"] if arguments.bf16 else []
    worker = Worker(command)
    path = os.path.join(folder, "tensors.safetensors")

    def tensors(what):
        worker.ask(f"{what} {path}")
        return safetensors_file.read(path)

    batches, states, losses = tensors("batch"), [tensors("export")], []
    for _ in range(arguments.steps):
        losses.append(worker.ask("step")["loss"])
        states.append(tensors("export"))
    worker.quit()
    return losses, states, batches


BF16_SHARE = 1.5  # of what PyTorch is off under autocast


def compare_single_steps(references, losses, states, limit):
    """Each step from our own state before it: the largest difference of any step."""
    largest = {}
    for index, loss in enumerate(losses):
        ends = []
        for reference in references:
            reference.take(states[index], index)
            ends.append((reference.step(index), reference.variables()))
        (exact, judged), (rounded, theirs) = ends
        found = {"loss": (relative(loss, exact), relative(rounded, exact))}
        for kind, difference in differences(states[index + 1], judged).items():
            found[kind] = (difference, differences(theirs, judged)[kind])
        for kind, pair in found.items():
            largest[kind] = tuple(max(a, b) for a, b in zip(largest.get(kind, (0, 0)), pair))
    return [(f"one step from our state, {kind}, the worst of {len(losses)}", *pair,
             max(limit, pair[1] * (BF16_SHARE if references[1].autocasts else 4 if kind == "loss" else 0.1)))
            for kind, pair in largest.items()]


def limit_on_end(references, what, pytorch, reached, limit):
    """`reached`: what PyTorch has been off by so far."""
    if not references[1].autocasts:
        return max(limit, min(4 * reached, 100 * limit))
    return max(limit, 4 * reached if "loss" in what else BF16_SHARE * pytorch)


def compare_on_end(references, losses, states, limit):
    """All steps one after another, each side from its own state."""
    judge, single = references
    for reference in references:
        reference.take(states[0], 0)
    rows = []
    for index, loss in enumerate(losses):
        exact, rounded = judge.step(index), single.step(index)
        rows.append((f"on end, loss of step {index + 1}: {loss:.7f}", relative(loss, exact), relative(rounded, exact)))
    judged, theirs = judge.variables(), single.variables()
    for kind, difference in differences(states[-1], judged).items():
        rows.append((f"on end, {kind} after step {len(losses)}", difference, differences(theirs, judged)[kind]))
    bounded, reached = [], 0
    for what, ours, pytorch in rows:
        reached = max(reached, pytorch)
        bounded.append((what, ours, pytorch, limit_on_end(references, what, pytorch, reached, limit)))
    return bounded


def main(arguments):
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        losses, states, batches = run_ours(arguments, folder)
    references = [Reference(arguments, batches, torch.float64),
                  Reference(arguments, batches, torch.float32, arguments.bf16)]
    missing = set(torch_models.variables_of(references[0].model)) ^ {n for n in states[0] if is_model_variable(n)}
    if missing:
        print(f"variables of one side alone: {', '.join(sorted(missing))}")
        return 1
    return report(arguments, compare_single_steps(references, losses, states, arguments.first_tolerance) +
                  compare_on_end(references, losses, states, arguments.tolerance))


def is_model_variable(name):
    """Whether a variable belongs to the model rather than to an optimizer."""
    return name.rsplit("/", 1)[-1] not in ("adam_m", "adam_v", "adam_steps", "momentum")


def report(arguments, rows):
    options = ", ".join(f"{name} {value}" for name, value in arguments.options.items())
    print(f"{arguments.model}{', ' + options if options else ''}, batch {arguments.batch}, {arguments.optimizer} with "
          f"rate {arguments.learning_rate:g}, cut {arguments.cut}{', bf16' if arguments.bf16 else ''}; PyTorch {torch.__version__}")
    print(f"{'relative difference from PyTorch in double precision':70} {'ours':>9} {'PyTorch':>9} {'limit':>7}")
    outside = 0
    for what, ours, theirs, limit in rows:
        bad = not ours <= limit
        outside += bad
        print(f"{what:70} {ours:9.1e} {theirs:9.1e} {limit:7.0e}{'  OUTSIDE' if bad else ''}")
    print("parity: " + ("no" if outside else "yes"))
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main(ARGUMENTS))
