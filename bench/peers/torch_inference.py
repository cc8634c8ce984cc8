"""Answers by a network in PyTorch, some runs a command, for compare_inference.py.

    N       a line of JSON: the milliseconds of each of N runs
    quit

Ways, all in inference mode with channels last:

    eager           as it is
    compile         torch.compile, weights frozen
    tune            the same with mode "max-autotune"
    fx              8 bits by FX graph mode and the engine x86: ranges and weights as its default configuration says
    pt2e            8 bits by torchao's X86InductorQuantizer on the exported graph, then torch.compile, weights frozen
    pt2e-tune       the same with mode "max-autotune"

Runs under any Python with torch, and torchao for the last two.
"""

import argparse
import copy
import json
import sys
import time

WAYS = ("eager", "compile", "tune", "fx", "pt2e", "pt2e-tune")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--options", default="{}", help="of the model, as JSON")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--image", type=int, default=224, help="height and width")
    parser.add_argument("--way", choices=WAYS, default="compile")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warm-up", type=int, default=5, help="runs before the first command")
    return parser.parse_args()


# Read before PyTorch is looked for: --help needs none.
ARGUMENTS = parse_arguments() if __name__ == "__main__" else None

import torch

import torch_models


def make_network(arguments):
    """With moving averages that are not those of a beginning, so that nothing folds to what it was."""
    torch.manual_seed(0)
    network = torch_models.make_model(arguments.model, json.loads(arguments.options)).eval()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.uniform_(-0.1, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return network.to(memory_format=torch.channels_last)


def quantized_by_fx(network, images):
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
    torch.backends.quantized.engine = "x86"
    prepared = prepare_fx(copy.deepcopy(network), get_default_qconfig_mapping("x86"), (images,))
    prepared(images)
    return convert_fx(prepared)


def quantized_by_export(network, images):
    import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(torch.export.export(network, (images,), strict=True).module(), quantizer)
    prepared(images)
    return convert_pt2e(prepared)


def compiled(network, tuned):
    import torch._inductor.config as inductor
    inductor.freezing = True
    return torch.compile(network, mode="max-autotune" if tuned else None)


def prepare(way, network, images):
    if way == "fx":
        return quantized_by_fx(network, images)
    if way.startswith("pt2e"):
        network = quantized_by_export(network, images)
    return network if way == "eager" else compiled(network, way.endswith("tune"))


def main():
    torch.set_num_threads(ARGUMENTS.threads)
    images = torch.randn(ARGUMENTS.batch, 3, ARGUMENTS.image, ARGUMENTS.image).to(memory_format=torch.channels_last)
    with torch.no_grad():
        network = prepare(ARGUMENTS.way, make_network(ARGUMENTS), images)
        for _ in range(ARGUMENTS.warm_up):
            network(images)
        print(json.dumps({"ready": True, "torch": torch.__version__}), flush=True)
        for line in sys.stdin:
            if line.strip() == "quit":
                break
            times = []
            for _ in range(int(line)):
                begin = time.perf_counter()
                network(images)
                times.append((time.perf_counter() - begin) * 1000)
            print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
