"""Trains a network in PyTorch, one step a command: the same protocol as bench_train_steps.

    step    {"ms": ..., "loss": ...}           on a GPU also "device_ms": between two events of its stream
    peak    {"peak_tensor_bytes": ..., ...}    runs one step under the profiler
    quit

Runs under any Python with torch and numpy. The weights and batches come from bench_train_steps (`export`, `batch`).
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time


def parse_arguments():
    parser = argparse.ArgumentParser(description="Trains a network in PyTorch on commands from standard input.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--options", default="{}", help="of the model, as JSON")
    parser.add_argument("--batches", required=True, help="safetensors file of bench_train_steps' batches")
    parser.add_argument("--weights", help="safetensors file of bench_train_steps' variables")
    parser.add_argument("--optimizer", choices=("sgd", "momentum", "adam"), default="adam")
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--fused", action="store_true", help="the optimizer's one-pass form")
    parser.add_argument("--layout", choices=("contiguous", "channels_last"), default="contiguous")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--checkpoint", help="a number of sections, or blocks: computes them again (torch.utils.checkpoint)")
    parser.add_argument("--save-on-cpu", action="store_true", help="torch.autograd.graph.save_on_cpu around the forward")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--tf32", action="store_true", help="on a GPU: f32 products and convolutions may round to TF32")
    parser.add_argument("--amp", choices=("bf16",), help="torch.autocast in this type; parameters stay f32")
    return parser.parse_args()


# Read before PyTorch is looked for: --help needs none.
ARGUMENTS = parse_arguments() if __name__ == "__main__" else None

import torch

import safetensors_file
import torch_models


def prepare_device(arguments):
    """The device, with PyTorch's global switches as asked for: TF32 is on or off for all of f32."""
    if arguments.device == "cuda":
        if not torch.cuda.is_available():
            raise SystemExit("--device cuda: this PyTorch finds no GPU")
        torch.backends.cuda.matmul.allow_tf32 = arguments.tf32
        torch.backends.cudnn.allow_tf32 = arguments.tf32
        torch.backends.cudnn.benchmark = True  # the fastest algorithms for these shapes, as users who care would have
    elif arguments.tf32:
        raise SystemExit("--tf32 is for --device cuda")
    return torch.device(arguments.device)


def check_data(batches):
    """Numbers that are all alike make a processor faster than it is."""
    for inputs, _ in batches:
        if inputs.numel() > 1 and bool((inputs == inputs.flatten()[0]).all()):
            raise SystemExit("the batches hold one number alone: their time would mean nothing")


def make_optimizer(name, parameters, learning_rate, fused=False):
    f32 = torch_models.f32
    more = {"fused": True} if fused else {}
    if name == "adam":
        return torch.optim.Adam(parameters, lr=f32(learning_rate), betas=(f32(0.9), f32(0.999)), **more)
    momentum = f32(0.9) if name == "momentum" else 0
    return torch.optim.SGD(parameters, lr=f32(learning_rate), momentum=momentum, **more)


class Training:
    def __init__(self, arguments):
        torch.manual_seed(0)
        torch.set_num_threads(arguments.threads)
        self.arguments = arguments
        self.device = prepare_device(arguments)
        self.on_gpu = self.device.type == "cuda"
        self.model = torch_models.make_model(arguments.model, json.loads(arguments.options))
        if arguments.weights:
            torch_models.load_variables(self.model, safetensors_file.read(arguments.weights))
        self.model = self.model.to(self.device)
        if arguments.layout == "channels_last":
            self.model = self.model.to(memory_format=torch.channels_last)
        if arguments.checkpoint:
            self.model.checkpoint(0 if arguments.checkpoint == "blocks" else int(arguments.checkpoint))
        self.batches = torch_models.torch_batches(safetensors_file.read(arguments.batches), arguments.layout)
        check_data(self.batches)
        if self.on_gpu:
            # Each step copies its batch, as a loader's would be: from pinned memory, behind nobody's back.
            self.batches = [tuple(t.pin_memory() for t in batch) for batch in self.batches]
            self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self.parameters = list(self.model.parameters())
        self.optimizer = make_optimizer(arguments.optimizer, self.parameters, arguments.learning_rate, arguments.fused)
        self.loss = torch.compile(self.model.loss) if arguments.compile else self.model.loss
        self.num_steps = 0

    def train(self):
        batch = self.batches[self.num_steps % len(self.batches)]
        inputs, labels = (t.to(self.device, non_blocking=True) for t in batch)
        self.num_steps += 1
        self.optimizer.zero_grad(set_to_none=True)
        saving, short = contextlib.nullcontext(), contextlib.nullcontext()
        if self.arguments.save_on_cpu:
            saving = torch.autograd.graph.save_on_cpu(pin_memory=self.on_gpu)
        if self.arguments.amp:
            short = torch.autocast(self.device.type, dtype=torch.bfloat16)
        with saving, short:
            loss = self.loss(inputs, labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def step(self):
        if self.on_gpu:
            return self.step_on_gpu()
        start = time.perf_counter()
        loss = self.train()
        return {"ms": 1000 * (time.perf_counter() - start), "loss": loss}

    def step_on_gpu(self):
        torch.cuda.synchronize()  # nothing of the step before
        begin, end = self.events
        start = time.perf_counter()
        begin.record()
        loss = self.train()
        end.record()
        torch.cuda.synchronize()
        ms = 1000 * (time.perf_counter() - start)
        return {"ms": ms, "loss": loss, "device_ms": begin.elapsed_time(end)}

    def peak(self):
        """The most bytes of tensors (oneDNN's scratch is among them) that are alive at once within a step: those that
        stay from step to step, and the highest running sum of what PyTorch's allocator hands out and takes back."""
        if self.num_steps == 0:
            self.train()  # the optimizer makes its state in the first step
        if self.on_gpu:
            return self.peak_on_gpu()
        self.optimizer.zero_grad(set_to_none=True)
        state = [t for slots in self.optimizer.state.values() for t in slots.values() if torch.is_tensor(t)]
        batch = self.batches[self.num_steps % len(self.batches)]
        # Of the labels four bytes each count, as in SectionFlow; PyTorch wants eight.
        kept = sum(t.numel() * t.element_size() for t in [*self.parameters, *self.model.buffers(), *state, batch[0]])
        kept += 4 * batch[1].numel()
        highest, allocations = running_sum(memory_events(self.train))
        return {"peak_tensor_bytes": kept + highest, "persistent_bytes": kept, "transient_bytes": highest,
                "allocations": allocations}


    def peak_on_gpu(self):
        """What PyTorch's allocator has handed out at most within a step; `reserved` is what it has of the GPU for that."""
        self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        kept = torch.cuda.memory_allocated()
        self.train()
        torch.cuda.synchronize()
        highest = torch.cuda.max_memory_allocated()
        return {"peak_tensor_bytes": highest, "persistent_bytes": kept, "transient_bytes": highest - kept,
                "reserved_bytes": torch.cuda.max_memory_reserved()}


def memory_events(call):
    """(address, bytes) of each allocation, and (address, -bytes) of each release, in order while `call` runs. Addresses
    are None where this build of PyTorch does not tell them; releases of what was there before are not reported then."""
    if not torch.profiler.kineto_available():
        from torch.autograd import profiler_legacy

        profiler_legacy._enable_profiler_legacy(profiler_legacy.profile(profile_memory=True).config())
        try:
            call()
        finally:
            threads = profiler_legacy._disable_profiler_legacy()
        return [(None, e.cpu_memory_usage()) for events in threads for e in events if e.kind() == "memory_alloc"]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path) as file:
            events = [e for e in json.load(file)["traceEvents"] if e.get("name") == "[memory]"]
    return [(e["args"]["Addr"], e["args"]["Bytes"]) for e in sorted(events, key=lambda e: e["ts"])]


def running_sum(events):
    """The highest sum of bytes allocated and not yet freed, and the number of allocations."""
    highest = now = allocations = 0
    alive = set()
    for address, size in events:
        if size > 0:
            allocations += 1
            alive.add(address)
        elif address is not None:
            if address not in alive:
                continue  # something from before
            alive.discard(address)
        now += size
        highest = max(highest, now)
    return highest, allocations


def main(arguments):
    training = Training(arguments)
    answers = sys.stdout
    sys.stdout = sys.stderr  # what PyTorch prints must not mix with the answers

    def answer(data):
        print(json.dumps(data), file=answers, flush=True)

    answer({"ready": True, "model": arguments.model, "threads": torch.get_num_threads(), "torch": torch.__version__,
            "device": torch.cuda.get_device_name() if training.on_gpu else "cpu"})
    for line in sys.stdin:
        command = line.strip()
        if command == "quit":
            break
        if command == "step":
            answer(training.step())
        elif command == "peak":
            answer(training.peak())
        else:
            answer({"error": f"'{command}' is no command; wanted step, peak or quit"})


if __name__ == "__main__":
    main(ARGUMENTS)
