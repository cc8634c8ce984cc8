"""One of several processes that train a network in PyTorch by DistributedDataParallel or FSDP, over gloo.

    python3 torch_ranks.py --rank 0 --ranks 2 --port 29511 --kind ddp --model gpt --batches FILE --weights FILE --steps 7 ...

Rank 0 prints a line of JSON: the median of its steps, each begun by all ranks together, the loss of the last, and the most
bytes of tensors at once. The batches of rank r > 0 are in FILE.r, as bench_train_steps writes them.
"""

import argparse
import json
import os
import statistics
import sys
import time

KINDS = ("ddp", "fsdp")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Trains a network in PyTorch by several processes.")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--bucket-mb", type=float, default=25, help="of DDP")
    parser.add_argument("--no-view", action="store_true", help="DDP: gradients are no views of buckets")
    parser.add_argument("--static", action="store_true", help="DDP: the graph never changes")
    parser.add_argument("--model", required=True)
    parser.add_argument("--options", default="{}")
    parser.add_argument("--batches", required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--optimizer", choices=("sgd", "momentum", "adam"), default="adam")
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--layout", choices=("contiguous", "channels_last"), default="contiguous")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--warm-up", type=int, default=3)
    # What torch_peer.Training knows besides.
    parser.set_defaults(checkpoint=None, save_on_cpu=False, device="cpu", tf32=False, amp=None)
    arguments = parser.parse_args()
    if arguments.rank > 0:
        arguments.batches += f".{arguments.rank}"
    return arguments


ARGUMENTS = parse_arguments() if __name__ == "__main__" else None

import torch
import torch.distributed as dist
from torch import nn

import torch_peer


class Loss(nn.Module):
    """DDP wraps what is called."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, inputs, labels):
        return self.model.loss(inputs, labels)


class RankTraining(torch_peer.Training):
    def __init__(self, arguments):
        super().__init__(arguments)
        loss = Loss(self.model)
        if arguments.kind == "ddp":
            self.wrapped = nn.parallel.DistributedDataParallel(
                loss, bucket_cap_mb=arguments.bucket_mb, gradient_as_bucket_view=not arguments.no_view,
                static_graph=arguments.static, broadcast_buffers=False)
        else:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard
            mesh = init_device_mesh("cpu", (arguments.ranks,), mesh_dim_names=("shard",))
            # The first and the last may share a table, which whoever holds both of them gathers.
            for block in list(self.model.blocks)[1:-1]:
                fully_shard(block, mesh=mesh)
            self.wrapped = fully_shard(loss, mesh=mesh)
        self.parameters = list(self.wrapped.parameters())
        self.optimizer = torch_peer.make_optimizer(arguments.optimizer, self.parameters, arguments.learning_rate,
                                                   arguments.fused)
        self.loss = torch.compile(self.wrapped) if arguments.compile else self.wrapped

    def peak(self):
        """As torch_peer's, of what this rank has: shards count by their part; the buckets of DDP, which stay from step to
        step, are as large as the gradients."""
        def bytes_of(tensor):
            local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
            return local.numel() * local.element_size()

        self.optimizer.zero_grad(set_to_none=True)
        state = [t for slots in self.optimizer.state.values() for t in slots.values() if torch.is_tensor(t)]
        inputs, labels = self.batches[self.num_steps % len(self.batches)]
        kept = sum(map(bytes_of, [*self.parameters, *self.model.buffers(), *state, inputs])) + 4 * labels.numel()
        if self.arguments.kind == "ddp":
            kept += sum(map(bytes_of, self.parameters))
        highest, _ = torch_peer.running_sum(torch_peer.memory_events(self.train))
        return {"peak_tensor_bytes": kept + highest, "persistent_bytes": kept}


def main(arguments):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(arguments.port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=arguments.rank, world_size=arguments.ranks)
    training = RankTraining(arguments)
    for _ in range(arguments.warm_up):
        training.train()
    times, loss = [], 0
    for _ in range(arguments.steps):
        dist.barrier()
        answer = training.step()
        times.append(answer["ms"])
        loss = answer["loss"]
    peak = training.peak()
    if arguments.rank == 0:
        print(json.dumps({"step_ms": statistics.median(times), "steps_ms": times, "loss": loss, "torch": torch.__version__,
                          **peak}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(ARGUMENTS)
